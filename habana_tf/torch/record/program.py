"""A recorded program as a cluster, the form in which the resolver, the recipe cache and the model of a card take it.

A recording is plain data, and so is the serialized cluster (a Python literal):

    Recording(inputs, floats, integers, ops, outputs, updates, scopes)
    op        (overload, arguments, targets, results)
    argument  ("value", (op, output), view)    a tensor: contents of a storage, op -1 an input; view None for all of it
              ("float" | "integer", k)         number k of those that are read at run time
              ("type", name)  ("list", (...))  ("literal", value)
    target    (contents, view): what an op writes into; contents None where all of it is written
    result    (shape, type, order): order is the permutation in which its storage holds it, None for row-major

Values that pass between ops are contents of storages, in row-major order. A view is taken where an op reads it, and put
back into the contents where an op writes it (`memory.views`). Numbers that change from step to step are elements of two
vectors, the last inputs of a cluster.

A recording over sizes (see `ranges`) has layouts, (LAYOUT, ...), in the place of views, and (SIZE, k) in the place of a
size that changes: entry k of a vector, the very last input. The vector's value is known when the cluster is lowered, as
numbers or as symbols of a range.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habana_tf.cluster.cluster import OF_OPS, Arg, Cluster, ClusterOp, Ref, Role
from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.formulas import float8
from habana_tf.hardware.chips import chip
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.resolver.keys import PACKAGE, digest_of, imported_sources
from habana_tf.torch.memory import views
from habana_tf.torch.memory.layouts import SinkingBuilder
from habana_tf.torch.ops.row import Call
from habana_tf.torch.ops.table import rows

RecordedArgument = tuple[Any, ...]
RecordedTarget = tuple[Ref | None, views.Geometry | None, tuple[int, ...]]
"""Contents, view, and the shape of the contents."""
RecordedResult = tuple[tuple[int, ...], str, tuple[int, ...] | None]
RecordedOp = tuple[str, tuple[RecordedArgument, ...], tuple[RecordedTarget, ...], tuple[RecordedResult, ...]]
MOST_SCATTERED = 4
"""Parts of one storage that are written one by one, each as a range of it; more of them are put together at once."""
LAYOUT, SIZE = "layout", "size"


@dataclass(frozen=True)
class Recording:
    """A program as data; see above. inputs: shape and type of each storage that is read. floats, integers: how many
    numbers are read at run time. outputs: the results that storages get. updates: for each output the input that is the
    same storage, -1 for none. scopes: of each op, see `scopes`. sizes: entries of the vector of sizes, 0 for a
    recording without one. parameters: inputs that came as parameters of modules. lines: for each op, where the program
    called it. The last two, and the scopes, are no part of what it computes."""

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    floats: int
    integers: int
    ops: tuple[RecordedOp, ...]
    outputs: tuple[Ref, ...]
    updates: tuple[int, ...]
    scopes: tuple[str, ...] = ()
    sizes: int = 0
    parameters: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()

    def computed(self) -> bytes:
        """What it computes, as bytes: equal for equal programs, whatever their modules are called."""
        return repr(
            (self.inputs, self.floats, self.integers, self.ops, self.outputs, self.updates, self.sizes)
        ).encode()  # fmt: skip

    def numbers(self) -> list[tuple[int, DType]]:
        """How many numbers of which type are read at run time, where there are any."""
        return [(n, d) for n, d in ((self.floats, DType.F32), (self.integers, DType.I64)) if n]

    def number_inputs(self) -> tuple[int, int]:
        """The inputs of the cluster that hold floats and integers, -1 for none."""
        count = len(self.inputs)
        return count if self.floats else -1, count + (self.floats > 0) if self.integers else -1


@dataclass
class TorchOp(ClusterOp):
    """An overload of ATen in a cluster. record: the op as data. floats, integers, sizes: the inputs of the cluster that
    hold numbers; -1 for none, and for an op without sizes of the vector. often: whether it writes a part of a storage
    of which many parts are written."""

    record: RecordedOp
    floats: int = -1
    integers: int = -1
    sizes: int = -1
    often: bool = False
    told: tuple[tuple[Ref, Role], ...] = ()
    """What is known of the cluster's tensors in a training step; one op has it for all."""

    def roles(self) -> Iterable[tuple[Ref, Role]]:
        return self.told

    def lower(self, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
        given = dict(zip(self.inputs, inputs, strict=True))
        record = self.record
        if self.sizes >= 0:
            record = _filled(record, context.fixed[given[-1, self.sizes]].tolist())
        overload, arguments, _, results = record
        row = rows().get(overload)
        if row is None:
            raise LoweringError(f"{overload} has no row in the table of overloads")
        call = Call(context, overload, [(shape, from_label(label)) for shape, label, _ in results])
        positional, named = [], {}
        for argument in arguments:
            if argument[0] == "named":
                named[argument[1]] = self._value(argument[2], given, context)
            else:
                positional.append(self._value(argument, given, context))
        try:
            made = row.lower(call, *positional, **named)
        except TypeError as why:
            if self.sizes < 0:
                raise
            raise NeedsNumber(f"its lowering takes numbers only ({why})") from why
        nodes = [made] if isinstance(made, Node) or made is None else list(made)
        if len(nodes) != len(results):
            raise LoweringError(f"{overload}: its lowering gave {len(nodes)} results, {len(results)} are wanted")
        return _stored(record, nodes, given, context, self.often)

    def _value(self, argument: RecordedArgument, given: dict[Ref, Node], context: LoweringContext) -> Any:
        """What a lowering gets for an argument."""
        b = context.b
        kind, what, *rest = argument
        if kind == "value":
            (geometry,) = rest
            if geometry is not None and geometry[0] != LAYOUT and 0 in geometry[0]:
                return b.const(0, given[what].dtype, geometry[0])
            return given[what] if geometry is None else views.read(b, given[what], _layout(given[what], geometry))
        if kind in ("float", "integer"):
            vector = given[-1, self.floats if kind == "float" else self.integers]
            return b.reshape(b.slice(vector, (what,), (1,)), ())
        if kind == "list":
            return [self._value(part, given, context) for part in what]
        return from_label(what) if kind == "type" else what


def _stored(
    record: RecordedOp, nodes: Sequence[Node | None], given: dict[Ref, Node], context: LoweringContext, often: bool
) -> list[Node]:
    """What an op's results leave in storages: the contents of new ones, and of those that it writes the contents with
    the written view replaced. bfloat16 results are rounded here, because inside a kernel they are float32. Where an op
    writes several views of one storage, each write sees those before it."""
    b, given = context.b, dict(given)
    _, _, targets, results = record
    fresh = len(results) - len(targets)
    out = []
    for k, (node, (shape, label, order)) in enumerate(zip(nodes, results, strict=True)):
        if node is None:
            out.append(b.const(0, from_label(label), shape))
            continue
        node = b.expand(b.map("stored", float8.cast(b, node, from_label(label))), shape)
        if k >= fresh:
            contents, geometry, whole = targets[k - fresh]
            if contents is not None and 0 in shape:
                node = given[contents]
            elif contents is None and geometry is not None:
                base = b.const(0, node.dtype, whole)
                node = views.write(b, base, node, _layout(base, geometry), context.premises)
            elif geometry is not None and contents is not None:
                old = given[contents]
                node = views.write(b, old, node, _layout(old, geometry), context.premises, often)
            if contents is not None:
                given[contents] = node
        elif order is not None:
            node = b.permute(node, order)
        out.append(node)
    return out


def _filled(part: Any, sizes: Sequence[Extent]) -> Any:
    """An op's data, with the entries of the vector of sizes in the place of (SIZE, k)."""
    if not isinstance(part, tuple):
        return part
    if len(part) == 2 and part[0] == SIZE:
        return sizes[part[1]]
    return tuple(_filled(p, sizes) for p in part)


def _names_sizes(part: Any) -> bool:
    return isinstance(part, tuple) and (len(part) == 2 and part[0] == SIZE or any(map(_names_sizes, part)))


def _layout(contents: Node, geometry: Any) -> views.Layout:
    if geometry[0] == LAYOUT:
        return views.Layout(*geometry[1:])
    whole = tuple(n for n in contents.shape if isinstance(n, int))
    assert len(whole) == contents.rank
    found = views.layout(whole, geometry)
    if found is None:
        raise LoweringError(f"a view of shape {geometry[0]} and strides {geometry[1]} has no layout")
    return found


@dataclass(eq=False)
class TorchCluster(Cluster):
    """A cluster whose ops are overloads of ATen."""

    recording: Recording | None = None

    framework = "PyTorch"
    numbered_inputs = True

    def line(self, index: int) -> str:
        """See `Cluster.line`."""
        lines = self.recording.lines if self.recording is not None else ()
        return lines[index] if index < len(lines) else ""

    @functools.cached_property
    def content(self) -> str:
        assert self.recording is not None
        return hashlib.sha256(self.recording.computed()).hexdigest()

    @classmethod
    def read(cls, data: bytes) -> TorchCluster:
        return cluster_of(Recording(*ast.literal_eval(data.decode())))

    def computed(self) -> list[tuple[str, object]]:
        """See `Cluster.computed`: the recording and the lowerings of both tables."""
        parts = [*super().computed(), ("framework", "torch"), ("lowerings", lowerings_version())]
        if self._has({d.label for d in float8.FLOAT8}):
            parts.append(("largest float8_e4m3fn", chip().float8_e4m3_largest))
        return parts

    def builder(self) -> SinkingBuilder:
        """See `layouts`."""
        return SinkingBuilder()

    @functools.cached_property
    def has_bf16(self) -> bool:
        return self._has({DType.BF16.label})

    def _has(self, labels: set[str]) -> bool:
        """Whether a tensor of one of these types is an input or a result of an op."""
        assert self.recording is not None
        return any(t in labels for _, t in self.recording.inputs) or any(
            result[1] in labels for op in self.recording.ops for result in op[3]
        )


def cluster_of(recording: Recording) -> TorchCluster:
    """The cluster of a recording, with a name that follows from its content."""
    data = repr((
        recording.inputs, recording.floats, recording.integers, recording.ops, recording.outputs, recording.updates,
        recording.scopes, recording.sizes,
    )).encode()  # fmt: skip
    count = len(recording.inputs)
    floats, integers = recording.number_inputs()
    sizes = count + len(recording.numbers()) if recording.sizes else -1
    scopes = recording.scopes or ("",) * len(recording.ops)
    ops = enumerate(zip(recording.ops, scopes, strict=True))
    nodes = [op_of(k, record, floats, integers, scope, sizes) for k, (record, scope) in ops]
    for k in _writing_often(recording):
        nodes[k].often = True
    updated = set(recording.updates)
    inputs = [
        Arg(from_label(label), False, f"input_{k}", k in updated) for k, (_, label) in enumerate(recording.inputs)
    ]
    inputs += [Arg(dtype, False, "numbers") for _, dtype in recording.numbers()]
    if sizes >= 0:
        inputs.append(Arg(DType.I64, True, OF_OPS))
    results: list[Arg] = []
    for (at, output), update in zip(recording.outputs, recording.updates, strict=True):
        label = recording.inputs[output][1] if at < 0 else recording.ops[at][3][output][1]
        results.append(Arg(from_label(label), False, f"output_{len(results)}", update >= 0, update))
    name = f"torch_{hashlib.sha256(recording.computed()).hexdigest()[:12]}"
    return TorchCluster(name, inputs, nodes, list(recording.outputs), results, [], data, recording)


def _writing_often(recording: Recording) -> set[int]:
    """The ops that write parts of storages of which many are written, where no part is computed from an earlier one."""
    storages: dict[Ref, Ref] = {}
    writing: dict[Ref, list[int]] = {}
    for at, (_, arguments, targets, results) in enumerate(recording.ops):
        for k, (contents, geometry, _) in enumerate(targets, len(results) - len(targets)):
            if contents is not None and geometry is not None and ("value", contents, geometry) not in arguments:
                storages[at, k] = storages.get(contents, contents)
                writing.setdefault(storages[at, k], []).append(at)
    return {at for ops in writing.values() if len(ops) > MOST_SCATTERED for at in ops}


def op_of(
    index: int, record: RecordedOp, floats: int, integers: int, scope: str = "", sizes: int = -1
) -> TorchOp:  # fmt: skip
    """A recorded op as an op of a cluster. floats, integers, sizes: the inputs that hold numbers. scope: the first part
    of its name."""
    refs: dict[Ref, None] = {}

    def walk(argument: RecordedArgument) -> None:
        kind, what, *rest = argument
        if kind == "value":
            refs[what] = None
        elif kind in ("float", "integer"):
            refs[-1, floats if kind == "float" else integers] = None
        elif kind == "list":
            for part in what:
                walk(part)
        elif kind == "named":
            walk(rest[0])

    for argument in record[1]:
        walk(argument)
    for contents, _, _ in record[2]:
        if contents is not None:
            refs[contents] = None
    if sizes >= 0 and _names_sizes(record):
        refs[-1, sizes] = None
    else:
        sizes = -1
    name = f"{scope}/{record[0]}_{index}" if scope else f"{record[0]}_{index}"
    return TorchOp(index, record[0], name, tuple(refs), record, floats, integers, sizes)


def signature(recording: Recording) -> list[tuple[int, tuple[int, ...], bytes | None]]:
    """The signature of a launch: number of the element type and shape of each input."""
    met: list[tuple[int, tuple[int, ...], bytes | None]] = []
    met += [(from_label(label).number, shape, None) for shape, label in recording.inputs]
    return met + [(dtype.number, (n,), None) for n, dtype in recording.numbers()]


@functools.cache
def lowerings_version() -> str:
    """SHA-256 over the sources that decide how a recording is lowered: this file, the rows, and all they import."""
    rows = (PACKAGE / "torch" / "ops").glob("*.py")
    return digest_of(imported_sources([Path(__file__), *rows], ["formulas", "torch"]))
