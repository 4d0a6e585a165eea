"""Lists the kernels that HPU registers with TensorFlow.

Those of the op table, and those without which a program would end in a placement error: for ops on variables, and in
place of other accelerators' kernels (`stand_ins.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from habana_tf.tensorflow.facts import opdefs, stand_ins, table_kernels
from habana_tf.tensorflow.facts.opdefs import INT32, RESOURCE

Registration = tuple[str, list[tuple[str, int]], list[str], str]
"""(op, [(type attribute, type)], arguments in host memory, kind). kind: "op", "in_place" (its output may be an input's
buffer), "variable" (works on variables) or "stock" (`stand_ins.py`)."""


def registrations() -> list[Registration]:
    """The kernels to register.

    First those of the op table, without what TensorFlow's own default kernels do on any device (reshapes that
    move nothing, variables, shape arithmetic in host memory); then every
    op on resource variables that has a CPU kernel and nothing for HPU: without a kernel such an op on an HPU
    variable is a placement error that soft placement does not cure. At last what stands in for other accelerators'.
    """
    rows = table_kernels.all_of_table()
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


def _kernel(types: list[tuple[str, int]], host: list[str], kind: str) -> opdefs.OpKernel:
    """What TensorFlow will say of a kernel that is registered."""
    priority = opdefs.STAND_IN if kind == "stock" else 0
    allowed = tuple((name, frozenset({dtype})) for name, dtype in types)
    return opdefs.OpKernel("HPU", allowed, (), frozenset(host), "", priority)


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
        self._defaults: dict[str, list[opdefs.OpKernel]] = {}
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
