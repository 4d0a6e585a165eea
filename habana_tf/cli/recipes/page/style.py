"""The page's style sheet, for light and dark screens and for paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --quiet: #66717e; --paper: #fff; --panel: #f5f7f9; --rule: #dde3e9;
  --mme: #7b4fc9; --tpc: #23835b; --blue: #2f6fc1; --bad: #cf4a4a; --sand: #c98a2b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e7ec; --quiet: #98a3af; --paper: #14191f; --panel: #1d242c;
  --rule: #323c47; --mme: #a583e8; --tpc: #4db58a; --blue: #6aa5ee; --bad: #e87474; --sand:
  #dfae62; } }
body { font: 14px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h2 small, .key { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; color: var(--quiet); }
.quiet, figcaption, dt, .tile span { color: var(--quiet); } p { margin: 0 0 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .75rem; margin-bottom:
  1rem; }
.tile { background: var(--panel); border-radius: 8px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.3rem; } .tile span { font-size: 12px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; }
figure { margin: 0 0 1rem; background: var(--panel); border-radius: 8px; padding: .75rem; }
figcaption { font-size: 12px; margin-bottom: .5rem; } .wide { overflow-x: auto; }
@media print { .wide { overflow: visible; } details > * { display: block; } body { max-width: none; } }
.tall { max-height: 900px; overflow: auto; } .tall svg, .wide svg { min-width: 760px; }
@media print { .tall { max-height: none; overflow: visible; } .tall svg, .wide svg { min-width: 0; } }
svg { max-width: 100%; height: auto; display: block; font: 11px "DejaVu Sans", system-ui, sans-serif; fill:
  var(--ink); }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--quiet); font-weight: 500; } .n { text-align: right; } .n, .whole { white-space: nowrap; }
.prose { min-width: 9rem; } .bad td { color:
  var(--bad); }
a { color: var(--blue); text-decoration: none; } dl { display: grid; grid-template-columns: 6rem 1fr; gap: .2rem
  .8rem;
  margin: 0 0 1rem; font-size: 12.5px; } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--quiet); padding: .5rem 0; }
.grid { stroke: var(--rule); } .label { fill: var(--quiet); font-size: 10px; } .spent { fill: var(--sand); }
.hit { fill: var(--blue); } .miss { fill: var(--panel); stroke: var(--sand); stroke-width: 1.5; }
.area { fill: var(--blue); opacity: .15; }
.line { fill: none; stroke: var(--blue); stroke-width: 1.5; } .dot { fill: var(--blue); }
.arc { fill: none; stroke: var(--quiet); opacity: .45; } .arc:hover { stroke: var(--blue); opacity: 1;
  stroke-width: 2; }
.kernel { fill: var(--paper); stroke-width: 1.5; } .MME { stroke: var(--mme); fill: color-mix(in srgb, var(--mme)
  18%, var(--paper)); }
.TPC { stroke: var(--tpc); fill: color-mix(in srgb, var(--tpc) 12%, var(--paper)); } .number { fill: var(--quiet);
  font-size: 10px; }
.op { fill: var(--paper); stroke: var(--rule); } .op-text { font-size: 10.5px; pointer-events: none; }
.kernel-text, .number { pointer-events: none; } .flops { fill: var(--mme); opacity: .75; } .bytes { fill:
  var(--blue); opacity: .6; }
.buffer { stroke: var(--paper); stroke-width: .7; opacity: .85; } .buffer:hover { opacity: 1; }
.b0 { fill: #4f86c6; } .b1 { fill: #5aa786; } .b2 { fill: #b98b4a; } .b3 { fill: #8d72b8; } .b4 { fill: #4aa3ac; }
  .b5 { fill: #b9697f; }
.alive { fill: none; stroke: var(--ink); stroke-width: 1.3; }
"""
