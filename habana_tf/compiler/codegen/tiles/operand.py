"""Where the elements of a product's operands lie: in memory, in a copy, and while they are copied."""

from __future__ import annotations

from dataclasses import dataclass, replace

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import size_of
from habana_tf.compiler.codegen.vector_memory import Form
from habana_tf.compiler.contraction import Canonical, Operand
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent


@dataclass(frozen=True)
class Source:
    """How a tile reads an operand: form, bytes per element, constant offset, buffer."""

    form: Form
    unit: int
    offset: int
    buffer: CallBuffer


def in_place(c: Canonical, p: Plan, side: str, buffer: CallBuffer) -> Source:
    """An operand as it lies."""
    form, offset = forms(c, p)[side == "b"], (c.a if side == "a" else c.b).offset
    return Source(form, form.bytes, offset, buffer)


def forms(c: Canonical, p: Plan) -> tuple[Form, Form]:
    """How the operands' elements are read. Of two with 8 bits, which are far from the ends of float32, the one with
    more elements is read in the scale that takes least, and the other one makes up for it."""
    a, b = form_of(c.a), form_of(c.b)
    if not (p.float16 and (p.pack == "blocks" or p.lanes == "sum") and c.a.dtype.bits == c.b.dtype.bits == 8):
        return a, b
    if size_of(c.m) >= c.columns:
        return replace(a, scale=a.natural), replace(b, scale=1 / a.natural)
    return replace(a, scale=1 / b.natural), replace(b, scale=b.natural)


def form_of(operand: Operand) -> Form:
    """How an operand's elements lie in memory."""
    return Form(operand.dtype, operand.largest)


@dataclass(frozen=True)
class PackedPanels:
    """The copy of b for all tiles: [outer labels][panel][labels of the sum][line]. unit: steps of the last label in a
    line; line: its bytes; steps: strides in bytes of the sum's labels (of the last one, per line); panel: bytes.

        lanes along columns     a line has a word (a step as fp32, or a pair) of each column of a panel
        lanes along the sum     a line has a vector of words of each column
    """

    unit: int
    line: int
    steps: tuple[int, ...]
    panel: Extent


def packed_panels(c: Canonical, p: Plan) -> PackedPanels:
    t, pair = p.tiling, 2 if p.dot else 1
    unit, line = (t.lanes * pair, c.columns * t.lanes * 4) if p.lanes == "sum" else (pair, t.width * 4)
    steps: list[int] = []
    size: Extent = line
    for label in reversed(c.k):
        assert isinstance(size, int)  # only the first label's extent may be symbolic, and it is in no stride
        steps.insert(0, size)
        size = ext.mul(ext.ceil_div(label.extent, unit) if label == c.k[-1] else label.extent, size)
    return PackedPanels(unit, line, tuple(steps), size)


@dataclass(frozen=True)
class Limit:
    """Element (i across, j along) exists only if 0 <= value + across * i + along[-1] * j + ... < size."""

    value: Value
    across: int
    along: tuple[int, ...]
    size: Value


@dataclass(frozen=True)
class Across:
    """The direction across. step: stride in elements; count: of elements, between `least` and `most`."""

    step: int
    count: Value
    least: int
    most: int


@dataclass(frozen=True)
class Groups:
    """Neighbouring row tiles or panels, which have separate copies but are packed together, step by step, because a
    step of all of them is contiguous: fewer pages of memory are touched at a time.

    The copy of group `first` + i (of `count`) is at `apart` * i bytes. Groups before `large` have `most` elements,
    others `rest`; groups before `whole` need no masks.
    """

    first: Value
    count: Value
    large: Value
    whole: Value
    most: int
    rest: int
    apart: int


@dataclass(frozen=True)
class Along:
    """A label of the sum. step: stride in elements; trip: its extent, a multiple of `multiple`; line: stride in bytes
    in the copy (of the last label: per unit, or per register of units)."""

    step: int
    trip: int | Value
    line: int
    multiple: int = 1
