"""Plans as text: what was decided of a product's kernels, to be read, compared, changed by hand and replayed.

    tile m0/6 m1              rows of a tile: six indices of label m0, by all of m1
    vectors 2                 columns of a tile
    loops k0/256 rows/4 panels | rows      outermost first; those before the bar are the grid
    copies item               of b: none, item, call; of both operands: blocks
    grain 3                   work items that a thread takes at least

A label is named by its kind and its place in the canonical form: batch0, m0, n0, k0. A loop is over the indices of a
label, over row tiles, or over panels of columns; `rows/4` is over blocks of four row tiles, `k0/256` over chunks of 256
steps of the sum. Further lines, where they apply:

    lanes sum                 what lanes run along, if not columns
    sum k0 | k1/128 k2        of blocks: labels around a block of the sum, labels within
    engine 16                 pairs per step of a tile engine
    pairs, widened, compact, streams, overlapping       see `Plan`; `Tiling` for tiles that overlap
    winograd rows 6 ...       the sizes of blocks of Winograd's algorithm, instead of all others

What follows from these (numbers of tiles, panels and chunks) is not written: reading computes it. A plan that the
kernels cannot run is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from habana_tf.compiler.codegen.tiles.blocks import Blocks
from habana_tf.compiler.codegen.tiles.narrow import LaneAxis
from habana_tf.compiler.codegen.tiles.plan import Packing, Plan, by_winograd
from habana_tf.compiler.codegen.tiles.tiling import Dim, Tiling, loops_over, panel_loops, row_loops, row_tiles
from habana_tf.compiler.codegen.tiles.winograd import as_convolution
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent

FLAGS = {"pairs": "dot", "widened": "widen", "compact": "compact", "streams": "streams"}
"""Fields of a plan that are written as one word."""
WINOGRAD = ("rows", "channels", "panels", "tiles", "chunks")


class UnfitPlan(ValueError):
    """A plan that the kernels of its product cannot run, and why."""


def written(p: Plan, c: Canonical) -> str:
    """A plan as text. c: the canonical form of the product it is for."""
    if p.winograd:
        return " ".join(["winograd", *(f"{name} {getattr(p.winograd, name)}" for name in WINOGRAD)]) + "\n"
    names = {label.key: name for name, label in _labels(c).items()}
    t, blocks = p.tiling, p.blocks
    rows = [f"{names[t.split.key]}/{t.size}"] if t.split else []
    loops = [_word(dim, names) for dim in p.dims]
    lines = [
        " ".join(["tile", *rows, *(names[x.key] for x in t.whole)]),
        f"vectors {t.vectors}",
        " ".join(["loops", *loops[: p.grid_dims], "|", *loops[p.grid_dims :]]),
        f"copies {p.pack}",
        f"grain {p.grain}",
    ]
    if blocks:
        inside = [names[x.key] + (f"/{blocks.steps}" if x == blocks.split else "") for x in blocks.inside]
        lines.append(" ".join(["sum", *(names[x.key] for x in blocks.outer), "|", *inside]))
    lines += [f"lanes {p.lanes}"] if p.lanes != "columns" else []
    lines += [f"engine {p.amx}"] if p.amx else []
    lines += [word for word, field in FLAGS.items() if getattr(p, field)]
    lines += ["overlapping"] if t.overlaps and t.split and isinstance(t.split.extent, int) else []
    return "\n".join(lines) + "\n"


def _labels(c: Canonical) -> dict[str, Label]:
    """The labels of a product by name."""
    return {f"{kind}{i}": x for kind in ("batch", "m", "n", "k") for i, x in enumerate(getattr(c, kind))}


def _word(dim: Dim, names: dict[int, str]) -> str:
    over = dim.of if dim.kind == "block" else dim.kind
    name = names[dim.label.key] if dim.label and over not in ("rows", "panels") else over
    return f"{name}/{dim.size}" if dim.kind in ("block", "chunk") else name


def read(text: str, c: Canonical, target: Target) -> Plan:
    """The plan that a text says, for a product and a CPU; UnfitPlan where its kernels could not run it."""
    lines: dict[str, list[str]] = {}
    for line in filter(None, map(str.split, text.splitlines())):
        lines[line[0]] = line[1:]
    if "winograd" in lines:
        return _winograd(lines["winograd"], c, target)
    known = {"tile", "vectors", "loops", "copies", "grain", "sum", "lanes", "engine", "overlapping", *FLAGS}
    if missing := {"tile", "vectors", "loops", "copies"} - set(lines):
        raise UnfitPlan(f"no line says {', '.join(sorted(missing))}")
    if unknown := set(lines) - known:
        raise UnfitPlan(f"unknown lines: {', '.join(sorted(unknown))}")
    reader = _Reader(c, target, lines)
    t = reader.tiling()
    dims, grid_dims = reader.loops(t)
    pack = cast(Packing, reader.choice("copies", get_args(Packing), "none"))
    lanes = cast(LaneAxis, reader.choice("lanes", get_args(LaneAxis), "columns"))
    amx = reader.number("engine", 0)
    flags: dict[str, Any] = {field: word in lines for word, field in FLAGS.items()}
    made = Plan(t, dims, grid_dims, reader.number("grain", 1), pack, amx=amx, lanes=lanes, **flags)
    if pack == "blocks":
        made = replace(made, blocks=reader.blocks())
    _check(made, c, target)
    return made


def _winograd(words: Sequence[str], c: Canonical, target: Target) -> Plan:
    found = as_convolution(c.spec, target)
    if found is None:
        raise UnfitPlan("no convolution that Winograd's algorithm computes")
    if tuple(words[::2]) != WINOGRAD or not all(x.isdigit() and int(x) for x in words[1::2]):
        raise UnfitPlan(f"winograd: {', '.join(WINOGRAD)}, with a number each")
    sizes: dict[str, Any] = dict(zip(WINOGRAD, map(int, words[1::2]), strict=True))
    if not found.gradient and (sizes["chunks"] != 1 or sizes["tiles"] % sizes["rows"]):
        raise UnfitPlan("winograd: tiles are multiples of rows, and there is one chunk")
    if sizes["channels"] % found.tiling.lanes or sizes["tiles"] % 2:
        raise UnfitPlan("winograd: channels are whole vectors, and tiles are even")
    return by_winograd(replace(found, **sizes))


class _Reader:
    """Reads the lines of a plan."""

    def __init__(self, c: Canonical, target: Target, lines: dict[str, list[str]]) -> None:
        self.c, self.target, self.lines, self.labels = c, target, lines, _labels(c)

    def number(self, line: str, default: int) -> int:
        words = self.lines.get(line, [str(default)])
        if len(words) != 1 or not words[0].isdigit():
            raise UnfitPlan(f"{line}: a number, not {' '.join(words)}")
        return int(words[0])

    def choice(self, line: str, words: Sequence[str], default: str) -> str:
        found = " ".join(self.lines.get(line, [default]))
        if found not in words:
            raise UnfitPlan(f"{line}: {', '.join(words)}, not {found}")
        return found

    def label(self, word: str) -> tuple[Label, int]:
        """A label, and the size of its parts; 0 if it is not cut."""
        name, _, size = word.partition("/")
        if name not in self.labels or (size and not size.isdigit()):
            raise UnfitPlan(f"{word}: the labels are {', '.join(self.labels)}")
        return self.labels[name], int(size or 0)

    def tiling(self) -> Tiling:
        parts = [self.label(word) for word in self.lines["tile"]]
        cut = [x for x in parts if x[1]]
        if len(cut) > 1 or any(x.kind != "m" for x, _ in parts):
            raise UnfitPlan("tile: labels of rows, of which one may be cut")
        whole = tuple(x for x in self.c.m if (x, 0) in parts)
        if any(not isinstance(x.extent, int) for x in whole):
            raise UnfitPlan("tile: a label of a size known at run time only must be cut")
        split, size = cut[0] if cut else (None, 1)
        count, large = row_tiles(split.extent, size, "overlapping" in self.lines) if split else (1, 1)
        if isinstance(large, int) and large < 0:
            raise UnfitPlan(f"tile: no tiles of {size} and {size - 1} make {split.extent if split else 0} indices")
        lanes, vectors = self.target.lanes, self.number("vectors", 1)
        if not vectors:
            raise UnfitPlan("vectors: at least one")
        return Tiling(whole, split, size, count, large, vectors, -(-self.c.columns // (lanes * vectors)), lanes,
                      self.c.columns)  # fmt: skip

    def loops(self, t: Tiling) -> tuple[tuple[Dim, ...], int]:
        """The loops, and how many of them are the grid."""
        words = self.lines["loops"]
        if words.count("|") != 1:
            raise UnfitPlan("loops: one bar, behind the loops of the grid")
        grid = words.index("|")
        dims = [self._loop(word, t) for word in words if word != "|"]
        wanted = [*loops_over(self.c.outer), *row_loops(self.c, t), *panel_loops(self.c, t)]
        plain = [d for d in dims if d.kind not in ("block", "chunk")]
        if len(plain) != len(wanted) or any(d not in plain for d in wanted):
            names = {label.key: name for name, label in self.labels.items()}
            raise UnfitPlan(f"loops: over each of {', '.join(_word(d, names) for d in wanted)} once")
        for i, dim in enumerate(dims):
            if dim.kind == "block" and not any(d.kind == dim.of and d.label == dim.label for d in dims[i + 1 :]):
                raise UnfitPlan(f"loops: blocks of {dim.of} stand before the loop within them")
        if sum(d.kind == "chunk" for d in dims) > 1:
            raise UnfitPlan("loops: the sum is cut once")
        return tuple(dims), grid

    def _loop(self, word: str, t: Tiling) -> Dim:
        name, _, size = word.partition("/")
        if name in ("rows", "panels"):
            label = t.split if name == "rows" else self.c.lane
            if label is None or (size and (not size.isdigit() or not int(size))):
                raise UnfitPlan(f"loops: no {word} here")
            inner = Dim("rows", t.tiles, label) if name == "rows" else Dim("panels", t.panels, label)
        else:
            label, part = self.label(word)
            if label.kind == "k":
                if not part:
                    raise UnfitPlan(f"loops: over chunks of {name}, as {name}/256")
                return Dim("chunk", ext.ceil_div(label.extent, part), label, part)
            inner = Dim("label", label.extent, label)
        return inner.blocks(int(size)) if size else inner

    def blocks(self) -> Blocks:
        """How the sum is cut into blocks."""
        words = self.lines.get("sum", [])
        if words.count("|") != 1:
            raise UnfitPlan("sum: labels around a block, a bar, labels within")
        place = words.index("|")
        outer = tuple(self.label(word)[0] for word in words[:place])
        inside = [self.label(word) for word in words[place + 1 :]]
        if {x.key for x in outer} | {x.key for x, _ in inside} != {x.key for x in self.c.k} or not inside:
            raise UnfitPlan("sum: each of its labels once")
        if any(size for _, size in inside[1:]) or any(not isinstance(x.extent, int) for x, size in inside if not size):
            raise UnfitPlan("sum: the first label within a block may be cut, and must be if its size is not known")
        (first, steps), whole = inside[0], tuple(x for x, _ in inside[1:])
        return Blocks(outer, first if steps else None, steps or 1, whole if steps else (first, *whole))


def _check(p: Plan, c: Canonical, target: Target) -> None:
    """Refuses a plan whose kernels could not be emitted, or would read what is not there."""
    t, last = p.tiling, c.k[-1] if c.k else None
    grid = p.dims[: p.grid_dims]
    extent: Extent = last.extent if last else 0
    if p.pack == "item" and not all(any(d.label == x for d in grid) for x in (*c.outer, *([c.lane] if c.lane else []))):
        raise UnfitPlan("copies item: a work item has one panel, whose loops are the grid")
    if p.pack == "blocks" and (not c.k or c.lane is None or c.lane not in c.n or p.lanes != "columns"):
        raise UnfitPlan("copies blocks: of a sum, with lanes along columns")
    if p.pack == "blocks" and (p.dims[-1].kind != "panels" or p.grid_dims == len(p.dims)):
        raise UnfitPlan("copies blocks: the loop over panels is the last one")
    if p.pack == "none" and (p.dot or (c.lane is not None and c.lane.b != 1 and c.k and p.lanes == "columns")):
        raise UnfitPlan("copies none: pairs, and columns that are not adjacent, are read from a copy")
    short, pairs = c.a.dtype is not DType.F32, DType.F32 not in (c.a.dtype, c.b.dtype)
    if (p.dot or p.amx) and not (pairs and c.k and target.multiplies_bf16_pairs):
        raise UnfitPlan("pairs: of bf16 along a sum, on a CPU that multiplies them")
    if (p.amx or p.dot and p.lanes == "sum") and p.pack != "blocks" and c.a.dtype is not DType.BF16:
        raise UnfitPlan("pairs: of 8 bits in copies of both operands, or one by one with lanes along columns")
    if p.amx and not (p.dot and target.tile_engine):
        raise UnfitPlan("engine: of pairs, on a CPU that has one")
    if p.widen and (not short or p.dot or c.symbolic or p.pack == "blocks"):
        raise UnfitPlan("widened: a short operand of known size that is not read in pairs or packed")
    if p.amx and p.pack != "blocks" and (not isinstance(extent, int) or extent % (2 * p.amx)):
        raise UnfitPlan(f"engine: {2 * p.amx} steps do not divide the sum's last label")
    first = [*p.blocks.outer, p.blocks.inside[0]] if p.blocks else c.k[:1]
    if p.chunk and p.chunk.label not in first:
        raise UnfitPlan("loops: of the sum, chunks are of the first label, or of the first of blocks")
    if p.chunks != 1 and p.pack != "blocks" and c.k and any(c.k[0].guards):
        raise UnfitPlan("loops: a sum with padding is not cut")
    unit = 2 * max(1, p.amx) if p.dot else 1
    unit *= t.lanes if p.lanes == "sum" else 1
    if p.chunk and len(c.k) == 1 and p.chunk.size % unit:
        raise UnfitPlan(f"loops: chunks of {p.chunk.size} steps, which are multiplied {unit} at once")
    if p.lanes != "columns" and (p.pack != ("call" if p.lanes == "sum" else "none") or t.panels != 1):
        raise UnfitPlan("lanes: along the sum with copies of a call, along the rows with none, of one panel")
