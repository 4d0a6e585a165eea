"""What a program may put on a GPU has a place on HPU; what HPU has not is computed as TensorFlow does on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import kernel_def_pb2

from habana_tf.tensorflow.facts import stand_ins
from tests.child import on_hpu

v1 = tf.compat.v1
F16, F32, F64, I32, STRING = 19, 1, 2, 3, 7


# --- the list ---


@on_hpu
def test_all_that_tensorflow_can_place_on_a_gpu_has_a_place_on_hpu() -> None:
    """By the kernels of this TensorFlow: every op and element types with one for GPUs and one for CPUs."""
    from tensorflow.python.framework import kernels

    by: dict[str, dict[str, list[dict[str, frozenset[int]]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if not kernel.label:
            choices = {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
            by.setdefault(kernel.op, {}).setdefault(kernel.device_type, []).append(choices)
    walked = 0
    homeless = []
    for op, devices in by.items():
        if op.startswith(stand_ins._NONE):
            continue
        ours = [*devices.get("HPU", ()), *devices.get("DEFAULT", ())]
        for choices in devices.get("GPU", ()):
            for combination in product(*[sorted(t for t in allowed if t <= 23) for allowed in choices.values()]):
                types = dict(zip(choices, combination, strict=True))
                if not any(_takes(c, types) for c in devices.get("CPU", ())):
                    continue
                walked += 1
                # a kernel of ours may tell more types apart than the GPU's
                if not any(all(types.get(k, next(iter(a))) in a for k, a in c.items()) for c in ours):
                    homeless.append((op, types))
    assert not homeless
    assert walked > 3000 or not any("GPU" in devices for devices in by.values())


def _takes(choices: dict[str, frozenset[int]], types: dict[str, int]) -> bool:
    return all(types[k] in allowed for k, allowed in choices.items() if k in types)


def kernels(*rows: tuple[str, dict[str, int]], host: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for op, types in rows:
        made: Any = kernel_def_pb2.KernelDef(op=op, host_memory_arg=host)
        for name, dtype in types.items():
            made.constraint.add(name=name).allowed_values.list.type.append(dtype)
        out.setdefault(op, []).append(made)
    return out


def test_what_gpus_and_cpus_have_and_hpu_has_not_is_selected() -> None:
    gpu = kernels(("MatMul", {"T": F64}), ("MatMul", {"T": F32}), ("OnGpuOnly", {}), ("NcclAllReduce", {}))
    gpu |= kernels(("OptionalHasValue", {}), host=("has_value",))
    cpu = kernels(("MatMul", {"T": F64}), ("MatMul", {"T": F32}), ("Reverse", {"T": STRING}), ("NcclAllReduce", {}))
    cpu |= kernels(("OptionalHasValue", {}))
    got = stand_ins.select(gpu, cpu, lambda op, types: (op, types) == ("MatMul", {"T": F32}), lambda op: frozenset())
    assert got == [("MatMul", {"T": F64}, frozenset()), ("OptionalHasValue", {}, frozenset({"has_value"}))]


def test_a_tensorflow_without_gpus_lends_the_other_types_of_the_ops_that_hpu_has() -> None:
    cpu = kernels(*(("Fill", {"T": t, "index_type": I32}) for t in (F16, F32, STRING)), ("Inv", {"T": F64}))
    got = stand_ins.select(
        {}, cpu, lambda op, types: types["T"] == F32, lambda op: frozenset({"dims"} if op == "Fill" else ())
    )
    assert got == [("Fill", {"T": F16, "index_type": I32}, frozenset({"dims"}))]


# --- eager ---

A = np.array([[4.0, 1.0], [1.0, 3.0]])

EAGER: dict[str, Callable[[Any], Any]] = {
    "an op that HPU has not": tf.linalg.cholesky,
    "several results": lambda a: tf.linalg.svd(a),
    "another element type": lambda a: tf.matmul(tf.cast(a, tf.float64), tf.cast(a, tf.float64)),
    "half": lambda a: tf.nn.softmax(tf.cast(a, tf.float16)),
    "complex": lambda a: tf.math.real(tf.signal.fft(tf.complex(a, a * 2))),
    "a slice": lambda a: tf.cast(tf.linalg.inv(tf.concat([a, a], 0)[1:3]), tf.float64)[:, 1:] + 1,
    "lists of tensors": lambda a: tf.stack(tf.split(tf.cast(a, tf.float64), 2)),
    "host arguments": lambda a: tf.reduce_sum(tf.tile(tf.cast(a, tf.float64), [2, 3]), 0),
    "no elements": lambda a: tf.linalg.inv(tf.zeros([0, 2, 2])),
}


@on_hpu
def test_eager_ops_are_computed_by_the_cpus_kernels_and_stay_on_hpu() -> None:
    from habana_tf._native import _bridge

    for name, f in EAGER.items():
        before = _bridge.counters()["stock_ops"]
        got = tf.nest.flatten(f(tf.constant(A, tf.float32)))
        assert _bridge.counters()["stock_ops"] > before, name
        with tf.device("/CPU:0"):
            want = tf.nest.flatten(f(tf.constant(A, tf.float32)))
        for g, w in zip(got, want, strict=True):
            assert g.device.endswith("HPU:0") and w.device.endswith("CPU:0"), name
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-6, err_msg=name)


@on_hpu
def test_eager_errors_are_tensorflows() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
        tf.linalg.inv(tf.zeros([2, 2]))


@on_hpu
def test_optionals_and_wrapped_datasets_work_eagerly() -> None:
    some = tf.experimental.Optional.from_value((tf.constant([1.0, 2.0]), tf.constant(3)))
    none = tf.experimental.Optional.empty(tf.TensorSpec((), tf.float32))
    assert bool(some.has_value()) and not bool(none.has_value())
    value, number = some.get_value()
    assert (value * 2).device.endswith("HPU:0") and number.numpy() == 3
    np.testing.assert_array_equal(value.numpy(), [1, 2])
    dataset = tf.data.Dataset.range(5).prefetch(2)
    wrapped = tf.raw_ops.WrapDatasetVariant(input_handle=dataset._variant_tensor)
    with tf.device("/CPU:0"):
        inner = tf.raw_ops.UnwrapDatasetVariant(input_handle=wrapped)
    assert inner.dtype == tf.variant
    assert [int(x) for x in dataset.apply(tf.data.experimental.prefetch_to_device("/HPU:0"))] == [0, 1, 2, 3, 4]


@on_hpu
def test_where_no_other_device_is_allowed_an_eager_op_says_that_hpu_has_it_not() -> None:
    tf.config.set_soft_device_placement(False)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"MatrixDeterminant .*float32.* on HPU.*soft device"):
            tf.linalg.det(tf.constant(A, tf.float32))
    finally:
        tf.config.set_soft_device_placement(True)


# --- sessions: one device, no other allowed ---


@contextmanager
def control_flow_v1() -> Iterator[None]:
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def in_session(build: Callable[[], tuple[list[Any], list[Any]]], device: str, soft: bool, **rewrite: Any) -> list[Any]:
    """What a graph on a device gives: its steps run twice, then its results."""
    config = v1.ConfigProto(allow_soft_placement=soft)
    for name, value in rewrite.items():
        setattr(config.graph_options.rewrite_options, name, value)
    with tf.Graph().as_default(), tf.device(device):
        v1.set_random_seed(1)
        steps, results = build()
        initialize = [v1.global_variables_initializer(), *v1.get_collection("first")]
        with v1.Session(config=config) as session:
            for step in (*initialize, *steps, *steps):
                session.run(step)
            out: list[Any] = session.run(results)
            return out


def arrays() -> tuple[list[Any], list[Any]]:
    w = v1.get_variable("w", initializer=np.float32(1.1), use_resource=True)

    def body(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, w * tf.cast(i, tf.float32))

    _, array = v1.while_loop(lambda i, _: i < 4, body, [0, tf.TensorArray(tf.float32, 4)])
    parts = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    all_ = array.stack()
    step = v1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_sum(all_**2))
    return [step], [w, all_, parts.read(1), parts.concat(), parts.gather([1, 0]), parts.size()]


def references() -> tuple[list[Any], list[Any]]:
    w = v1.get_variable("w", initializer=np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), use_resource=False)
    e = v1.get_variable("e", initializer=np.ones((4, 2), np.float32), use_resource=False)
    loss = tf.reduce_sum(tf.matmul(w, w) ** 2) + tf.reduce_sum(tf.nn.embedding_lookup(e, [1, 1, 3]) ** 2)
    steps = [opt.minimize(loss) for opt in (v1.train.AdamOptimizer(0.1), v1.train.AdagradOptimizer(0.1))]
    steps += [v1.train.MomentumOptimizer(0.001, 0.9).minimize(loss, var_list=[w])]
    steps += [v1.assign_add(w, w * 0.1), v1.scatter_add(e, [0], [[5.0, 5.0]]), v1.assign(e, e * 2)]
    return steps, [w, e, w + 1, w.read_value() * 2, v1.is_variable_initialized(w)]


def iterators() -> tuple[list[Any], list[Any]]:
    device = tf.no_op().device
    with tf.device(None):  # of a pipeline only the end can be put on an accelerator
        dataset = tf.data.Dataset.range(12).map(lambda x: tf.cast(x, tf.float32)).batch(2)
        dataset = dataset.apply(tf.data.experimental.prefetch_to_device(device))
        iterator = v1.data.make_initializable_iterator(dataset)
        v1.add_to_collection("first", iterator.initializer)
        x = iterator.get_next()
    return [x * 2], [x * 3 + 1]


def optionals() -> tuple[list[Any], list[Any]]:
    some = tf.raw_ops.OptionalFromValue(components=[tf.constant([1.0, 2.0]), tf.constant(3)])
    value = tf.raw_ops.OptionalGetValue(
        optional=some, output_types=[tf.float32, tf.int32], output_shapes=[[2], []], name="value"
    )
    none = tf.raw_ops.OptionalNone()
    has = [tf.raw_ops.OptionalHasValue(optional=o) for o in (some, none)]
    return [], [value[0] * 2, value[1] + 1, *has]


def arithmetic() -> tuple[list[Any], list[Any]]:
    a = tf.constant(A)
    b = tf.cast(a, tf.float16)
    c = tf.cast(tf.nn.relu(tf.constant(A, tf.float32)), tf.complex64)
    return [], [
        tf.linalg.cholesky(a), tf.linalg.inv(a) @ a, b * 2 + tf.nn.tanh(b), tf.math.abs(tf.signal.fft(c)), tf.sort(a),
        tf.unique_with_counts(tf.constant([1, 1, 2]))[2], tf.where(a > 2), tf.reverse_sequence(a, [1, 2], 1),
    ]  # fmt: skip


def books() -> tuple[list[Any], list[Any]]:
    queue = tf.queue.FIFOQueue(3, tf.float64)
    with tf.control_dependencies([queue.enqueue(tf.constant(2.0, tf.float64))]):
        out = queue.dequeue() * 3
    stack = tf.raw_ops.StackV2(max_size=2, elem_type=tf.float32)
    with tf.control_dependencies([tf.raw_ops.StackPushV2(handle=stack, elem=tf.constant([1.0]))]):
        top = tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.float32)
    return [], [out, top + 1, tf.raw_ops.DeepCopy(x=tf.constant([1.0, 2.0]))]


def in_place() -> tuple[list[Any], list[Any]]:
    def x() -> Any:
        return tf.raw_ops.DeepCopy(x=tf.constant(A, tf.float32))

    i, v = tf.constant([1]), tf.constant([[7.0, 8.0]])
    ops = (tf.raw_ops.InplaceUpdate, tf.raw_ops.InplaceAdd, tf.raw_ops.InplaceSub)
    return [], [op(x=x(), i=i, v=v) * 2 for op in ops]


def texts() -> tuple[list[Any], list[Any]]:
    text = tf.constant(["ab", "c"])
    number = tf.strings.to_number(tf.strings.join([tf.as_string(tf.constant([1, 2])), tf.constant(".5")]))
    checked = v1.Assert(tf.reduce_sum(number) > 1.0, [tf.constant("too little"), number])
    chosen = tf.cond(number[0] > 1.0, lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    called = v1.py_func(lambda x: np.float32(len(x)), [text], tf.float32)
    lengths = tf.strings.length(tf.concat([text, tf.fill([1], "defg")], 0))
    return [checked, v1.summary.scalar("s", number[0])], [
        number * 2,
        chosen,
        called * 3,
        lengths,
        tf.gather(lengths, 2),
    ]


def references_of_all_types() -> tuple[list[Any], list[Any]]:
    """As Horovod's broadcast of variables in place does: a value is assigned to a variable by reference."""
    types = "int8 uint8 int16 uint16 int32 int64 bool float16 bfloat16 float32 float64 complex64 complex128".split()
    ones = {name: np.array([1, 0], tf.as_dtype(name).as_numpy_dtype) for name in types}
    steps, out = [], []
    for k, name in enumerate(types):
        v = v1.get_variable(name, initializer=tf.constant(ones[name]), use_resource=False)
        steps.append(v1.assign(v, tf.constant(1 - ones[name] if name != "bool" else ~ones[name])))
        out += [tf.cast(v, tf.complex128), tf.cast(tf.gather(v, [k % 2]), tf.complex128), v1.is_variable_initialized(v)]
    v = v1.get_variable("text", initializer=tf.constant("a"), use_resource=False)
    return [*steps, v1.scatter_add(v1.get_variable("n", initializer=np.arange(3), use_resource=False), [1], [5])], [
        *out, tf.strings.length(v1.assign(v, "bcd")),
    ]  # fmt: skip


def made_iterators() -> tuple[list[Any], list[Any]]:
    """Of each kind of iterator, and of the copies to a device, with what `tf.data` puts beside them."""
    device = tf.no_op().device

    def numbers() -> Any:
        with tf.device("/CPU:0"):
            return tf.data.Dataset.range(12).map(lambda x: tf.cast(x, tf.float32)).batch(2)

    copied = numbers().apply(tf.data.experimental.prefetch_to_device(device))
    made = [v1.data.make_initializable_iterator(d) for d in (numbers(), copied)]
    for iterator in made:
        v1.add_to_collection("first", iterator.initializer)
    made.append(v1.data.make_one_shot_iterator(numbers()))
    out = [iterator.get_next() * 2 for iterator in made]
    return out, out


PROGRAMS = [
    texts,
    references_of_all_types,
    made_iterators,
    arrays,
    references,
    iterators,
    optionals,
    arithmetic,
    books,
    in_place,
]


@on_hpu
def test_graphs_whose_ops_are_put_on_hpu_by_name_run_with_and_without_soft_placement() -> None:
    for program in PROGRAMS:
        for v1_loops in (False, True):
            with control_flow_v1() if v1_loops else tf.device(None):
                want = in_session(program, "/CPU:0", False)
                for soft in (False, True):
                    got = in_session(program, "/HPU:0", soft)
                    for g, w in zip(got, want, strict=True):
                        np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-5, err_msg=f"{program.__name__} {soft}")


@on_hpu
def test_what_only_the_graph_pass_can_move_says_so_without_it() -> None:
    """An array: its state is of the device it is on. Iterators and variables by reference are on the CPU before."""
    with control_flow_v1(), pytest.raises(tf.errors.UnimplementedError, match="disable_meta_optimizer"):
        in_session(arrays, "/HPU:0", False, disable_meta_optimizer=True)
    for program in (references, iterators):
        in_session(program, "/HPU:0", False, disable_meta_optimizer=True)


@on_hpu
def test_where_the_program_leaves_the_choice_the_cpu_computes_what_hpu_has_not() -> None:
    from habana_tf._native import _bridge

    before = _bridge.counters()["stock_ops"]
    with tf.device(None):
        a = tf.constant(A)
        assert tf.linalg.cholesky(a).device.endswith("CPU:0")
        tf.function(tf.linalg.cholesky)(a)
    assert _bridge.counters()["stock_ops"] == before


# --- functions ---


@on_hpu
def test_bodies_that_tensorflow_does_not_place_op_by_op_run_on_hpu() -> None:
    from tensorflow.python.framework import function
    from tensorflow.python.ops import functional_ops

    @function.Defun(tf.int32, tf.float64, func_name="stand_in_cond")
    def condition(i: Any, x: Any) -> Any:
        return i < 3

    @function.Defun(tf.int32, tf.float64, func_name="stand_in_body")
    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True)) + tf.cast(tf.cast(i, tf.float16), x.dtype)

    def run() -> Any:
        start = [tf.constant(0), tf.constant([[2.0, 0.0], [1.0, 3.0]], tf.float64)]
        return tf.function(lambda: functional_ops.While(start, condition, body)[1])().numpy()

    got = run()
    with tf.device("/CPU:0"):
        np.testing.assert_allclose(got, run(), rtol=1e-12)


@on_hpu
def test_ctc_loss_runs_in_a_function_with_its_gradient() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(10, 2, 6)).astype(np.float32)
    labels = np.array([[1, 2, 3, 1], [2, 3, 1, 0]], np.int32)

    @tf.function
    def loss(logits: Any, unique: bool) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            key = tf.nn.ctc_unique_labels(labels) if unique else None
            out = tf.nn.ctc_loss(labels, logits, [4, 3], [10, 9], unique=key, blank_index=0)
        return out, tape.gradient(out, logits)

    for unique in (False, True):
        got = [x.numpy() for x in loss(tf.constant(logits), unique)]
        with tf.device("/CPU:0"):
            want = [x.numpy() for x in tf.function(loss.python_function)(tf.constant(logits), unique)]
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
