"""How long the MME takes for a product, by the geometry formulas of Habana's cost model.

    cycles = tiles of rows x tiles of columns x batch x max(common dimension, roll-up)

or longer where the SRAM cannot give the operands so fast: each tile reads its rows and its columns once for each step
of the common dimension. Of arrangements of the arrays with as few cycles that of the fewest columns is taken, as in
the order of Habana's `mme_geometry.h`: on Gaudi 256 x 64, which reads 1.15 TB/s of a memory that gives 0.89. The arrays
of Gaudi2 and Gaudi3 are fed in time. Results are written over ports of their own.

Every CONTRACT is brought to rows x columns x common dimension. A convolution has a row per position and sums over
kernel and channels; the gradient of its filter has a row per weight of a filter and sums over positions. The arrays are
arranged in the way that is fastest for the product, and may split its sum or its batch where the chip can. Groups of a
convolution lie side by side, with zeros between them, as long as that is faster.

Source: Habana's open graph compiler, `engine_cost_model.cpp` and `mme_brain.cpp` (MIT); see `docs/fidelity.md`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from habana_tf.card.model.kernels import CASTS, VIEWS
from habana_tf.hardware.chips import Chip
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op

BF16_BYTES = 2
FLOAT8 = frozenset({DType.F8E4M3, DType.F8E5M2})
FEW = 8
"""Results of so many times fewer rows than the narrowest arrangement has are rolled up as their rows come: those of a
token that reads a cache. Else a token of 64 sequences would wait for the MME and not, as published, for memory."""


@dataclass(frozen=True)
class Product:
    """batch products [rows, common] x [common, columns]. in_bytes, out_bytes: of an element. row_bytes: of the
    innermost axis of either operand's tensor: its rows begin so far apart."""

    batch: int
    rows: int
    columns: int
    common: int
    in_bytes: int
    out_bytes: int
    row_bytes: tuple[int, int]

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.rows * self.columns * self.common


@dataclass(frozen=True)
class ArrayMapping:
    """How a product lies on the arrays. tile: rows and columns done at once. together: products of the batch at once.
    split: parts of the common dimension. packed: groups side by side."""

    tile: tuple[int, int]
    together: int
    split: int
    packed: int


@dataclass(frozen=True)
class MatrixTime:
    """seconds: of the MME alone, operands in SRAM. used: share of the multiply-adds it could have done meanwhile."""

    seconds: float
    used: float
    aligned: bool
    mapping: ArrayMapping


def product(n: Node) -> Product:
    """The product that a CONTRACT is; its extents are numbers."""
    a, b = n.src
    spec: Contraction = n.arg
    sizes = {
        label: ext.nominal(e)
        for x, labels in ((a, spec.a), (b, spec.b))
        for label, e in zip(labels, x.shape, strict=True)
    }
    left, right, out = set(spec.a), set(spec.b), set(spec.out)

    def count(labels: set[int]) -> int:
        return math.prod(sizes[label] for label in labels)

    return Product(
        count(left & right & out), count((left & out) - right), count((right & out) - left),
        count((left & right) - out),
        1 if all(_before_widening(x).dtype in FLOAT8 for x in (a, b)) else a.dtype.bytes, n.dtype.bytes,
        (_row_bytes(a), _row_bytes(b)),
    )  # fmt: skip


def _before_widening(n: Node) -> Node:
    """The tensor that an operand is cast from: the arrays take 8-bit floats as they are, also where a formula of a
    product, such as a convolution's, widens them; a code beyond the chip's largest number is selected on the way."""
    while n.op in VIEWS or n.op is Op.MAP and n.arg in {*CASTS, "select"}:
        n = n.src[2 if n.arg == "select" else 0]
    return n


def _row_bytes(n: Node) -> int:
    """Bytes of the innermost axis of the tensor behind views."""
    while n.op in VIEWS:
        n = n.src[0]
    return (ext.nominal(n.shape[-1]) if n.shape else 1) * n.dtype.bytes


@functools.lru_cache(maxsize=4096)
def matrix_time(chip: Chip, p: Product) -> MatrixTime:
    """The time of a product under the arrangement that is fastest for it."""
    best: tuple[float, float, ArrayMapping] | None = None
    wide = max(p.in_bytes, BF16_BYTES)  # the arrays are arranged for 8 bits as for 16
    rate = chip.mme_float8_rate if p.in_bytes < BF16_BYTES else 1
    few = p.rows <= chip.mme_least_side // FEW
    roll_up = (
        (p.rows / chip.mme_least_side if few else 1)
        * chip.mme_min_cycles
        * p.out_bytes
        // BF16_BYTES
        * BF16_BYTES**2
        // wide**2
    )
    for packed in _powers(p.batch):  # the last of them may be fewer
        rows, columns, common, batch = p.rows, p.columns * packed, p.common * packed, -(-p.batch // packed)
        if p.common > p.rows:  # a filter's gradient: the groups' results lie on the diagonal
            rows, common = p.rows * packed, p.common
        for tile, rest in _tiles(chip, wide):
            for split in _powers(min(rest, chip.mme_splits)):
                together = max(1, rest // split)
                mapping = ArrayMapping(tile, together, split, packed)
                places, fetched = -(-rows // tile[0]) * -(-columns // tile[1]), _unaligned(chip, p, mapping)
                cycles = places * -(-batch // together) * max(common / split / rate, roll_up) * fetched
                if best is None or cycles < best[0]:
                    sides = min(rows, tile[0]) + min(columns, tile[1])
                    best = cycles, batch * places * sides * common * p.in_bytes * fetched, mapping
    assert best is not None
    cycles, read, mapping = best
    seconds = max(cycles / chip.mme_clock, read / chip.sram_read_bandwidth)
    peak = chip.mme_macs_per_cycle_bf16 * rate * BF16_BYTES**2 / wide**2
    used = p.flops / 2 / (peak * chip.mme_clock * seconds) if seconds else 0.0
    return MatrixTime(seconds, used, _unaligned(chip, p, mapping) == 1, mapping)


def _tiles(chip: Chip, in_bytes: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Arrangements of the arrays for elements of so many bytes: (rows, columns), and how many such tiles there are,
    the fewest columns first."""
    shrink = in_bytes / BF16_BYTES
    area = chip.mme_macs_per_cycle_bf16
    for columns in _powers(area // chip.mme_least_side, chip.mme_least_side):
        for rows in _powers(area // columns, chip.mme_least_side):
            rest = area // (rows * columns)
            if rest <= max(chip.mme_splits, 2):
                yield (max(1, int(rows / shrink)), max(1, int(columns / shrink))), rest


def _powers(most: int, first: int = 1) -> Iterator[int]:
    """first, 2 * first, 4 * first, ... up to `most`."""
    while first <= most:
        yield first
        first *= 2


def _unaligned(chip: Chip, p: Product, mapping: ArrayMapping) -> float:
    """How often operands are fetched for rows that do not begin at a cache line: 1 with both aligned, (1 + n) / n with
    one that is used n times, else 2."""
    wrong = [bytes_ % chip.cache_line_bytes != 0 for bytes_ in p.row_bytes]
    if not any(wrong):
        return 1.0
    if all(wrong):
        return 2.0
    other, side = (p.columns, mapping.tile[1]) if wrong[0] else (p.rows, mapping.tile[0])
    n = max(1, -(-other * mapping.packed // side))
    return (1 + n) / n
