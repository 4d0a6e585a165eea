"""Separates the numbers of a recording from its structure, so that recordings that differ in sizes only can be
compared.

Numbers are all integers that may follow from a batch or a length: shapes of inputs and results, ranges of views,
integers among the arguments. Views are compared as layouts (`memory.views`), whose numbers are sizes, where strides are
products of sizes: a view of [s0, 8, 16] has the grid [s0, 8, 16], whatever s0 is.

    sum of x [64, 10] over axis 1       structure: sum of x [n, n] over axis n        numbers: 64, 10, 1
    sum of x [29, 10] over axis 1       the same                                      numbers: 29, 10, 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from habana_tf.cluster.cluster import Ref
from habana_tf.ir.extent import Extent
from habana_tf.torch.memory import views
from habana_tf.torch.ops.table import rows
from habana_tf.torch.record.program import LAYOUT, RecordedArgument, RecordedOp, RecordedTarget, Recording

Shape = tuple[int, ...]
Visit = Callable[[int, bool], Any]
"""Gives what is put in the place of a number. Its second argument: whether the number is an argument of an overload,
and so may be no size."""


def numbers_of(recording: Recording) -> tuple[Recording, list[int], list[bool]]:
    """The structure of a recording; its numbers, in the order in which `replaced` meets them, beginning with the
    inputs' shapes; and for each whether it is an argument."""
    found: list[int] = []
    arguments: list[bool] = []

    def visit(n: int, argument: bool) -> Any:
        found.append(n)
        arguments.append(argument)
        return "n"

    return replaced(recording, visit), found, arguments


def replaced(recording: Recording, visit: Visit) -> Recording:
    """A recording with each number replaced by what `visit` gives, and each view by its layout."""
    shapes: dict[Ref, Shape] = {(-1, k): shape for k, (shape, _) in enumerate(recording.inputs)}
    inputs = tuple((_each(shape, visit), label) for shape, label in recording.inputs)
    ops: list[RecordedOp] = []
    for at, (name, arguments, targets, results) in enumerate(recording.ops):
        row = rows().get(name)
        amounts = row.amounts if row is not None else ()
        made = (
            tuple(_argument(a, shapes, visit, k not in amounts) for k, a in enumerate(arguments)),
            tuple(_target(t, visit) for t in targets),
            tuple((_each(shape, visit), label, order) for shape, label, order in results),
        )
        ops.append((name, *made))
        for k, (shape, _, order) in enumerate(results):
            of_target = k - (len(results) - len(targets))
            shapes[at, k] = targets[of_target][2] if of_target >= 0 else _held(shape, order)
    return Recording(inputs, recording.floats, recording.integers, tuple(ops), recording.outputs, recording.updates)


def _held(shape: Shape, order: Shape | None) -> Shape:
    """The shape of the contents of a result's storage."""
    return shape if order is None else tuple(shape[k] for k in order)


def _each(numbers: Sequence[Extent], visit: Visit) -> tuple[Any, ...]:
    return tuple(visit(n, False) if isinstance(n, int) else n for n in numbers)


def _argument(argument: RecordedArgument, shapes: dict[Ref, Shape], visit: Visit, any_: bool) -> RecordedArgument:
    """any_: whether its numbers may be no sizes."""
    kind, what, *rest = argument
    if kind == "value":
        return (kind, what, _geometry(rest[0], shapes[what], visit))
    if kind == "list":
        return (kind, tuple(_argument(part, shapes, visit, any_) for part in what))
    if kind == "named":
        return (kind, what, _argument(rest[0], shapes, visit, any_))
    if kind == "literal" and type(what) is int:
        return (kind, visit(what, any_))
    return argument


def _target(target: RecordedTarget, visit: Visit) -> RecordedTarget:
    contents, geometry, whole = target
    return (contents, _geometry(geometry, whole, visit), _each(whole, visit))


def _geometry(geometry: views.Geometry | None, whole: Shape, visit: Visit) -> Any:
    if geometry is None or 0 in geometry[0]:
        return geometry
    found = views.layout(whole, geometry)
    if found is None:
        return geometry
    parts = found.grid, found.begin, found.size, found.shape, found.broadcast
    grid, begin, size, shape, broadcast = (_each(part, visit) for part in parts)
    return (LAYOUT, grid, begin, size, found.axes, shape, broadcast)
