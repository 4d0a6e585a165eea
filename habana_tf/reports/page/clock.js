// Draws the spans of a clock of a page on a canvas that can be moved and zoomed. It loads nothing.
"use strict";
const data = JSON.parse(document.getElementById("spans").textContent);
const ROW = 15, HEAD = 17, AXIS = 20;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const unit = us => us === 0 ? "0" : Math.abs(us) < 1 ? (us * 1e3).toPrecision(3) + " ns"
  : Math.abs(us) < 1e3 ? +us.toPrecision(4) + " µs"
  : Math.abs(us) < 1e6 ? +(us / 1e3).toPrecision(4) + " ms" : +(us / 1e6).toPrecision(4) + " s";
function axis(us, tick) {
  const [size, name] = tick < 1 ? [1e-3, " ns"] : tick < 1e3 ? [1, " µs"] : tick < 1e6 ? [1e3, " ms"] : [1e6, " s"];
  return (us / size).toFixed(0) + name;
}
function Clock(box, clock) {
  const canvas = box.querySelector("canvas"), note = box.querySelector(".note"), g = canvas.getContext("2d");
  let end = 1, height = AXIS, joined;  // joined: the number of the thing that the pointer rests on
  const rows = clock.rows.map(row => {
    let depth = 0;
    for (const s of row.spans) { end = Math.max(end, s[0] + s[1]); depth = Math.max(depth, s[4] + 1); }
    const made = {name: row.name, spans: row.spans, y: height};
    height += HEAD + depth * ROW + 4;
    return made;
  });
  let from = 0, to = end, width = 300, drag = null;
  canvas.style.height = height + "px";
  const x = t => (t - from) / (to - from) * width;
  function draw() {
    const scale = window.devicePixelRatio || 1;
    width = canvas.clientWidth || 300;
    canvas.width = width * scale; canvas.height = height * scale;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle";
    const fills = data.kinds.map(k => colour("k-" + k)), ink = colour("ink"), quiet = colour("quiet");
    const step = Math.pow(10, Math.floor(Math.log10((to - from) / (width / 110))));
    const tick = [1, 2, 5, 10].map(n => n * step).find(n => n >= (to - from) / (width / 110));
    g.fillStyle = quiet; g.strokeStyle = colour("rule"); g.textAlign = "left";
    for (let t = Math.ceil(from / tick) * tick; t < to; t += tick) {
      g.beginPath(); g.moveTo(x(t) + .5, AXIS - 6); g.lineTo(x(t) + .5, height); g.stroke();
      const text = axis(Math.round(t / tick) * tick, tick);
      if (x(t) + 3 + g.measureText(text).width < width) g.fillText(text, x(t) + 3, 8);
    }
    const meetings = new Map();
    for (const row of rows) {
      g.fillStyle = quiet; g.fillText(row.name, 2, row.y + HEAD / 2);
      let last = [];
      for (const s of row.spans) {
        if (s[0] > to || s[0] + s[1] < from) continue;
        const a = Math.max(x(s[0]), 0), b = Math.min(x(s[0] + s[1]), width), y = row.y + HEAD + s[4] * ROW;
        if (b - a < .7 && last[s[4]] !== undefined && a < last[s[4]] + .7) continue;
        last[s[4]] = a;
        if (s[5] !== undefined && b - a > 3) {
          const mine = meetings.get(s[5]) || [a, y, y];
          mine[2] = y + ROW; meetings.set(s[5], mine);
        }
        g.fillStyle = fills[s[2]]; g.fillRect(a, y, Math.max(b - a, .7), ROW - 1.5);
        if (b - a > 34) {
          g.save(); g.beginPath(); g.rect(a, y, b - a - 3, ROW); g.clip();
          g.fillStyle = ink; g.fillText(data.names[s[3]], a + 3, y + ROW / 2); g.restore();
        }
      }
    }
    for (const [number, [left, top, bottom]] of meetings) {
      if (bottom - top <= ROW) continue;
      g.strokeStyle = number === joined ? ink : quiet; g.globalAlpha = number === joined ? 1 : .35;
      g.beginPath(); g.moveTo(left + .5, top); g.lineTo(left + .5, bottom); g.stroke();
    }
    g.globalAlpha = 1;
  }
  function zoom(factor, at) {
    const middle = from + (to - from) * at, span = Math.min(Math.max((to - from) * factor, .01), end * 1.05);
    from = middle - span * at; to = from + span; limit(); draw();
  }
  function limit() {
    const span = to - from;
    if (from < -.02 * end) { from = -.02 * end; to = from + span; }
    if (to > 1.05 * end) { to = 1.05 * end; from = Math.max(to - span, -.02 * end); }
  }
  function hit(e) {
    const r = canvas.getBoundingClientRect(), px = e.clientX - r.left, py = e.clientY - r.top;
    const t = from + px / width * (to - from), near = (to - from) / width * 2;
    const row = rows.find((each, k) => py >= each.y && (k + 1 === rows.length || py < rows[k + 1].y));
    if (!row) return null;
    const depth = Math.floor((py - row.y - HEAD) / ROW);
    let best = null;
    for (const s of row.spans)
      if (s[4] === depth && t >= s[0] - near && t <= s[0] + s[1] + near && (!best || s[1] > best[1])) best = s;
    return best;
  }
  const told = s => data.names[s[3]] + ": " + unit(s[1]) + ", begins at " + unit(s[0]);
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(Math.pow(1.0015, e.deltaY), (e.clientX - canvas.getBoundingClientRect().left) / width);
  }, {passive: false});
  canvas.addEventListener("pointerdown", e => { drag = [e.clientX, from, to]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      const moved = (e.clientX - drag[0]) / width * (drag[2] - drag[1]);
      from = drag[1] - moved; to = drag[2] - moved; limit(); draw();
    }
    const s = hit(e), before = joined;
    note.textContent = s ? told(s) : "";
    joined = s ? s[5] : undefined;
    if (joined !== before) draw();
  });
  canvas.addEventListener("dblclick", e => {
    const s = hit(e);
    if (s) { from = s[0] - s[1] / 10; to = s[0] + s[1] * 1.1; limit(); draw(); }
  });
  canvas.addEventListener("keydown", e => {
    const moves = {ArrowLeft: -.2, ArrowRight: .2}, zooms = {"+": .6, "=": .6, "-": 1.6};
    if (e.key in zooms) zoom(zooms[e.key], .5);
    else if (e.key in moves) { const d = (to - from) * moves[e.key]; from += d; to += d; limit(); draw(); }
    else return;
    e.preventDefault();
  });
  const show = {whole: () => { from = 0; to = end; }, launch: () => { [from, to] = clock.show; }};
  for (const button of box.querySelectorAll("button"))
    button.addEventListener("click", () => {
      if (button.value === "in") return zoom(.5, .5);
      if (button.value === "out") return zoom(2, .5);
      show[button.value](); draw();
    });
  if (clock.cut) box.querySelector("figcaption").append(" " + clock.cut + " later spans are left out.");
  const first = box.querySelector("[value=launch]");
  if (clock.show.length) show.launch(); else if (first) first.disabled = true;
  draw();
  box.dataset.drawn = rows.length;
  return draw;
}
const draws = data.clocks.map((clock, k) => Clock(document.getElementById("clock" + k), clock));
const all = () => draws.forEach(draw => draw());
new ResizeObserver(all).observe(document.body);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
window.addEventListener("beforeprint", all); window.addEventListener("afterprint", all);
