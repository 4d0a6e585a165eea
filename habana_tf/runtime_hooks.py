"""What native code asks of Python: one function per callback of kernels/runtime/callbacks.h.

The bridge calls these under the GIL, from any thread, with no native lock held. They import what they need when
they are called, so that loading the plugin imports neither compiler nor graph pass. An exception becomes a
TensorFlow status: the one in its attribute `tf_code` if it has one, else INTERNAL with the place it was raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import opdefs
from .opdefs import INT32, RESOURCE

if TYPE_CHECKING:
    from ._native._bridge import GraphItem, Program

__all__ = [
    "Info",
    "cluster_info",
    "eager_context",
    "memory_text",
    "no_card_text",
    "node_info",
    "optimize",
    "profile_start",
    "profile_stop",
    "registrations",
    "resolve",
    "variable_plan",
    "warn_of_index",
]

Info = tuple[bytes, list[int], list[int], list[tuple[int, int]]]
"""(cluster, op input behind each cluster input, inputs whose values fix a shape, seeds of the random states)"""


def node_info(node_def: bytes) -> Info:
    """The cluster of one op that runs by itself."""
    from .cluster import cluster

    return _info(node_def, cluster.of_node(node_def))


def cluster_info(data: bytes) -> Info:
    """What an HpuLaunch must know of its cluster; its inputs are the cluster's, in the same order."""
    from .cluster import cluster

    fixed, seeds = cluster.info(data)
    return data, [], fixed, seeds


def _info(node_def: bytes, data: bytes) -> Info:
    from .cluster import cluster

    parsed = cluster.parsed(data)
    node = _node(node_def)
    slices = opdefs.known(node.op).input_slices(node)
    positions = {name: iter(range(where.start, where.stop)) for name, where in slices.items()}
    order = [next(positions[arg.name]) for arg in parsed.inputs]
    return data, order, parsed.fixed_inputs(), parsed.seeds()


def _node(node_def: bytes) -> Any:
    from tensorflow.core.framework import node_def_pb2

    return node_def_pb2.NodeDef.FromString(node_def)


def variable_plan(node_def: bytes) -> tuple[Any, ...]:
    """How an op on resource variables runs outside a launch.

    ("dataflow", dtype, info, [(result, op input)] to assign, [results] that are the op's outputs), or for an op
    that HPU cannot lower: ("stock", dtype, op, reads only, [(attribute, serialized AttrValue)]).
    """
    from .cluster import cluster
    from .lowering import table

    node = _node(node_def)
    dtype = opdefs.variable_type(node.op, {k: v.type for k, v in node.attr.items()})
    row = table.lookup(node.op)
    if row is not None and _takes(row, node):
        data = cluster.of_node(node_def)
        results = cluster.parsed(data).results
        info = _info(node_def, data)
        assigns = [(k, info[1][r.assigns]) for k, r in enumerate(results) if r.assigns >= 0]
        outputs = [k for k, r in enumerate(results) if r.assigns < 0]
        return "dataflow", dtype, info, assigns, outputs
    attrs = [(k, v.SerializeToString()) for k, v in node.attr.items() if not k.startswith("_")]
    return "stock", dtype, node.op, node.op.startswith("ResourceGather"), attrs


def stock_plan(node_def: bytes) -> tuple[str, list[tuple[str, bytes]]]:
    """How TensorFlow's CPU kernel runs an op that stands on HPU."""
    from . import stand_ins

    return stand_ins.plan(_node(node_def))


def _takes(row: Any, node: Any) -> bool:
    """Whether the op table has these element types."""
    return all(node.attr[attr].type in {dtype.tf_enum for dtype in allowed} for attr, allowed in row.types.items())


def resolve(data: bytes, signature: list[tuple[int, tuple[int, ...], bytes | None]]) -> Program:
    """The program that runs a cluster on inputs of these types, shapes and values."""
    from .resolver import resolve as resolver

    return resolver.resolve(data, signature)


def optimize(graph: bytes, item: GraphItem) -> bytes | None:
    """TensorFlow's placed graph after the graph pass, or None when there is nothing to do."""
    from . import habana_variables
    from .graph import foreseen_work, pipeline

    foreseen_work.announce_graph(graph)
    habana_variables.announce()  # scripts set some after loading
    return pipeline.optimize(graph, item)


def memory_text() -> str:
    """Bytes in use and in total on the card, for an out-of-memory error."""
    import tensorflow as tf

    from .hardware.chips import chip

    in_use = tf.config.experimental.get_memory_info("HPU:0")["current"]
    return f"{in_use} bytes in use, {chip().hbm_bytes} bytes total"


def profile_start() -> None:
    """A session of TensorFlow's profiler begins."""
    from .timeline import profiler

    profiler.start()


def profile_stop() -> bytes:
    """It ends: a serialized XSpace."""
    from .timeline import profiler

    return profiler.stop()


def warn_of_index(text: str) -> None:
    """A launch met an index out of range."""
    from .resolver import index_checks

    index_checks.warn(text)


def no_card_text() -> str:
    """The error of a process that found no free card at its first op."""
    from .hardware import claim

    return claim.none_free()


def eager_context() -> Any:
    """The capsule of the user's eager context, or None."""
    from tensorflow.python.eager import context

    current = context.context()
    current.ensure_initialized()
    return current._handle


def registrations() -> list[tuple[str, list[tuple[str, int]], list[str], str]]:
    """Kernels to register: (op, [(type attribute, type)], arguments in host memory, kind).

    kind: "op", "in_place" (its output may be an input's buffer), "variable" (works on variables) or "stock"
    (`stand_ins.py`).

    First the rows of the op table, without what TensorFlow's own default kernels do on any device (reshapes that
    move nothing, variables, shape arithmetic in host memory); then every
    op on resource variables that has a CPU kernel and nothing for HPU: without a kernel such an op on an HPU
    variable is a placement error that soft placement does not cure. At last what stands in for other accelerators'.
    """
    from . import stand_ins
    from .lowering import table

    rows = table.registrations()
    kernels = _Kernels(opdefs.all_kernels(), frozenset(row.op for row in rows))
    handles: dict[str, list[str]] = {}
    hosts: dict[str, frozenset[str]] = {}
    have: dict[str, list[dict[str, int]]] = {}
    out = []
    for row in rows:
        types = dict(row.types)
        hosts.setdefault(row.op, frozenset(row.host))
        if kernels.has_default(row.op, types):
            continue
        resources = handles.get(row.op)
        if resources is None:
            resources = handles[row.op] = opdefs.known(row.op).handles()
        kind = "variable" if resources else "in_place" if row.in_place else "op"
        out.append((row.op, list(row.types), [*row.host, *resources], kind))
        have.setdefault(row.op, []).append(types)
    variable_ops = kernels.variable_ops()
    for op in variable_ops:
        for combination in kernels.cpu_types(op):
            ours = have.setdefault(op, [])
            if any(_overlap(combination, other) for other in ours) or kernels.has_default(op, combination):
                continue
            ours.append(combination)
            host = sorted(_host_arguments(op, combination))
            out.append((op, list(combination.items()), host, "variable"))

    left_out = frozenset(variable_ops)
    taken: dict[str, dict[tuple[str, ...], set[tuple[int | None, ...]]]] = {}
    for op, ours in have.items():
        by_names = taken[op] = {}
        for types in ours:
            by_names.setdefault(tuple(types), set()).add(tuple(types.values()))

    def has(op: str, types: dict[str, int]) -> bool:
        if op in left_out or kernels.has_default(op, types):
            return True
        return any(tuple(map(types.get, names)) in found for names, found in taken.get(op, {}).items())

    stock = stand_ins.select(kernels.gpu, kernels.cpu, has, lambda op: hosts.get(op, frozenset()))
    out.extend((op, list(types.items()), sorted(host), "stock") for op, types, host in stock)
    opdefs.tell(kernels.of_op, ((op, _kernel(types, host, kind)) for op, types, host, kind in out))
    return out


def _kernel(types: list[tuple[str, int]], host: list[str], kind: str) -> opdefs.Kernel:
    """What TensorFlow will say of a kernel that is registered."""
    priority = opdefs.STAND_IN if kind == "stock" else 0
    allowed = tuple((name, frozenset({dtype})) for name, dtype in types)
    return opdefs.Kernel("HPU", allowed, (), frozenset(host), "", priority)


def _overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    """Whether two kernels with these type constraints could match the same node."""
    return all(b[name] == dtype for name, dtype in a.items() if name in b)


def _host_arguments(op: str, types: dict[str, int]) -> Iterable[str]:
    """Arguments of a stock resource op in host memory: handles, int32, and all but the variables' own type."""
    facts = opdefs.known(op)
    own = opdefs.variable_type(op, types) if types.get("T") or types.get("dtype") else None
    for arg in facts.arguments():
        dtype = arg.type or types.get(arg.type_attr)
        if dtype in (RESOURCE, INT32) or (arg in facts.inputs and (dtype is None or dtype != own)):
            yield arg.name


def _locks_variables() -> bool:
    """Whether TensorFlow lets a plugin take its mutex of a variable (`kernels/plugin/updated_variables.h`)."""
    import tensorflow as tf

    library = ctypes.CDLL(str(Path(tf.__file__).parent / "libtensorflow_framework.so.2"))
    return hasattr(library, "TF_MaybeLockVariableInputMutexesInOrder")


class _Kernels:
    """The kernels TensorFlow has in this process."""

    _VARIABLE_OPS = ("ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceGather",
                     "ResourceStridedSlice", "ResourceCountUpTo", "Rng", "Stateful")  # fmt: skip
    _LOCKING = ("AssignAddVariableOp", "AssignSubVariableOp")
    """Ops whose kernels for any device take TensorFlow's mutex of a variable. Where a plugin cannot take it (TensorFlow
    from 2.19 on), HPU has kernels of its own, which take the lock that its other updates take."""

    def __init__(self, known: Iterable[Any], rows: frozenset[str]) -> None:
        """known: TensorFlow's KernelDefs. rows: the ops of the op table."""
        self.cpu: dict[str, list[Any]] = {}
        self.gpu: dict[str, list[Any]] = {}
        """Kernels by op, without those that ask for a label."""
        self.of_op: dict[str, list[Any]] = {}
        """The same for all devices but HPU."""
        self._by_op: dict[str, list[Any]] = {}
        self._raw_defaults: dict[str, list[Any]] = {}
        self._defaults: dict[str, list[opdefs.Kernel]] = {}
        self._ours = () if _locks_variables() else self._LOCKING
        for kernel in known:
            if kernel.label:
                continue
            op, device = kernel.op, kernel.device_type
            if device != "HPU":
                self.of_op.setdefault(op, []).append(kernel)
            if op in rows or op.startswith((*self._VARIABLE_OPS, *self._ours)):
                self._by_op.setdefault(op, []).append(kernel)
            if device == "CPU":
                self.cpu.setdefault(op, []).append(kernel)
            elif device == "GPU":
                self.gpu.setdefault(op, []).append(kernel)
            elif device == "DEFAULT" and op not in self._ours:
                self._raw_defaults.setdefault(op, []).append(kernel)

    def variable_ops(self) -> list[str]:
        """Ops that take the handle of a resource variable."""
        ours = [op for op in sorted(self._by_op) if op.startswith((*self._VARIABLE_OPS, *self._ours))]
        return [op for op in ours if (known := opdefs.facts(op)) is not None and known.handles()]

    def has_default(self, op: str, types: dict[str, int]) -> bool:
        """Whether TensorFlow's kernel for any device takes these element types."""
        raw = self._raw_defaults.pop(op, None)
        if raw is not None:
            self._defaults[op] = [opdefs.kernel(k) for k in raw]
        return any(
            all(types.get(name) in allowed for name, allowed in default.types) for default in self._defaults.get(op, ())
        )

    def cpu_types(self, op: str) -> list[dict[str, int]]:
        """The element types of the CPU kernels of an op, one dictionary per combination of type attributes."""
        kernels = [opdefs.kernel(k) for k in self._by_op[op] if k.device_type == "CPU"]
        return [dict(zip(k.attrs(), types, strict=True)) for k in kernels for types in k.combinations()]
