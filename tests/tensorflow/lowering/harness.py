"""Compares the lowering of an op with stock TensorFlow on the CPU.

    check(lambda x, y: tf.raw_ops.AddV2(x=x, y=y), x, y)

builds the cluster of the op(s) that the callable makes in a graph, with every array an input of the cluster (so
that nothing is known at compile time but what the op table calls fixed), lowers it for the arrays' shapes, runs
the program by the interpreter and compiled, and compares with what the callable gives when called eagerly on the CPU.
Python constants inside the callable become Const nodes of the cluster.

What is compiled is what users run: for an op whose recipe serves all shapes ("generic" in the op table) the program
over symbolic extents, and each program once, whatever values it is run on. `make test-all` compiles the programs for
the arrays' shapes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from habana_tf._native import _bridge
from habana_tf.cluster.cluster import AnyShape, Arg
from habana_tf.cluster.lower import lower
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.generic_products import generic_product
from habana_tf.compiler.recipe import Recipe, bind
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.dtypes import from_number
from habana_tf.ir.primitives import Program
from habana_tf.resolver.key_text import program_text
from habana_tf.tensorflow.clusters.any_shape import generalize
from habana_tf.tensorflow.clusters.cluster import TensorFlowCluster, parse
from habana_tf.tensorflow.clusters.writer import ClusterWriter, of_node
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.table import lookup
from tests.effort import THOROUGH

Backend = Callable[[Program, Sequence[Any], Sequence[Any]], list[Any]]


_recipes: dict[str, Recipe] = {}
"""By how bf16 is multiplied, and the text of the program."""


def compiled(program: Program, inputs: Sequence[Any], states: Sequence[Any], form: AnyShape | None = None) -> list[Any]:
    """The outputs of the compiled program. Raises Unfit for one that would be interpreted: there should be none.

    form: for a program over symbolic extents, their numbers and the outputs' shapes.
    """
    goal = target()
    text = f"{goal.bf16_products}\n{program_text(program)}"
    recipe = _recipes.get(text)
    if recipe is None:
        recipe = _recipes[text] = compile_program(program, "test", goal)
    shapes = form.results([n.shape for n in program.outputs]) if form else [n.shape for n in program.outputs]
    bound = bind(recipe, form.dims if form else (), shapes, goal)
    raw = _bridge.run_program(bound, list(map(np.ascontiguousarray, inputs)), [s.tobytes() for s in states])
    return [data.view(n.dtype.numpy).reshape(s) for data, n, s in zip(raw, program.outputs, shapes, strict=True)]


def as_walk(program: Program, inputs: Sequence[Any]) -> list[list[Any]]:
    """What a product gives whose sizes are data, which an eager one is (see `ir.loop_nest`): compiled and interpreted;
    nothing for other programs."""
    goal = target()
    walk = generic_product(program, goal)
    if walk is None:
        return []
    text = program_text(walk.program)
    if text not in _recipes:
        _recipes[text] = compile_program(walk.program, "test", goal)
    bound = bind(_recipes[text], walk.dims, [walk.shape], goal)
    (raw,) = _bridge.run_program(bound, list(map(np.ascontiguousarray, inputs)), [])
    bound = interpreter.bind(walk.program, walk.dims)
    flat = [np.reshape(x, interpreter.dims(n)) for x, n in zip(inputs, bound.inputs, strict=True)]
    (interpreted,) = interpreter.run(bound, flat)
    return [[data.reshape(walk.shape)] for data in (raw.view(interpreted.dtype), interpreted)]


BACKENDS: list[Backend] = [interpreter.run, compiled]
"""What runs the lowered programs; every one of them must agree with stock TensorFlow."""

TOLERANCE = {"float32": (1e-5, 1e-6), "bfloat16": (1.6e-2, 1e-2)}
"""Relative and absolute tolerance per element type; integers and booleans are exact. bfloat16: two units in the
last place, since TensorFlow rounds between the steps of many ops."""

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)

quick = settings(max_examples=12, deadline=None, derandomize=True)
"""For @given tests: few examples, the same ones in every run."""


def make_cluster(
    fn: Callable[..., Any], arrays: Sequence[Any], shaped: bool = True
) -> tuple[TensorFlowCluster, list[int]]:
    """The cluster of all ops that `fn` makes, and for each cluster input the index of its array.

    shaped=False hides the shapes from TensorFlow, which then cannot refuse the arguments on its own.
    """
    with tf.Graph().as_default() as graph:
        holders = [tf.compat.v1.placeholder(a.dtype, a.shape if shaped else None) for a in arrays]
        out = [t for t in tf.nest.flatten(fn(*holders)) if isinstance(t, tf.Tensor)]
        ops = [op for op in graph.get_operations() if op.type != "Placeholder"]
    which = {h.name: k for k, h in enumerate(holders)}
    if len(ops) == 1 and len(out) == len(ops[0].outputs):
        cluster = parse(of_node(ops[0].node_def.SerializeToString()))
        slots = [slot for _, slot in cluster.nodes[0].inputs]
        return cluster, [which[ops[0].inputs[slots.index(k)].name] for k in range(len(slots))]
    return _whole_graph(holders, ops, out)


def _whole_graph(holders: list[Any], ops: list[Any], out: list[Any]) -> tuple[TensorFlowCluster, list[int]]:
    """A cluster of many ops; int32 arguments and those that fix a shape are host arguments, which come last."""
    host = {h.name for h in holders if h.dtype == tf.int32}
    for op in ops:
        row = lookup(op.type)
        slices = opdefs.known(op.type).input_slices(op.node_def)
        host |= {i.name for name in (*row.fixed, *row.host) for i in op.inputs[slices[name]]}
    writer = ClusterWriter("test")
    order = sorted(range(len(holders)), key=lambda k: holders[k].name in host)
    refs: dict[str, str] = {}
    for k in order:
        dtype = from_number(holders[k].dtype.as_datatype_enum)
        refs[holders[k].name] = writer.arg(Arg(dtype, holders[k].name in host, f"x{k}"))
    for op in ops:
        name = writer.node(op.node_def, [refs[i.name] for i in op.inputs])
        refs.update({o.name: f"{name}:{k}" if k else name for k, o in enumerate(op.outputs)})
    for o in out:
        writer.result(refs[o.name], Arg(from_number(o.dtype.as_datatype_enum), o.dtype == tf.int32))
    return parse(writer.bytes()), order


def _known(cluster: TensorFlowCluster, given: Sequence[Any]) -> list[Any]:
    """The values of the inputs that fix a shape, None for the others."""
    fixed = cluster.fixed_inputs()
    return [a if i in fixed else None for i, a in enumerate(given)]


def lower_op(fn: Callable[..., Any], *arrays: Any, shaped: bool = True) -> tuple[Program, list[Any]]:
    """The program of `fn` for these arrays, and the arrays in the order of the program's inputs."""
    cluster, order = make_cluster(fn, arrays, shaped)
    given = [arrays[k] for k in order]
    return lower(cluster, [a.shape for a in given], _known(cluster, given)), given


def _generic(cluster: TensorFlowCluster, given: Sequence[Any]) -> AnyShape | None:
    """The form in which users run a cluster of one op on arrays of any shape, if it has one."""
    node = cluster.nodes[0]
    row = lookup(node.op)
    if len(cluster.nodes) > 1 or row is None or row.generic is None:
        return None
    return generalize(row, node, [a.shape for a in given], _known(cluster, given))


def evaluate(fn: Callable[..., Any], *arrays: Any, states: Sequence[Any] = ()) -> list[list[Any]]:
    """The outputs of `fn` on HPU in every way: interpreted, and compiled as users run it."""
    cluster, order = make_cluster(fn, tuple(map(np.asarray, arrays)))
    given = [np.asarray(arrays[k]) for k in order]
    program = lower(cluster, [a.shape for a in given], _known(cluster, given))
    out = [interpreter.run(program, given, states)]
    form = _generic(cluster, given)
    if form is not None:
        out.append(compiled(lower(cluster, form.shapes, form.values), given, states, form))
    if form is None or THOROUGH:
        out.append(compiled(program, given, states))
    return [*out, *as_walk(program, given)]


def refusal(fn: Callable[..., Any], *arrays: Any) -> str:
    """The message with which the lowering refuses these arguments."""
    with pytest.raises(LoweringError) as caught:
        lower_op(fn, *map(np.asarray, arrays), shaped=False)
    return str(caught.value)


def reference(fn: Callable[..., Any], *arrays: Any) -> list[Any]:
    """The outputs of `fn` by stock TensorFlow on the CPU."""
    with tf.device("/CPU:0"):
        out = tf.nest.flatten(fn(*map(tf.constant, arrays)))
    return [t.numpy() for t in out if isinstance(t, tf.Tensor)]


def check(
    fn: Callable[..., Any], *arrays: Any, rtol: float | None = None, atol: float | None = None, nan: bool = True
) -> None:
    """Asserts that `fn` on HPU gives what stock TensorFlow gives: shapes, types and values.

    rtol, atol: in the place of TOLERANCE. nan=False: elements that are NaN on either side are not compared (where
    TensorFlow's own kernels disagree about NaN).
    """
    arrays = tuple(map(np.asarray, arrays))
    wanted = reference(fn, *arrays)
    for outputs in evaluate(fn, *arrays):
        assert len(outputs) == len(wanted)
        for got, want in zip(outputs, wanted, strict=True):
            compare(got, want, rtol, atol, nan)


def compare(got: Any, want: Any, rtol: float | None = None, atol: float | None = None, nan: bool = True) -> None:
    """Asserts equal shape and type, and equal values within the tolerance of the type."""
    assert got.shape == want.shape, f"shape {got.shape}, TensorFlow gives {want.shape}"
    assert got.dtype == want.dtype, f"type {got.dtype}, TensorFlow gives {want.dtype}"
    relative, absolute = TOLERANCE.get(want.dtype.name, (0.0, 0.0))
    if want.dtype.name in TOLERANCE:
        got, want = got.astype(np.float32), want.astype(np.float32)
        if not nan:
            both = ~(np.isnan(got) | np.isnan(want))
            got, want = got[both], want[both]
    np.testing.assert_allclose(
        got, want, rtol=relative if rtol is None else rtol, atol=absolute if atol is None else atol
    )


# -- drawing inputs -------------------------------------------------------------------------------------------

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)

LEAST = 2.0**-100
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan")]


def arrays(
    dtype: Any, shape: Any = SHAPES, low: float = -4, high: float = 4, special: bool = False
) -> st.SearchStrategy[Any]:
    """Arrays of `dtype`: floats in [low, high] (`special`: also infinities and NaN), integers in [low, high].

    No denormals, and nothing so small that a sixth of it is one: TensorFlow's own kernels take them for 0 or not,
    depending on the thread they run on, and a hue just below 0 is just below 1.
    """
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return hnp.arrays(np.bool_, shape)
    if dtype.kind in "iu":
        bottom = max(int(low), 0 if dtype.kind == "u" else int(low))
        return hnp.arrays(dtype, shape, elements=st.integers(bottom, int(high)))
    values = st.floats(low, high, width=32, allow_subnormal=False).map(lambda x: x if abs(x) > LEAST else 0.0)
    if special:
        values = st.one_of(values, st.sampled_from(SPECIAL))
    return hnp.arrays(np.float32, shape, elements=values).map(lambda x: x.astype(dtype))


@st.composite
def broadcastable(draw: Any, dtype: Any, count: int = 2, **options: Any) -> tuple[Any, ...]:
    """`count` arrays whose shapes broadcast together."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, min_side=0, max_side=4, max_dims=3)).input_shapes
    return tuple(draw(arrays(dtype, shape, **options)) for shape in shapes)


TYPES = [F32, BF16, np.dtype("int32"), np.dtype("int64"), np.dtype("bool"), np.dtype("uint8")]
any_type = st.sampled_from(TYPES)
index_type = st.sampled_from([np.int32, np.int64])


@st.composite
def tensors(draw, shape=SHAPES):
    """An array of any type and of a drawn shape."""
    return draw(arrays(draw(any_type), shape, low=0, high=9))
