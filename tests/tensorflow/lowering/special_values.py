"""Special values for any op of the table: NaN, infinities, denormals and signed zeros among ordinary numbers, the
extremes among integers; and whether HPU makes of them what stock TensorFlow's CPU kernel makes of them.

Arguments that an op takes are looked for among random ones (`arguments`), or written out where random ones hardly ever
fit (`special_calls`). HPU's answer is computed in every way that users have: interpreted, compiled for all shapes at
once (as an op that runs by itself is), and compiled for its shapes (as in a function).
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import numpy as np
import tensorflow as tf
from arguments import Draw, draw
from harness import compiled
from special_calls import CALLS, Call, optimizer
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry

from habana_tf.cluster.lower import lower
from habana_tf.ir.dtypes import DType
from habana_tf.ir.interpreter import run as interpreted
from habana_tf.tensorflow.clusters.any_shape import generalize
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import of_node
from habana_tf.tensorflow.lowering.row import INTS, Row
from tests.effort import THOROUGH

INF, DENORMAL = float("inf"), 1e-40
KINDS: dict[str, tuple[float, ...]] = {
    "nan": (float("nan"),), "inf": (INF,), "-inf": (-INF,), "denormal": (DENORMAL, -DENORMAL), "zero": (0.0, -0.0),
    "mixed": (float("nan"), INF, -INF, 0.0, -0.0),
}  # fmt: skip
"""What stands among ordinary floats."""
EXTREMES = "extremes"
"""The kind of integers: the least and the greatest of their type."""

ORDINARY = {
    "AdjustHue": ("delta",),  # TensorFlow's kernel never returns for a hue of infinity
    **dict.fromkeys(("CropAndResize", "CropAndResizeGradBoxes", "CropAndResizeGradImage"), ("boxes",)),
    **dict.fromkeys(("ImageProjectiveTransformV2", "ImageProjectiveTransformV3"), ("transforms",)),
}
"""Arguments that stay ordinary: at positions that are none TensorFlow's kernels read what stands beside an image."""

SEARCHED = 400
"""Random arguments that are tried for an op."""
ENOUGH = 3 if THOROUGH else 1
"""Arguments of an op that are kept, the largest first."""
DRAWN = 3
"""How often special values are drawn for the same arguments."""
TINY = np.float32(2.0**-126)
"""The least float32 that is no denormal."""
TOLERANCE = 2e-4
"""Relative: it is about where which special value stands; other tests compare the digits."""


def data_types(row: Row) -> dict[str, str]:
    """The arguments of an op that take special values: floats ("float"), numbers of a type that may be one ("either"),
    and integers alone, which come in extremes ("integer"); positions, counts and what fixes a shape are none."""
    out = {}
    for arg in op_def_registry.get(row.op).input_arg:
        if arg.name in (*row.fixed, *row.host, *ORDINARY.get(row.op, ())) or row.op.startswith("Stateful"):
            continue  # the variable of a generator is its state
        if arg.name in (*row.variables, *row.updates):
            types: tuple[DType, ...] = next((row.types[a] for a in ("T", "dtype") if a in row.types), ())
        elif arg.type_list_attr:
            types = (DType.F32,)
        else:
            types = row.types.get(arg.type_attr, ())
            types = types or ((DType.F32,) if arg.type == DType.F32.number else ())
        if arg.type_attr == "T" and types and all(t in INTS for t in types) and not row.op.startswith("InTopK"):
            out[arg.name] = "integer"
        if DType.F32 in types:
            out[arg.name] = "either" if DType.I32 in types else "float"
    return out


def with_attributes(op: str, given: dict[str, Any]) -> dict[str, Any]:
    """All attributes of an op: those given, and the defaults of the others."""
    out = {}
    for attr in op_def_registry.get(op).attr:
        if attr.name in given:
            out[attr.name] = given[attr.name]
        elif attr.HasField("default_value"):
            out[attr.name] = attr.default_value
    return out


def of_call(row: Row, call: Call) -> Draw:
    """Written arguments with the attributes that follow from them."""
    op_def, attrs = op_def_registry.get(row.op), dict(call.attrs)
    inputs = []
    for arg in op_def.input_arg:
        value = call.inputs[arg.name]
        many = list(value) if isinstance(value, list) else [value]
        for array in many:
            inputs.append((arg.name, arg.name in (*row.variables, *row.updates), np.asarray(array)))
        if arg.number_attr:
            attrs[arg.number_attr] = len(many)
        variable = arg.name in (*row.variables, *row.updates)
        name = arg.type_attr or (variable and next((a for a in ("T", "dtype") if a in row.types), ""))
        if name:
            attrs.setdefault(name, tf.as_dtype(inputs[-1][2].dtype).as_datatype_enum)
    for attr in op_def.attr:
        if attr.HasField("default_value") and attr.type == "type":
            attrs.setdefault(attr.name, attr.default_value.type)
    return Draw(row.op, attrs, inputs)


def node_of(made: Draw) -> Any:
    """The node of the op with these attributes."""
    kinds = {a.name: a.type for a in op_def_registry.get(made.op).attr}
    node = node_def_pb2.NodeDef(op=made.op, name=made.op, input=[f"x{k}" for k in range(len(made.inputs))])
    for name, value in with_attributes(made.op, made.attrs).items():
        to = node.attr[name]
        kind = kinds[name]
        if isinstance(value, type(to)):
            to.CopyFrom(value)
        elif kind == "shape":
            if value is None:
                to.shape.unknown_rank = True
            else:
                to.shape.CopyFrom(tf.TensorShape(value).as_proto())
        elif kind.startswith("list("):
            field = {"int": "i", "float": "f", "bool": "b", "type": "type"}[kind[5:-1]]
            getattr(to.list, field).extend(value)
            to.list.SetInParent()
        elif kind == "string":
            to.s = value.encode() if isinstance(value, str) else value
        else:
            setattr(to, {"int": "i", "float": "f", "bool": "b", "type": "type"}[kind], value)
    return node


def ours(row: Row, made: Draw) -> dict[str, list[Any]]:
    """What HPU computes, by the way it does. Raises LoweringError for arguments that it refuses."""
    cluster = parse(of_node(node_of(made).SerializeToString()))
    slots = [slot for _, slot in cluster.nodes[0].inputs]
    given = [made.inputs[slots.index(k)][2] for k in range(len(slots))]
    fixed = cluster.fixed_inputs()
    known = [a if i in fixed else None for i, a in enumerate(given)]
    program = lower(cluster, [a.shape for a in given], known)
    with np.errstate(all="ignore"):
        out = {"interpreted": interpreted(program, given, ()), "function": compiled(program, given, ())}
    form = generalize(row, cluster.nodes[0], [a.shape for a in given], known) if row.generic else None
    if form is not None:
        out["eager"] = compiled(lower(cluster, form.shapes, form.values), given, (), form)
    return out


def accepted(row: Row, made: Draw) -> bool:
    """Whether HPU takes such arguments."""
    cluster = parse(of_node(node_of(made).SerializeToString()))
    slots = [slot for _, slot in cluster.nodes[0].inputs]
    given = [made.inputs[slots.index(k)][2] for k in range(len(slots))]
    fixed = cluster.fixed_inputs()
    try:
        lower(cluster, [a.shape for a in given], [a if i in fixed else None for i, a in enumerate(given)])
    except Exception:  # of random arguments most are refused, in many ways
        return False
    return True


def stock(row: Row, made: Draw) -> list[Any] | None:
    """What TensorFlow's CPU kernel computes: updated variables first; None if it refuses the arguments."""
    op_def = op_def_registry.get(made.op)
    outputs = 0
    for arg in op_def.output_arg:
        count = made.attrs.get(arg.number_attr) if arg.number_attr else None
        outputs += count or (len(made.attrs[arg.type_list_attr]) if arg.type_list_attr else 1)
    kinds = {a.name: a.type for a in op_def.attr}
    with tf.device("/CPU:0"):
        kept, inputs = {}, []
        for name, variable, array in made.inputs:
            tensor = tf.Variable(array) if variable else tf.constant(array)
            kept[name] = tensor
            inputs.append(tensor.handle if variable else tensor)
        flat = [x for name, value in made.attrs.items() if name in kinds for x in (name, value)]
        try:
            out = execute.quick_execute(made.op, outputs, inputs, tuple(flat), context.context())
        except tf.errors.OpError:
            return None
    return [*(kept[name].numpy() for name in row.updates), *(t.numpy() for t in out or [])]


def sprinkled(row: Row, made: Draw, kind: str, number: int) -> Draw | None:
    """The arguments with special values of a kind in about a third of their places; None if they take none."""
    rng = np.random.RandomState(random.Random(f"{made}{kind}{number}").randrange(1 << 30))
    takes, hit, inputs = data_types(row), False, []
    several = any(n in takes and a.size > 1 for n, _, a in made.inputs)  # then a single number is a rate, or a bound
    for name, variable, array in made.inputs:
        if name in takes and array.size > several:
            array = array.copy()
            places = rng.uniform(size=array.shape) < (0.35 if array.size > 1 else 1.0)
            if array.dtype == np.float32 and kind in KINDS:
                if not places.any():
                    places.reshape(-1)[0] = True
                array[places] = rng.choice(np.array(KINDS[kind], np.float32), int(places.sum()))
                hit = True
            elif array.dtype.kind in "iu" and kind == EXTREMES:
                limits = np.iinfo(array.dtype)
                array[places] = rng.choice(np.array([limits.min, limits.max], array.dtype), int(places.sum()))
                hit = hit or bool(places.any())
        inputs.append((name, variable, array))
    return consistent(dataclasses.replace(made, inputs=inputs)) if hit else None


def consistent(made: Draw) -> Draw:
    """The arguments with those made anew that follow from others: what a pooling gave, boundaries in order."""
    arrays = {name: array for name, _, array in made.inputs}
    changed: dict[str, Any] = {}
    if "orig_output" in arrays and "Pool" in made.op:
        dims = arrays["orig_input"].ndim - 2
        ksize, strides = (made.attrs.get(k, arrays.get(k)) for k in ("ksize", "strides"))
        with tf.device("/CPU:0"):
            pool = tf.nn.max_pool2d if dims == 2 else tf.nn.max_pool3d
            changed["orig_output"] = pool(arrays["orig_input"], ksize[1], strides[1], made.attrs["padding"]).numpy()
    if "sorted_inputs" in arrays:
        changed["sorted_inputs"] = np.sort(arrays["sorted_inputs"], -1)
    return dataclasses.replace(made, inputs=[(n, v, changed.get(n, a)) for n, v, a in made.inputs])


def in_integers(row: Row, made: Draw) -> Draw | None:
    """The same arguments with int32 in the place of float32; None if the op does not take it."""
    op_def, attrs, swapped = op_def_registry.get(made.op), dict(made.attrs), set()
    if "integer" in data_types(row).values():
        return made
    for name, types in row.types.items():
        if attrs.get(name) == DType.F32.number and DType.I32 in types:
            allowed = next(a for a in op_def.attr if a.name == name).allowed_values.list.type
            if not allowed or DType.I32.number in allowed:
                attrs[name] = DType.I32.number
                swapped.add(name)
    if not swapped:
        return None
    own = {a.name for a in op_def.input_arg if a.type_attr in swapped} | {*row.variables, *row.updates}
    inputs = [
        (n, v, np.asarray(a * 2).astype(np.int32) if n in own and a.dtype == np.float32 else a)
        for n, v, a in made.inputs
    ]
    return dataclasses.replace(made, attrs=attrs, inputs=inputs)


def examples(row: Row) -> list[Draw]:
    """Ordinary arguments that both take."""
    if row.op in CALLS:
        return [of_call(row, call) for call in CALLS[row.op]]
    if row.op.startswith(("ResourceApply", "ResourceSparseApply")):
        return [of_call(row, optimizer(row.op))]
    found: list[Draw] = []
    for number in range(SEARCHED):
        made = draw(row, number)
        takes = data_types(row)
        numbers = [a for n, _, a in made.inputs if n in takes and (a.dtype == np.float32 or takes[n] == "integer")]
        if not any(a.size > 1 for a in numbers) or any(a.size == 0 for _, _, a in made.inputs):
            continue
        want = stock(row, made) if accepted(row, made) else None
        if want is not None and all(w.size for w in want):
            found.append(made)
            if len(found) == ENOUGH:
                break
    return sorted(found, key=lambda d: -sum(a.size for _, _, a in d.inputs))


def without_denormals(made: Draw) -> Draw:
    """The same arguments with a zero of its sign for each denormal."""

    def flushed(a: Any) -> Any:
        return np.where(np.abs(a) < TINY, np.copysign(np.float32(0), a), a) if a.dtype == np.float32 else a

    return dataclasses.replace(made, inputs=[(n, v, flushed(a)) for n, v, a in made.inputs])


def same(got: Any, want: Any, signs: bool) -> bool:
    """Equal special values in equal places, and about equal numbers; `signs`: zeros of the same sign, too."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind != "f":
        return bool((got == want).all())
    got = np.where(np.abs(got) < TINY, np.copysign(np.float32(0), got), got)  # see docs/special-values.md
    want = np.where(np.abs(want) < TINY, np.copysign(np.float32(0), want), want)
    if signs and (np.signbit(got) != np.signbit(want))[(got == 0) & (want == 0)].any():
        return False
    return bool(np.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))


@dataclasses.dataclass
class Outcome:
    """Of one op and kind of value: how many arguments were compared, and (way, arguments, HPU's outputs, TensorFlow's)
    where they differ."""

    compared: int
    differences: list[tuple[str, Draw, Any, Any]]

    @property
    def mark(self) -> str:
        return "≠" if self.differences else "=" if self.compared else "-"


def outcome(row: Row, kind: str, made: list[Draw]) -> Outcome:
    """HPU's answers beside TensorFlow's, but for denormals where a program is interpreted: NumPy keeps them."""
    found = Outcome(0, [])
    for base, number in itertools.product(made, range(DRAWN)):
        ordinary = in_integers(row, base) if kind == EXTREMES else base
        given = sprinkled(row, ordinary, kind, number) if ordinary is not None else None
        want = stock(row, given) if given is not None else None
        if given is None or want is None:
            continue
        found.compared += 1
        flushed = stock(row, without_denormals(given)) if kind == "denormal" else None
        wanted = [w for w in (want, flushed) if w is not None]
        for way, got in ours(row, given).items():
            right = (all(same(g, x, kind == "zero") for g, x in zip(got, w, strict=True)) for w in wanted)
            if not any(right) and (kind, way) != ("denormal", "interpreted"):
                found.differences.append((way, given, got, want))
    return found
