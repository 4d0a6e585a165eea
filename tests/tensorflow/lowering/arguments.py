"""Random arguments for any op of the table, most of them wrong: shapes, ranks, values of inputs that fix a shape.

A draw is a pure function of (op, number), so that a failure can be looked at again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensorflow.python.framework import op_def_registry

from habana_tf.ir.dtypes import DType, from_number
from habana_tf.tensorflow.lowering.row import Row

FIVE = ("3D", "ExtractVolume")
FOUR = ("Conv2D", "Conv2d", "Pool", "Resize", "LRN", "Image", "FusedBatch", "SpaceToDepth", "DepthToSpace")

REQUIRED: dict[str, list[Any]] = {
    "padding": ["SAME", "VALID"], "strides": [[1, 1, 1, 1], [1, 2, 2, 1]], "ksize": [[1, 2, 2, 1], [1, 3, 3, 1]],
    "ksizes": [[1, 2, 2, 1]], "rates": [[1, 1, 1, 1], [1, 2, 2, 1]], "mode": ["REFLECT", "SYMMETRIC"],
    "block_size": [2, 3], "num_split": [1, 2, 3], "num": [1, 2, 3], "k": [0, 1, 2], "seq_dim": [0, 1, 2, -1],
    "boundaries": [[0.0, 1.0]], "interpolation": ["NEAREST", "BILINEAR"], "shape": [[], [2], [2, 3]],
    "equation": ["ij,jk->ik", "ij->ji", "abc,cd->abd", "ii->i", "...i,i->...", "ij,ij->", "bij,bjk->bik"],
}  # fmt: skip
"""Values of attributes without a default; for five axes, those of the space are repeated."""


@dataclass(frozen=True)
class Draw:
    """attrs: by name, types as TensorFlow's numbers. inputs: (argument, is a variable, array) in the op's order."""

    op: str
    attrs: dict[str, Any]
    inputs: list[tuple[str, bool, Any]]

    def __str__(self) -> str:
        shapes = ", ".join(f"{name}: {a.dtype.name}{list(a.shape)}" for name, _, a in self.inputs)
        return f"{self.op}({shapes}) {self.attrs}"


def draw(row: Row, number: int) -> Draw:
    """Arguments for an op."""
    rng = random.Random(f"{row.op}{number}")
    op_def = op_def_registry.get(row.op)
    lists = {name for a in op_def.input_arg for name in (a.number_attr, a.type_list_attr) if name}
    attrs: dict[str, Any] = {}
    for attr in op_def.attr:
        if attr.name in lists:
            attrs[attr.name] = rng.choice([2, 3]) if attr.type == "int" else [DType.F32.number] * 2
        elif attr.type != "tensor":
            attrs[attr.name] = _attribute(row, attr, rng)
    base = [rng.choice([1, 2, 2, 3, 3, 4]) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4]))]
    inputs = []
    for arg in op_def.input_arg:
        variable = arg.name in (*row.variables, *row.updates)
        for tf_type in _types(row, arg, attrs, variable):
            dtype = from_number(tf_type)
            assert dtype is not None, (row.op, arg.name)
            inputs.append((arg.name, variable, _array(dtype, _shape(row, arg.name, base, rng), rng)))
    return Draw(row.op, attrs, inputs)


def _attribute(row: Row, attr: Any, rng: random.Random) -> Any:
    if attr.type == "type":
        allowed = set(attr.allowed_values.list.type)
        types = row.types.get(attr.name)
        if types is None:
            return attr.default_value.type or (rng.choice(sorted(allowed)) if allowed else DType.F32.number)
        fit = [t.number for t in types if t is not DType.BF16 and (not allowed or t.number in allowed)]
        return DType.F32.number if DType.F32.number in fit and rng.random() < 0.9 else rng.choice(fit)
    if not attr.HasField("default_value"):
        if attr.HasField("allowed_values") and attr.name != "padding":
            return rng.choice([s.decode() for s in attr.allowed_values.list.s])
        value = rng.choice(REQUIRED[attr.name])
        return [1, *value[1:3], value[2], 1] if len(str(value)) > 6 and _rank(row.op) == 5 else value
    default = attr.default_value
    if attr.type == "shape":
        return None
    if attr.type.startswith("list("):
        return list(getattr(default.list, {"int": "i", "float": "f", "bool": "b", "type": "type"}[attr.type[5:-1]]))
    if attr.type == "string":
        return default.s.decode()
    value = getattr(default, {"int": "i", "float": "f", "bool": "b"}[attr.type])
    if attr.type == "bool" and rng.random() < 0.3:
        return not value
    if attr.type == "int" and attr.name in ("axis", "batch_dims", "batch_dim") and rng.random() < 0.3:
        return value + rng.choice([-1, 1, 2])
    return value


def _types(row: Row, arg: Any, attrs: dict[str, Any], variable: bool) -> list[int]:
    if variable:
        own = DType.I64.number if row.op.startswith(("Rng", "Stateful")) else attrs.get("T") or attrs.get("dtype")
        return [own or DType.F32.number]
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr])
    return [attrs[arg.type_attr] if arg.type_attr else arg.type] * (attrs[arg.number_attr] if arg.number_attr else 1)


def _rank(op: str) -> int:
    return 5 if any(w in op for w in FIVE) else 4 if any(w in op for w in FOUR) else 0


def _shape(row: Row, name: str, base: list[int], rng: random.Random) -> list[int]:
    if name in (*row.fixed, *row.host) and rng.random() < 0.9:
        return [len(base), 2] if name in ("paddings", "crops") else rng.choice([[], [len(base)], [1], [2], [4]])
    chance, rank = rng.random(), _rank(row.op)
    if rank and chance < 0.7:
        return [rng.choice([1, 2, 4] if chance < 0.4 else [2, 3]) for _ in range(rank)]
    if chance < 0.55 or not base:
        return list(base)
    if chance < 0.75:
        at = rng.randrange(len(base))
        return [*base[:at], rng.choice([0, 1, 2, 3]), *base[at + 1 :]]
    return rng.choice([base[:-1], [], [rng.choice([0, 1, 2, 3])], [rng.choice([1, 2, 3]) for _ in range(3)]])


def _array(dtype: DType, shape: list[int], rng: random.Random) -> Any:
    state = np.random.RandomState(rng.randrange(1 << 30))
    if dtype is DType.BOOL:
        return np.zeros(shape, bool)
    if dtype.is_float:
        return np.asarray(state.uniform(0.1, 2, shape)).astype(dtype.numpy)
    low = -2 if dtype.name.startswith("I") and rng.random() < 0.3 else 0
    return np.asarray(state.randint(low, 4, shape)).astype(dtype.numpy)
