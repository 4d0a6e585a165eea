"""Ops on variables that HPU has no arithmetic for: in sessions and functions, beside the same on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.tensorflow.graph.reasons import Reason
from tests.child import on_hpu
from tests.effort import some

v1 = tf.compat.v1
T = v1.train

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": lambda: T.GradientDescentOptimizer(0.01),
    "Adam": lambda: T.AdamOptimizer(0.1),
    "Momentum": lambda: T.MomentumOptimizer(0.01, 0.9),
    "Nesterov": lambda: T.MomentumOptimizer(0.01, 0.9, use_nesterov=True),
    "Ftrl": lambda: T.FtrlOptimizer(0.1),
    "Ftrl, shrinking": lambda: T.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1),
    "Adagrad": lambda: T.AdagradOptimizer(0.1),
    "Adadelta": lambda: T.AdadeltaOptimizer(0.1),
    "RMSProp": lambda: T.RMSPropOptimizer(0.1),
    "RMSProp, centered": lambda: T.RMSPropOptimizer(0.1, centered=True),
    "ProximalAdagrad": lambda: T.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "ProximalGradientDescent": lambda: T.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01),
}
LEGACY = ("SGD", "Adam", "Adamax", "Nadam", "Adagrad", "Adadelta", "RMSprop", "Ftrl")
TYPES = {np.float64: 1e-9, np.float16: 5e-3}


def session(build: Callable[[], tuple[Any, Any]], device: str, soft: bool = False) -> list[np.ndarray]:
    """Runs a step twice; returns the results afterwards."""
    with tf.Graph().as_default(), tf.device(device):
        v1.set_random_seed(1)
        step, results = build()
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=soft)) as s:
            s.run(v1.global_variables_initializer())
            for _ in range(2):
                s.run(step)
            return [np.asarray(x, np.float64) for x in s.run(results)]


def compare(build: Callable[[], tuple[Any, Any]], tolerance: float, what: Any) -> None:
    """A graph gives on HPU what it gives on the CPU. What stock TensorFlow cannot compute is left out."""
    try:
        want = session(build, "/CPU:0")
    except (tf.errors.InvalidArgumentError, TypeError) as error:
        assert isinstance(error, TypeError) or "No OpKernel was registered" in str(error), what
        return
    for soft in (False, True):
        for g, w in zip(session(build, "/HPU:0", soft), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=f"{what}")


def _start(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(1, 9).reshape(4, 2).astype(dtype) / 4, np.array([[0.5, -0.25], [1, 2]], dtype)


@pytest.mark.part
@on_hpu
def test_tf1_optimizers_train_every_type_in_a_session() -> None:
    for name, optimizer in some([*OPTIMIZERS.items()], 2):
        for dtype, tolerance in TYPES.items():

            def build(optimizer: Any = optimizer, dtype: Any = dtype) -> tuple[Any, Any]:
                e, w = (
                    v1.get_variable(n, initializer=x, use_resource=True)
                    for n, x in zip("ew", _start(dtype), strict=True)
                )
                rows = tf.nn.embedding_lookup(e, [1, 1, 3])
                loss = tf.reduce_sum(tf.matmul(rows, w) ** 2)
                return optimizer().minimize(loss), [e, w]

            compare(build, tolerance, (name, dtype))


@pytest.mark.part
@on_hpu
def test_tf1_optimizers_train_every_type_in_a_function() -> None:
    def train(optimizer: Any, dtype: Any) -> list[np.ndarray]:
        e, w = (tf.Variable(x) for x in _start(dtype))
        made = optimizer()

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(tf.nn.embedding_lookup(e, [1, 1, 3]), w) ** 2)
            made.apply_gradients(zip(tape.gradient(loss, [e, w]), [e, w], strict=True))

        step()
        step()
        return [e.numpy().astype(np.float64), w.numpy().astype(np.float64)]

    for name, optimizer in some([*OPTIMIZERS.items()], 2, first=1):
        for dtype, tolerance in TYPES.items():
            try:
                with tf.device("/CPU:0"):
                    want = train(optimizer, dtype)
            except (tf.errors.InvalidArgumentError, TypeError):
                continue  # stock TensorFlow has it not
            for g, w in zip(train(optimizer, dtype), want, strict=True):
                np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=f"{name} {dtype}")


@pytest.mark.part
@on_hpu
def test_keras_legacy_optimizers_train_every_type_in_a_session() -> None:
    module = getattr(tf.keras.optimizers, "legacy", None)
    if module is None or not hasattr(module, "SGD") or "keras.src.optimizers.legacy" not in str(module.SGD):
        return  # Keras 3 has none
    for name in some(LEGACY, 2):
        for dtype, tolerance in TYPES.items():

            def build(name: str = name, dtype: Any = dtype) -> tuple[Any, Any]:
                e, w = (tf.Variable(x) for x in _start(dtype))
                rows = tf.nn.embedding_lookup(e, [1, 1, 3])
                grads = tf.gradients(tf.reduce_sum(tf.matmul(rows, w) ** 2), [e, w])
                optimizer = getattr(module, name)(0.01)
                return optimizer.apply_gradients(zip(grads, [e, w], strict=True)), [e, w]

            compare(build, tolerance, (name, dtype))


def _var(name: str, value: Any) -> Any:
    return v1.get_variable(name, initializer=np.asarray(value), use_resource=True)


def _scatters(dtype: Any) -> tuple[Any, Any]:
    steps = []
    names = ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")
    variables = [_var(name, np.array([2, 3, 4, 5], dtype)) for name in names]
    for name, v in zip(names, variables, strict=True):
        op = getattr(tf.raw_ops, f"ResourceScatter{name}")
        steps.append(op(resource=v.handle, indices=[0, 2], updates=np.array([2, 3], dtype)))
    nd = _var("nd", np.zeros((2, 2), dtype))
    steps.append(tf.raw_ops.ResourceScatterNdUpdate(ref=nd.handle, indices=[[1, 0]], updates=np.array([7], dtype)))
    steps.append(nd[0, :].assign(np.array([8, 9], dtype)))
    return tf.group(*steps), [*variables, nd, nd.sparse_read([1]), nd.gather_nd([[1, 0]])]


def _sign() -> tuple[Any, Any]:
    v, m = _var("v", np.array([1, -2], np.float32)), _var("m", np.zeros(2, np.float32))
    step = tf.raw_ops.ResourceApplyPowerSign(
        var=v.handle, m=m.handle, lr=0.1, logbase=1.0, sign_decay=0.9, beta=0.9, grad=v.read_value() * 2
    )
    return step, [v, m]


def _generator() -> tuple[Any, Any]:
    generator = tf.random.Generator.from_seed(3)
    first = generator.uniform([2], dtype=tf.float64)
    with tf.control_dependencies([first]):
        second = generator.uniform([3], 0, 9, dtype=tf.int32)
    with tf.control_dependencies([second]):
        return tf.group(first, second), [generator.state.read_value()[1:2]]


def _unordered() -> tuple[Any, Any]:
    """Updates that no edge orders: each happens."""
    v = _var("v", np.zeros(4))
    ups = [
        tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[k % 4], updates=np.array([1.0 + k])) for k in range(8)
    ]
    with tf.control_dependencies(ups):
        read = v.read_value() * 2
    with tf.control_dependencies([read]):
        again = tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[0], updates=read[:1])
    return again, [v]


def _branch() -> tuple[Any, Any]:
    v = _var("v", np.array([1.0, 2.0]))

    def update(by: float) -> Any:
        with tf.control_dependencies(
            [tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[0], updates=np.array([by]))]
        ):
            return tf.constant(by)

    yes, no = v1.placeholder_with_default(True, ()), v1.placeholder_with_default(False, ())
    taken = tf.cond(yes, lambda: update(3.0), lambda: 0.0)
    with tf.control_dependencies([taken]):
        return tf.cond(no, lambda: update(5.0), lambda: 0.0), [v]


def _loop() -> tuple[Any, Any]:
    v = _var("v", np.array([1.0, 2.0]))

    def body(i: Any, total: Any) -> Any:
        update = tf.raw_ops.ResourceScatterMul(resource=v.handle, indices=[0], updates=np.array([2.0]))
        with tf.control_dependencies([update]):
            return i + 1, total + v.read_value()[0]

    return tf.while_loop(lambda i, _: i < 3, body, [0, tf.constant(0.0, tf.float64)])[1], [v]


PROGRAMS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "scatters of float64": lambda: _scatters(np.float64),
    "scatters of float16": lambda: _scatters(np.float16),
    "an op that HPU has in no type": _sign,
    "the state of a generator": _generator,
    "unordered updates": _unordered,
    "updates in branches": _branch,
    "updates in a loop": _loop,
}


@on_hpu
def test_all_kinds_of_updates_work_in_a_session() -> None:
    for name, build in PROGRAMS.items():
        compare(build, 1e-6, name)
        v1.disable_control_flow_v2()
        try:
            compare(build, 1e-6, name)
        finally:
            v1.enable_control_flow_v2()


@on_hpu
def test_a_function_updates_in_one_step_where_it_can_and_is_reported() -> None:
    import habana_tf
    from habana_tf._native import _bridge

    v, m = tf.Variable([1.0, -2.0], dtype=tf.float64), tf.Variable([0.0, 0.0], dtype=tf.float64)

    @tf.function
    def step() -> Any:
        tf.raw_ops.ResourceApplyMomentum(
            var=v.handle,
            accum=m.handle,
            lr=tf.constant(0.1, tf.float64),
            grad=v * 2,
            momentum=tf.constant(0.9, tf.float64),
        )
        return v * 1

    before = _bridge.counters()["variable_ops"]
    value = step()
    assert _bridge.counters()["variable_ops"] == before + 1
    np.testing.assert_allclose(value.numpy(), [0.8, -1.6])
    np.testing.assert_allclose(v.numpy(), [0.8, -1.6])
    refused = habana_tf.placement_report().graphs[-1].refused
    assert refused["ResourceApplyMomentum", Reason.DTYPE, True] == 1
    assert not any(op == "AssignVariableOp" for op, *_ in refused)


@on_hpu
def test_the_copies_go_with_their_step() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    v = tf.Variable(tf.zeros([1 << 20], tf.float64))

    @tf.function
    def step() -> None:
        tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[0], updates=tf.constant([1.0], tf.float64))

    for _ in range(5):
        step()
    before = resident()
    for _ in range(40):
        step()
    assert v.numpy()[0] == 45
    assert resident() - before < 8 * (8 << 20)
