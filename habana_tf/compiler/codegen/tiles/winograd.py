"""Winograd's algorithm F(2x2, 3x3): recognizes 3 x 3 convolutions of stride 1 for which it pays, and tiles them.

For a tile of 2 x 2 results y, which reads 4 x 4 points d of the image, and the filter g,

    y = At [(G g Gt) * (Bt d B)] A                  * element by element, summed over the channels
    gradient of g = Gt [(A dy At) * (Bt d B)] G     summed over the tiles

take 16 multiplications instead of 36, and additions (Winograd 1980; Lavin and Gray, arXiv 1509.09308). Bt and At have
the entries 0 and +-1, G also 1/2, and sums are shorter, so that fp32 results are as accurate as those of the direct
sum. Errors are relative to the largest product in a window, even one with a zero of the filter. Larger tiles would save
more multiplications and lose accuracy. Input gradients are such convolutions, too, with a reversed filter.

The 16 elements of tiles are 16 matrix products. A work item computes a block of them in the second-level cache:

    results             [tiles x channels] * [channels x columns], in blocks of channels; filters transformed before
    gradient of filter  [channels x tiles] * [tiles x columns], in blocks of tiles; transformed back in a second call

Results that would not be finite are not finite, but infinities may become NaN, and in a filter's gradient a non-finite
value may spread over the points of the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from habana_tf.compiler.codegen.tiles.tiling import Tiling, size_of
from habana_tf.compiler.contraction import Canonical, ContractSpec, Label, Padding, canonical
from habana_tf.compiler.costs import WORK_ITEMS
from habana_tf.compiler.product_costs import (
    COMPACT_WORK,
    TALL_TILE_VECTORS,
    WINOGRAD_BLOCK,
    WINOGRAD_BLOCK_TILES,
    WINOGRAD_CHANNELS,
    WINOGRAD_GRADIENT_BLOCK,
    WINOGRAD_GRADIENT_STEPS,
    WINOGRAD_GRADIENT_TILES,
    WINOGRAD_SAVED,
    WINOGRAD_TILES,
    WINOGRAD_WORK,
)
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal

TAP = 3
"""Points of the filter along each axis."""
OUT = 2
"""Results of a tile along each axis."""
IN = OUT + TAP - 1
"""Points of the image that a tile reads along each axis."""
ELEMENTS = IN * IN


@dataclass(frozen=True)
class ImageAxis:
    """An axis of the image: its labels of the result and of the filter, and its padding."""

    out: Label
    tap: Label
    guard: Padding | None

    @property
    def size(self) -> int:
        assert isinstance(self.out.extent, int)
        return self.out.extent

    @property
    def tiles(self) -> int:
        return -(-self.size // OUT)

    @property
    def saved(self) -> float:
        """The ratio of multiplications, direct sum to Winograd."""
        return self.size * TAP / (self.tiles * IN)

    @property
    def inside(self) -> tuple[int, int]:
        """The range of points that are no padding, relative to the first point that a tile reads."""
        low, high = 0, self.size + TAP - 1
        if self.guard is None:
            return low, high
        return max(low, -self.guard.const), min(high, self.guard.size - self.guard.const)


@dataclass(frozen=True)
class Winograd:
    """A contraction computed by the algorithm. c: without merged labels.

    gradient: whether it is the filter's gradient. image: the label of images, if there are several; channel: of the
    image's channels. rows: of the register tile. channels, panels, tiles: per block. chunks: parts of the tiles whose
    sums are added up afterwards (gradients only).
    """

    c: Canonical
    gradient: bool
    image: Label | None
    channel: Label
    down: ImageAxis
    across: ImageAxis
    tiling: Tiling
    rows: int
    channels: int
    panels: int
    tiles: int
    chunks: int = 1

    @property
    def depth(self) -> int:
        """Channels of the image."""
        assert isinstance(self.channel.extent, int)
        return self.channel.extent

    @property
    def total(self) -> Extent:
        """Tiles of all images."""
        return ext.mul(self.image.extent if self.image else 1, self.down.tiles * self.across.tiles)

    @property
    def tile(self) -> Label:
        """The tiles of all images, as a label."""
        return Label("m", self.total, 0, 0, 0, (), (-1,))

    @property
    def element(self) -> Label:
        """The elements of a tile, as a label."""
        return Label("batch", ELEMENTS, 0, 0, 0, (), (-3,))

    @property
    def chunk(self) -> Label:
        """The parts of the tiles, as a label."""
        return Label("k", self.chunks, 0, 0, 0, (), (-2,))

    @property
    def blocks(self) -> Extent:
        """Blocks of tiles."""
        return ext.ceil_div(self.total, self.tiles)

    @property
    def column_blocks(self) -> int:
        return -(-self.tiling.panels // self.panels)

    @property
    def channel_blocks(self) -> int:
        return -(-self.depth // self.channels)


def winograd(spec: ContractSpec, target: Target, compact: bool = False) -> Winograd | None:
    """A contraction as a convolution by Winograd's algorithm; None if it is no such convolution, if that is not faster,
    or if it does not pay for its code (compact: prefer little code, see `choose`)."""
    found = None if _in_pairs(spec, target) else as_convolution(spec, target)
    if found is None:
        return None
    work = size_of(found.c.m) * size_of(found.c.k) * found.tiling.panels * found.tiling.vectors
    enough = nominal(found.total) >= (WINOGRAD_GRADIENT_TILES if found.gradient else WINOGRAD_TILES)
    return found if enough and work > (COMPACT_WORK if compact else WINOGRAD_WORK) else None


def as_convolution(spec: ContractSpec, target: Target) -> Winograd | None:
    """A contraction as a convolution by Winograd's algorithm, whether or not there is work enough for it."""
    if target.vector_bytes < 32:
        return None
    try:
        c = canonical(spec, joined=False)
    except Unfit:
        return None
    if c.batch or c.lane is None or c.n != (c.lane,) or c.b.guards:
        return None
    for gradient, inner, outer in ((False, c.k, c.m), (True, c.m, c.k)):
        found = _convolution(c, gradient, inner, outer, target)
        if found:
            return found
    return None


def _in_pairs(spec: ContractSpec, target: Target) -> bool:
    """Whether the CPU has bf16 pair products, which are twice as fast as fp32."""
    fast = target.tile_engine is not None or target.bf16_products == "dot"
    return fast and DType.F32 not in (spec.a.dtype, spec.b.dtype)


def _convolution(
    c: Canonical, gradient: bool, inner: Sequence[Label], outer: Sequence[Label], target: Target
) -> Winograd | None:
    """inner: the labels of the filter's points and the channels; outer: those of the results and the images."""
    lanes = target.lanes
    channel = next((x for x in inner if x.a == 1), None)
    if channel is None or len(inner) != TAP or any(channel.guards) or not isinstance(channel.extent, int):
        return None
    axes = [_axis(c, tap, outer) for tap in inner if tap is not channel]
    found = [x for x in axes if x is not None]
    if len(found) < len(axes) or sum(x.guard is not None for x in found) < len(c.a.guards):
        return None
    images = [x for x in outer if x not in [axis.out for axis in found]]
    if len(images) > 1:
        return None
    if channel.extent % lanes or min(channel.extent, c.columns) < WINOGRAD_CHANNELS:
        return None
    if gradient and (c.lane is None or c.lane.b != 1 or c.columns % lanes):
        return None
    down, across = sorted(found, key=lambda x: -abs(x.tap.a))
    if down.saved * across.saved < WINOGRAD_SAVED:
        return None
    image = images[0] if images else None
    made = Winograd(c, gradient, image, channel, down, across, _tiling(c, lanes), 0, 0, 0, 0)
    return (_cut_gradient if gradient else _cut)(made, target)


def _axis(c: Canonical, tap: Label, outer: Sequence[Label]) -> ImageAxis | None:
    """The image axis of a filter's label, with stride 1, else None."""
    out = [x for x in outer if x.a == tap.a and isinstance(x.extent, int)]
    if tap.extent != TAP or len(out) != 1 or nominal(out[0].extent) < TAP:
        return None
    guards = [k for k in range(len(c.a.guards)) if tap.guards[k]]
    if len(guards) > 1:
        return None
    if not guards:
        return None if any(out[0].guards) else ImageAxis(out[0], tap, None)
    tied = [x for x in c.labels() if x.guards[guards[0]]]
    if tap.guards[guards[0]] != 1 or out[0].guards[guards[0]] != 1 or len(tied) != 2:
        return None
    return ImageAxis(out[0], tap, c.a.guards[guards[0]])


def _tiling(c: Canonical, lanes: int) -> Tiling:
    """Panels of columns."""
    vectors = -(-c.columns // lanes)
    wide = min(vectors, TALL_TILE_VECTORS)
    return Tiling((), None, 1, 1, 1, wide, -(-vectors // wide), lanes, c.columns)


def _evenly(n: int, most: int, unit: int = 1) -> int:
    """An even part size of n of about `most`, a multiple of `unit`."""
    return -(-n // (-(-n // (most + unit)) * unit)) * unit


def _cut(w: Winograd, target: Target) -> Winograd:
    t = w.tiling
    rows = target.register_tiles[t.vectors]
    panels = _evenly(t.panels, WINOGRAD_BLOCK // t.width)
    tiles = nominal(w.total)
    groups = max(1, min(WINOGRAD_BLOCK_TILES // rows, tiles * -(-t.panels // panels) // (WORK_ITEMS * rows)))
    w = replace(w, c=replace(w.c, k=(w.down.tap, w.across.tap, w.channel)))
    return replace(w, rows=rows, tiles=groups * rows, channels=_evenly(w.depth, WINOGRAD_BLOCK, t.lanes), panels=panels)


def _cut_gradient(w: Winograd, target: Target) -> Winograd:
    t = w.tiling
    most = target.register_tiles[t.vectors]
    channels = _evenly(w.depth, WINOGRAD_GRADIENT_BLOCK, t.lanes)
    panels = _evenly(t.panels, WINOGRAD_GRADIENT_BLOCK // t.width)
    rows = -(-channels // -(-channels // most))
    w = replace(w, rows=rows, channels=channels, panels=panels, tiles=WINOGRAD_GRADIENT_STEPS)
    items = w.channel_blocks * w.column_blocks
    return replace(w, chunks=max(1, min(-(-WORK_ITEMS // items), nominal(w.blocks) // 2)))
