"""Shapes of an op's outputs as text, for TensorFlow's shape functions and for checking the results of a lowering.

    "x"              the shape of input x
    "x[:-1], 4"      all axes of x but the last, then 4
    "x[0], k, ?"     the first axis of x, the attribute k, an axis of unknown length
    ""               a scalar                 "*"     nothing is known
    "x; x[:-1]"      of two outputs

TensorFlow calls shape functions in native code, at any time and under its own locks, where no Python may run. So shapes
are data: parts of inputs' shapes and numbers. The C API gives a shape function no attributes but types: a length that
is an attribute is unknown to TensorFlow, and exact where a launch is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from habana_tf.custom.signature import CustomOpError, OpSignature
from habana_tf.ir.extent import Extent

_PART = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<index>[^\]]*)\])?|(?P<number>\d+)|(?P<unknown>\?)")
WHOLE_END = 1 << 62
"""The end of a slice that has none."""


@dataclass(frozen=True)
class Part:
    """Consecutive axes of a shape. kind "input": axes begin to end of an input, as Python slices, or one that
    `must_be_there`; "number": one axis of this length; "attr": of the length that an attribute says; "unknown": one."""

    kind: Literal["input", "number", "attr", "unknown"]
    input: int = -1
    begin: int = 0
    end: int = WHOLE_END
    number: int = 0
    attr: str = ""
    must_be_there: bool = False

    def native(self) -> tuple[int, int, int, int]:
        """(input or -1, begin, end, length or -1), as the plugin's shape function has it."""
        if self.kind == "input":
            return self.input, self.begin, self.end, 0
        return -1, 0, 0, self.number if self.kind == "number" else -1


Parts = tuple[Part, ...]
"""Of a shape; None stands for one of which nothing is known."""
Shapes = tuple["Parts | None", ...]
"""Of all outputs."""


def read(signature: OpSignature, text: str | Sequence[str] | None) -> Shapes:
    """The shapes of an op's outputs. text: as above; None says nothing of any. Raises CustomOpError."""
    if text is None:
        return (None,) * len(signature.outputs)
    texts = text.split(";") if isinstance(text, str) else list(text)
    counted = [a.name for a in signature.outputs if a.number_attr]
    if counted:
        raise CustomOpError(
            f"custom op {signature.op!r}: {counted[0]!r} is several tensors, so shapes= cannot tell outputs apart; "
            "leave it out"
        )
    if len(texts) != len(signature.outputs):
        raise CustomOpError(
            f"custom op {signature.op!r}: shapes= has {len(texts)} shapes and the op {len(signature.outputs)} outputs; "
            "write them one after the other, with ';' in between"
        )
    return tuple(_parts(signature, each) for each in texts)


def _parts(signature: OpSignature, text: str) -> Parts | None:
    if text.strip() == "*":
        return None
    return tuple(_part(signature, each.strip()) for each in text.split(",") if each.strip())


def _part(signature: OpSignature, text: str) -> Part:
    def error(what: str) -> CustomOpError:
        return CustomOpError(f"custom op {signature.op!r}: {text!r} in shapes= {what}")

    found = _PART.fullmatch(text)
    if found is None:
        raise error("is not an input, slice of an input, number, attribute or '?'")
    if found["unknown"]:
        return Part("unknown")
    if found["number"]:
        return Part("number", number=int(found["number"]))
    name = found["name"]
    kinds = {a.name: a.kind for a in signature.attrs}
    if found["index"] is None and kinds.get(name) in ("int", "number"):
        return Part("attr", attr=name)
    names = [a.name for a in signature.inputs]
    if name not in names:
        raise error(f"is neither an input ({', '.join(names)}) nor an attribute of kind int")
    at = names.index(name)
    if any(a.number_attr for a in signature.inputs[:at]):
        raise error("stands behind an input of several tensors: name one before it")
    if found["index"] is None:
        return Part("input", at)
    begin, colon, end = (part.strip() for part in found["index"].partition(":"))
    try:
        first = int(begin) if begin or not colon else 0
        if not colon:
            return Part("input", at, first, WHOLE_END if first == -1 else first + 1, must_be_there=True)
        return Part("input", at, first, int(end) if end else WHOLE_END)
    except ValueError:
        raise error("has an index that is not a number") from None


def evaluate(
    shapes: Shapes, inputs: Sequence[Sequence[Extent]], attrs: Mapping[str, Any]
) -> list[tuple[Extent | None, ...] | None]:
    """The shape of each output, None for an axis or a rank that is not known. Raises IndexError for an axis that an
    input has not."""
    return [None if parts is None else _evaluate(parts, inputs, attrs) for parts in shapes]


def _axes(part: Part, shape: Sequence[Extent]) -> Sequence[Extent]:
    """Of an input's shape, with the errors that TensorFlow has where it makes a graph (`op_shapes.cc`)."""
    rank = len(shape)
    if part.begin < -rank or (part.must_be_there and part.begin >= rank):
        raise IndexError(f"axis {part.begin} of a shape of rank {rank}")
    begin, end = (min(k, rank) if k >= 0 else k + rank for k in (part.begin, part.end))
    if begin > end:
        raise IndexError(f"axes {part.begin} to {part.end} of a shape of rank {rank}")
    return shape[begin:end]


def _evaluate(parts: Parts, inputs: Sequence[Sequence[Extent]], attrs: Mapping[str, Any]) -> tuple[Extent | None, ...]:
    out: list[Extent | None] = []
    for part in parts:
        if part.kind == "input":
            out.extend(_axes(part, inputs[part.input]))
        elif part.kind == "attr":
            out.append(attrs[part.attr])
        else:
            out.append(part.number if part.kind == "number" else None)
    return tuple(out)
