"""Reads OpDefs and KernelDefs once per op into small objects.

Types, argument slices and statefulness are asked for every node of a graph and of a cluster; an OpDef is turned into a
small `OpFacts` once per op and process. Nothing else in this package reads OpDefs or KernelDefs. A node is given as the
NodeDef that has its attributes; those it lacks have the op's defaults, as TensorFlow understands it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, TypeVar

INT32, STRING, INT64, BOOL, RESOURCE, VARIANT = 3, 7, 9, 10, 20, 21
"""TensorFlow's numbers of element types."""

LAST_C_TYPE = 23
"""TensorFlow's C API takes no kernel for the element types above (float8 and the short integers)."""

ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
"""ResourceHandle::ANONYMOUS_NAME of tensorflow/core/framework/resource_handle.h: the shared name of a VarHandleOp that
makes a variable anew in each run, which nothing else finds."""

STAND_IN = -1
"""The priority of HPU kernels that stand in (`stand_ins.py`); other kernels have 0."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_remembering: list[Callable[[], None]] = []


def remembered(function: _Function) -> _Function:
    """`functools.cache` for what follows from TensorFlow's ops and kernels, until `forget`."""
    cached: Any = cache(function)
    _remembering.append(cached.cache_clear)
    found: _Function = cached
    return found


def forget(op: str) -> None:
    """Says that TensorFlow has an op, or kernels of it, that it had not before."""
    _told.pop(op, None)
    for clear in _remembering:
        clear()


@dataclass(frozen=True)
class OpArgument:
    """One input or output argument of an OpDef."""

    name: str
    type: int
    type_attr: str
    number_attr: str
    type_list_attr: str
    is_ref: bool = False

    def count(self, facts: OpFacts, node: Any) -> int:
        """How many tensors a node has for it."""
        if self.type_list_attr:
            return len(facts.attr(node, self.type_list_attr).list.type)
        return int(facts.attr(node, self.number_attr).i) if self.number_attr else 1

    def types(self, facts: OpFacts, node: Any) -> list[int]:
        """TensorFlow's DataType number of every tensor that a node has for it."""
        if self.type_list_attr:
            return list(facts.attr(node, self.type_list_attr).list.type)
        tf_type = facts.attr(node, self.type_attr).type if self.type_attr else self.type
        return [tf_type] * self.count(facts, node)


@dataclass(frozen=True, eq=False)
class OpFacts:
    """An OpDef. kinds: of its attributes ("type", "list(int)", ...), in its order; type_attrs: those of kind "type".
    allowed: the element types that an attribute is limited to. defaults: AttrValues."""

    op: str
    inputs: tuple[OpArgument, ...]
    outputs: tuple[OpArgument, ...]
    kinds: dict[str, str]
    type_attrs: tuple[str, ...]
    allowed: dict[str, frozenset[int]]
    defaults: dict[str, Any]
    stateful: bool
    deprecated: bool = False

    def attr(self, node: Any, name: str) -> Any:
        """An AttrValue of a node of this op, or its default; KeyError if there is neither."""
        if name in node.attr:
            return node.attr[name]
        if name not in self.defaults:
            raise KeyError(f"{self.op} {node.name!r} has no attribute {name!r}")
        return self.defaults[name]

    def arguments(self) -> tuple[OpArgument, ...]:
        return (*self.inputs, *self.outputs)

    def input_types(self, node: Any) -> list[int]:
        """TensorFlow's DataType number of every data input."""
        return [t for a in self.inputs for t in a.types(self, node)]

    def output_types(self, node: Any) -> list[int]:
        """TensorFlow's DataType number of every output."""
        return [t for a in self.outputs for t in a.types(self, node)]

    def input_names(self, node: Any) -> list[str]:
        """For every data input, the name of the argument it belongs to."""
        return [a.name for a in self.inputs for _ in range(a.count(self, node))]

    def output_names(self, node: Any) -> list[str]:
        """For every output, the name of the argument it belongs to."""
        return [a.name for a in self.outputs for _ in range(a.count(self, node))]

    def input_slices(self, node: Any) -> dict[str, slice]:
        """Where each input argument stands in a node's list of data inputs."""
        out, at = {}, 0
        for a in self.inputs:
            n = a.count(self, node)
            out[a.name] = slice(at, at + n)
            at += n
        return out

    def calls_functions(self) -> bool:
        """Whether it has functions among its attributes."""
        return any(kind in ("func", "list(func)") for kind in self.kinds.values())

    def has_references(self) -> bool:
        """Whether it takes or gives a variable by reference (as TF1's variables were)."""
        return any(a.is_ref for a in self.arguments())

    def handles(self) -> list[str]:
        """Its input arguments that are one resource each."""
        return [a.name for a in self.inputs if a.type == RESOURCE and not a.number_attr]


_LOOP = OpFacts(
    "HpuLoop",
    (OpArgument("args", 0, "", "", "Tin"), OpArgument("fixed", 0, "", "", "Tfixed")),
    (OpArgument("results", 0, "", "", "Tout"),),
    {"Tin": "list(type)", "Tfixed": "list(type)", "Tout": "list(type)", "form": "string", "body": "string"},
    (), {}, {}, False,
)  # fmt: skip
"""A loop in a cluster (`tensorflow/clusters/loop_form.py`): TensorFlow does not know it."""


@remembered
def facts(op: str) -> OpFacts | None:
    """The facts of an op; None for one that TensorFlow does not know (a function, say)."""
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(op)
    if op_def is None:
        return _LOOP if op == _LOOP.op else None

    def arguments(args: Any) -> tuple[OpArgument, ...]:
        return tuple(OpArgument(a.name, a.type, a.type_attr, a.number_attr, a.type_list_attr, a.is_ref) for a in args)

    return OpFacts(
        op, arguments(op_def.input_arg), arguments(op_def.output_arg), {a.name: a.type for a in op_def.attr},
        tuple(a.name for a in op_def.attr if a.type == "type"),
        {a.name: frozenset(a.allowed_values.list.type) for a in op_def.attr if a.HasField("allowed_values")},
        {a.name: a.default_value for a in op_def.attr if a.HasField("default_value")}, op_def.is_stateful,
        op_def.HasField("deprecation"),
    )  # fmt: skip


def python_function(op: str) -> Callable[..., Any]:
    """TensorFlow's Python function for an op, as `tf.load_op_library` makes it. KeyError for one it does not know."""
    from types import ModuleType

    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.framework import _pywrap_python_op_gen, op_def_registry

    known(op)
    source = _pywrap_python_op_gen.GetPythonWrappers(
        op_def_pb2.OpList(op=[op_def_registry.get(op)]).SerializeToString()
    )
    module = ModuleType(f"{__name__}.{op}")
    exec(source, module.__dict__)
    wanted = op.replace("_", "").lower()
    function: Callable[..., Any] = next(
        value for name, value in vars(module).items() if name.islower() and name.replace("_", "") == wanted
    )
    return function


def known(op: str) -> OpFacts:
    """The facts of an op that this TensorFlow must know; KeyError if it does not."""
    found = facts(op)
    if found is None:
        raise KeyError(f"TensorFlow {_release()} has no op {op}")
    return found


def _release() -> str:
    import tensorflow as tf

    return str(tf.__version__)


def variable_type(op: str, types: Mapping[str, int]) -> int:
    """The element type of the variables of a resource op, by its type attributes: T or dtype; int64 for the state of
    tf.random.Generator. KeyError if they do not tell."""
    if op.startswith(("Rng", "Stateful")):
        return INT64
    for name in ("T", "dtype"):
        if types.get(name):
            return types[name]
    raise KeyError(f"{op}: no attribute tells the type of its variables")


def variable_type_of(node: Any) -> int:
    """`variable_type` of a NodeDef."""
    return variable_type(node.op, {name: value.type for name, value in node.attr.items()})


@dataclass(frozen=True)
class OpKernel:
    """A kernel TensorFlow has. types, texts: what its attributes are limited to; host: arguments in host memory."""

    device: str
    types: tuple[tuple[str, frozenset[int]], ...]
    texts: tuple[tuple[str, frozenset[bytes]], ...]
    host: frozenset[str]
    label: str
    priority: int

    def takes(self, facts: OpFacts, node: Any, instead: Mapping[int, int] | None = None) -> bool:
        """Whether it runs a node, by the node's attributes; `instead`: element types to be taken for others."""
        for name, texts in self.texts:
            if facts.attr(node, name).s not in texts:
                return False
        for name, allowed in self.types:
            value = facts.attr(node, name)
            found = list(value.list.type) or [value.type]
            if not allowed.issuperset(found if instead is None else [instead.get(t, t) for t in found]):
                return False
        return True

    def attrs(self) -> tuple[str, ...]:
        """The attributes that `types` limits."""
        return tuple(name for name, _ in self.types)

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Every choice for `attrs` that it takes and that TensorFlow's C API knows."""
        return product(*[sorted(t for t in allowed if t <= LAST_C_TYPE) for _, allowed in self.types])


KernelAttr = tuple[bytes, tuple[int, ...]]
"""Of an attribute, what kernels tell apart: its text, its element types."""


def telling(kernels: Iterable[OpKernel]) -> tuple[str, ...]:
    """The attributes by which kernels of one op differ."""
    return tuple(sorted({name for k in kernels for name, _ in (*k.types, *k.texts)}))


def any_takes(kernels: Sequence[OpKernel], values: Sequence[KernelAttr]) -> bool:
    """Whether one of these kernels runs a node whose attributes, those of `telling`, have these values."""
    value = dict(zip(telling(kernels), values, strict=True))
    return any(
        all(value[name][0] in texts for name, texts in k.texts)
        and all(allowed.issuperset(value[name][1]) for name, allowed in k.types)
        for k in kernels
    )


def kernel(kernel_def: Any) -> OpKernel:
    """A KernelDef."""
    types, texts = [], []
    for c in kernel_def.constraint:
        if c.allowed_values.list.s:
            texts.append((c.name, frozenset(c.allowed_values.list.s)))
        elif c.allowed_values.list.type:  # others tell flags apart, which no caller asks about
            types.append((c.name, frozenset(c.allowed_values.list.type)))
    host = frozenset(kernel_def.host_memory_arg)
    return OpKernel(kernel_def.device_type, tuple(types), tuple(texts), host, kernel_def.label, kernel_def.priority)


@remembered
def kernels(op: str, device: str) -> tuple[OpKernel, ...]:
    """The kernels of an op that a node gets on a device type without asking for a label."""
    if device == "HPU" and op in _told:
        return tuple(_told_of_hpu.get(op, ()))
    return tuple(kernel(k) for k in _registered(op) if k.device_type == device and not k.label)


@remembered
def _registered(op: str) -> Sequence[Any]:
    """All kernels of an op: as `tell` was told, else as TensorFlow says, which looks for them among all of all ops. A
    graph has some thirty ops, at three milliseconds each."""
    told = _told.get(op)
    if told is not None:
        return told
    from tensorflow.python.framework import kernels as registry

    found: Sequence[Any] = registry.get_registered_kernels_for_op(op).kernel
    return found


_told: dict[str, Sequence[Any]] = {}
_told_of_hpu: dict[str, list[OpKernel]] = {}


def tell(found: Mapping[str, Sequence[Any]], registered: Iterable[tuple[str, OpKernel]]) -> None:
    """Sets which kernels TensorFlow has, where all are known already. found: KernelDefs by op, those of HPU left
    out; registered: those of HPU, by op."""
    _told.clear()
    _told.update(found)
    _told_of_hpu.clear()
    for op, made in registered:
        _told_of_hpu.setdefault(op, []).append(made)
    for clear in _remembering:
        clear()


def all_kernels() -> Iterable[Any]:
    """TensorFlow's KernelDefs of all ops, thousands of them: for `kernel`, where one is of interest."""
    from tensorflow.python.framework import kernels as registry

    found: Iterable[Any] = registry.get_all_registered_kernels().kernel
    return found
