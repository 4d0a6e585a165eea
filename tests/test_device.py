"""The device HPU, specified by tests: what TensorFlow and its users may rely on.

Launches here run small programs written in Python (`program`), so that nothing depends on the compiler; ops are
launched as HpuLaunch by hand (`launch`). The sections: names, memory, copies, launches, ops on variables, errors,
threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.child import on_hpu

F32, I32, I64 = 1, 3, 9
Body = Callable[[list[Any], list[Any], list[bytes]], None]
_clusters: set[bytes] = set()


# --- helpers ---


def counters() -> dict[str, int]:
    from habana_tf._native import _bridge

    return _bridge.counters()


def make_cluster(inputs: Sequence[str], outputs: int = 1, fixed: Sequence[int] = (), name: str = "test") -> bytes:
    """A cluster of float32 inputs; those in `fixed` are int32 shapes of a Fill. Only its text matters here."""
    from habana_tf.compiler.dtypes import DType
    from habana_tf.graph.cluster import Arg, Writer

    writer = Writer(name)
    refs = [writer.arg(Arg(DType.I32 if i in fixed else DType.F32, i in fixed, n)) for i, n in enumerate(inputs)]
    for _ in range(outputs):
        writer.result(refs[0], Arg(DType.F32, False))
    _clusters.add(writer.bytes())
    return writer.bytes()


@contextlib.contextmanager
def programs(resolve: Callable[[bytes, list[Any]], int], fixed: Sequence[int] = (), seeds: Any = ()) -> Iterator[None]:
    """Lets `resolve` answer for the clusters made here; what other ops ask goes to the compiler as ever."""
    from habana_tf import runtime_hooks

    real_resolve, real_info = runtime_hooks.resolve, runtime_hooks.cluster_info
    runtime_hooks.resolve = lambda c, s: resolve(c, s) if c in _clusters else real_resolve(c, s)
    runtime_hooks.cluster_info = lambda c: (c, [], list(fixed), list(seeds)) if c in _clusters else real_info(c)
    try:
        yield
    finally:
        runtime_hooks.resolve, runtime_hooks.cluster_info = real_resolve, real_info


def program(outputs: Sequence[tuple[int, Sequence[int]]], body: Body, states: Sequence[tuple[int, int]] = ()) -> int:
    from habana_tf._native import _bridge

    return _bridge.make_interpreted("test", outputs, states, body)


def launch(
    cluster: bytes, args: Sequence[Any], host: Sequence[Any] = (), out: Sequence[int] = (F32,),
    host_out: Sequence[int] = (),
) -> list[Any]:  # fmt: skip
    """An HpuLaunch, run at once or as a node of the function being traced."""
    import tensorflow as tf
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import op_def_library

    if not tf.executing_eagerly():
        node = op_def_library._apply_op_helper(
            "HpuLaunch", args=list(args), host_args=list(host), Tout=list(out), Thost_out=list(host_out),
            cluster=cluster, cluster_name="test",
        )[2]  # fmt: skip
        return list(node.outputs)
    attrs = (
        "Tin", [a.dtype.as_datatype_enum for a in args], "Thost", [a.dtype.as_datatype_enum for a in host],
        "Tout", list(out), "Thost_out", list(host_out), "cluster", cluster, "cluster_name", b"test",
    )  # fmt: skip
    return execute.execute(b"HpuLaunch", len(out) + len(host_out), [*args, *host], attrs, context.context(), name=None)


def f32(view: Any) -> np.ndarray:
    return np.frombuffer(view, np.float32)


def address(tensor: Any) -> int:
    """Where a tensor's data is, as a program sees it."""
    seen: list[int] = []

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        seen.append(f32(ins[0]).__array_interface__["data"][0])

    with programs(lambda c, s: program([], body)):
        launch(make_cluster(["x"], outputs=0, name=f"address {time.time()}"), [tensor], out=())
    return seen[0]


def doubled(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
    f32(outs[0])[:] = 2 * f32(ins[0])


# --- names: one card, and an op under /HPU:0 says that it ran there ---


@on_hpu
def test_one_physical_and_one_logical_device() -> None:
    import tensorflow as tf

    assert [d.name for d in tf.config.list_physical_devices("HPU")] == ["/physical_device:HPU:0"]
    assert [d.name for d in tf.config.list_logical_devices("HPU")] == ["/device:HPU:0"]


@on_hpu
def test_every_spelling_of_the_device_is_valid() -> None:
    import tensorflow as tf

    for name in ("/device:HPU:0", "/HPU:0", "HPU:0", "/job:localhost/replica:0/task:0/device:HPU:0"):
        with tf.device(name):
            assert tf.identity(tf.constant(1.0)).device.endswith("device:HPU:0")


@on_hpu
def test_the_cpu_stays_available() -> None:
    import tensorflow as tf

    with tf.device("/CPU:0"):
        assert (tf.constant(1.0) + 1.0).device.endswith("CPU:0")


# --- memory: the chip's true capacity, backed by host pages when they are touched ---


@on_hpu
def test_memory_is_counted_and_comes_back() -> None:
    import tensorflow as tf

    value = np.zeros([1 << 20], np.float32)
    tf.identity(tf.constant(value))
    before = tf.config.experimental.get_memory_info("HPU:0")["current"]
    x = tf.identity(tf.constant(value))
    during = tf.config.experimental.get_memory_info("HPU:0")["current"]
    assert during >= before + (4 << 20)
    del x
    assert tf.config.experimental.get_memory_info("HPU:0")["current"] == before


@on_hpu
def test_tensors_are_aligned_to_64_bytes() -> None:
    import tensorflow as tf

    for n in (1, 3, 17, 1000, 12345):
        assert address(tf.identity(tf.zeros([n]))) % 64 == 0


@on_hpu
def test_untouched_memory_takes_no_host_pages() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    def nothing(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        pass

    import tensorflow as tf

    x = tf.zeros([1])
    before = resident()
    with programs(lambda c, s: program([(F32, [1 << 29])], nothing)):
        y = launch(make_cluster(["x"], name="2 GiB"), [x])
    assert y[0].shape == [1 << 29]
    # TensorFlow's allocator keeps 8 bytes per 256: 64 MiB for these two GiB.
    assert resident() - before < 80 << 20, f"{(resident() - before) >> 20} MiB"


@on_hpu
def test_a_launch_larger_than_the_card_names_bytes_asked_in_use_and_total() -> None:
    import tensorflow as tf

    x = tf.zeros([1])
    with programs(lambda c, s: program([(F32, [1 << 36])], doubled)):
        try:
            launch(make_cluster(["x"], name="256 GiB"), [x])
        except tf.errors.ResourceExhaustedError as error:
            text = str(error)
        else:
            raise AssertionError("256 GiB fitted")
    assert f"asks for {4 << 36} bytes" in text
    assert "bytes in use" in text
    assert f"{96 << 30} bytes total" in text


@on_hpu
def test_a_launch_larger_than_the_host_says_host_memory() -> None:
    import tensorflow as tf

    from habana_tf._native import _bridge

    bytes_asked = _bridge.host_memory()[0] + (1 << 30)
    x = tf.zeros([1])
    with programs(lambda c, s: program([(F32, [bytes_asked // 4])], doubled)):
        try:
            launch(make_cluster(["x"], name="larger than the host"), [x])
        except tf.errors.ResourceExhaustedError as error:
            assert "host memory" in str(error) or bytes_asked > 96 << 30
        else:
            raise AssertionError("more than the host's memory fitted")


# --- copies between host and card ---


@on_hpu
def test_copies_keep_every_bit() -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64, np.float16, np.int64, np.int8, np.uint8, np.bool_, np.complex64):
        for shape in ((), (1,), (0, 3), (7, 5), (3, 1, 2)):
            raw = rng.integers(0, 2, size=shape).astype(dtype) if dtype == np.bool_ else None
            want = raw if raw is not None else rng.normal(size=shape).astype(dtype)
            got = tf.identity(tf.constant(want))
            assert got.device.endswith("HPU:0")
            assert got.numpy().tobytes() == want.tobytes()
    nan = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    assert tf.identity(tf.constant(nan)).numpy().tobytes() == nan.tobytes()


@on_hpu
def test_strings_and_int32_stay_on_the_host() -> None:
    import tensorflow as tf

    assert tf.constant(["a", "b"]).numpy().tolist() == [b"a", b"b"]
    assert (tf.constant([1, 2]) + tf.constant([3, 4])).numpy().tolist() == [4, 6]


@on_hpu
def test_a_dataset_feeds_the_card() -> None:
    import tensorflow as tf

    seen = [tf.identity(x).numpy().tolist() for x in tf.data.Dataset.from_tensor_slices(np.eye(2, dtype=np.float32))]
    assert seen == [[1.0, 0.0], [0.0, 1.0]]


# --- launches: one resolution per signature, then native ---


@on_hpu
def test_a_launch_runs_its_program_on_the_card() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [3])], doubled)):
        (y,) = launch(make_cluster(["x"], name="double"), [tf.constant([1.0, 2.0, 3.0])])
    assert y.device.endswith("HPU:0")
    assert y.numpy().tolist() == [2.0, 4.0, 6.0]


@on_hpu
def test_a_signature_is_resolved_once_and_shapes_are_part_of_it() -> None:
    import tensorflow as tf

    seen = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        seen.append(signature)
        return program([(F32, signature[0][1])], doubled)

    cluster = make_cluster(["x"], name="by shape")
    with programs(resolve):
        for n in (2, 3, 2, 3, 2):
            (y,) = launch(cluster, [tf.ones([n])])
            assert y.numpy().tolist() == [2.0] * n
    assert seen == [[(F32, (2,), None)], [(F32, (3,), None)]]


@on_hpu
def test_values_are_part_of_the_signature_only_where_they_fix_a_shape() -> None:
    import tensorflow as tf

    seen = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        seen.append(signature[1][2])
        n = int(np.frombuffer(signature[1][2], np.int32)[0])

        def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
            f32(outs[0])[:] = f32(ins[0])[0]

        return program([(F32, [n])], body)

    cluster = make_cluster(["value", "dims"], fixed=[1], name="by value")
    with programs(resolve, fixed=[1]):
        for value, n in ((1.0, 2), (5.0, 2), (1.0, 3)):
            (y,) = launch(cluster, [tf.constant([value])], [tf.constant([n])])
            assert y.numpy().tolist() == [value] * n
    assert seen == [np.int32([2]).tobytes(), np.int32([3]).tobytes()]


@on_hpu
def test_host_results_arrive_in_host_memory() -> None:
    import tensorflow as tf

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        f32(outs[0])[:] = 1
        np.frombuffer(outs[1], np.int32)[:] = 7

    with programs(lambda c, s: program([(F32, [2]), (I32, [2])], body)):
        device, host = launch(make_cluster(["x"], name="host"), [tf.ones([2])], host_out=[I32])
    assert device.numpy().tolist() == [1.0, 1.0]
    assert host.numpy().tolist() == [7, 7]


@on_hpu
def test_empty_tensors_are_fine() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [0, 4])], doubled)):
        (y,) = launch(make_cluster(["x"], name="empty"), [tf.ones([0, 4])])
    assert y.shape == [0, 4]


@on_hpu
def test_unaligned_slices_are_copied_before_generated_code_sees_them() -> None:
    import tensorflow as tf

    seen = []

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        seen.append(f32(ins[0]).__array_interface__["data"][0] % 64)
        doubled(ins, outs, states)

    cluster = make_cluster(["x"], name="unaligned")
    with programs(lambda c, s: program([(F32, [5])], body)):
        for row in tf.unstack(tf.constant(np.arange(15, dtype=np.float32).reshape(3, 5))):
            (y,) = launch(cluster, [row])
            assert np.array_equal(y, 2 * row.numpy())
    assert seen == [0, 0, 0]


@on_hpu
def test_random_state_lives_in_the_kernel_and_moves_on_by_what_is_reserved() -> None:
    import tensorflow as tf

    states_seen = []

    def body(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        states_seen.append(np.frombuffer(states[0], np.uint32).tolist())

    cluster = make_cluster(["x"], outputs=0, name="random")
    x = tf.ones([1])
    with programs(lambda c, s: program([], body, [(0, 2**33 + 5)]), seeds=[(7, 11)]):
        for _ in range(3):
            launch(cluster, [x], out=())
    # counter: low words count blocks, high words hold seed2; key holds seed. As TensorFlow's GuardedPhiloxRandom.
    assert states_seen == [[0, 0, 11, 0, 7, 0], [5, 2, 11, 0, 7, 0], [10, 4, 11, 0, 7, 0]]


@on_hpu
def test_sums_take_over_the_buffer_of_an_input_nobody_else_holds() -> None:
    """The contract of TensorFlow's ring collectives, which run Add and Div in place."""
    import tensorflow as tf

    from habana_tf import runtime_hooks

    @tf.function
    def five(x: Any) -> Any:
        return x + x + x + x + x

    x = tf.constant(np.ones([1 << 20], np.float32))
    real, runtime_hooks.optimize = runtime_hooks.optimize, lambda graph, item: None  # every op by itself
    try:
        five(x)
        before = tf.config.experimental.get_memory_info("HPU:0")["current"]
        tf.config.experimental.reset_memory_stats("HPU:0")
        y = five(x)
    finally:
        runtime_hooks.optimize = real
    grown = tf.config.experimental.get_memory_info("HPU:0")["peak"] - before
    assert np.array_equal(y, 5 * x.numpy())
    # Four sums: with every result in a new buffer, two would be alive at once.
    assert grown < 2 * (4 << 20), grown


@on_hpu
def test_a_broken_graph_pass_is_told_and_counted_and_the_function_still_runs() -> None:
    import tensorflow as tf

    from habana_tf import runtime_hooks

    def optimize(graph: bytes, item: Any) -> bytes | None:
        raise RuntimeError("a broken pass")

    @tf.function
    def function(a: Any) -> Any:
        return tf.tanh(a * 2.0) + 1.0

    before = counters()["optimize_errors"]
    real, runtime_hooks.optimize = runtime_hooks.optimize, optimize
    try:
        got = function(tf.constant([0.0]))
    finally:
        runtime_hooks.optimize = real
    assert got.numpy().tolist() == [1.0]
    assert counters()["optimize_errors"] > before


@on_hpu
def test_launches_work_inside_functions_and_see_their_inputs_in_order() -> None:
    import tensorflow as tf

    cluster = make_cluster(["x"], name="in a function")

    @tf.function
    def twice(x: Any) -> Any:
        (y,) = launch(cluster, [x])
        y.set_shape(x.shape)
        (z,) = launch(cluster, [y])
        return z

    with programs(lambda c, s: program([(F32, s[0][1])], doubled)):
        for value in (1.0, 2.0):
            assert twice(tf.constant([value])).numpy().tolist() == [4 * value]


@on_hpu
def test_a_thousand_steps_leave_memory_in_use_as_it_was() -> None:
    import tensorflow as tf

    cluster = make_cluster(["x"], name="steps")
    x = tf.ones([1000])
    with programs(lambda c, s: program([(F32, [1000])], doubled)):
        launch(cluster, [x])
        before = tf.config.experimental.get_memory_info("HPU:0")["current"]
        device_bytes = counters()["device_bytes"]
        for _ in range(1000):
            launch(cluster, [x])
    assert tf.config.experimental.get_memory_info("HPU:0")["current"] == before
    assert counters()["device_bytes"] == device_bytes


# --- ops on variables, outside any cluster ---


def same_on_cpu(compute: Callable[[], Any]) -> None:
    """What `compute` returns on HPU is what it returns on the CPU."""
    import tensorflow as tf

    got = tf.nest.map_structure(lambda t: t.numpy(), compute())
    with tf.device("/CPU:0"):
        want = tf.nest.map_structure(lambda t: t.numpy(), compute())
    tf.nest.map_structure(lambda g, w: np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6), got, want)


TABLE = np.arange(12, dtype=np.float64).reshape(4, 3)


@on_hpu
def test_ops_without_a_lowering_run_tensorflows_kernel_on_copies() -> None:
    import tensorflow as tf

    def update() -> Any:
        v = tf.Variable(TABLE)  # float64: not in the op table
        v.scatter_add(tf.IndexedSlices(tf.ones([2, 3], tf.float64), tf.constant([1, 1])))
        v[0:1].assign(-tf.ones([1, 3], tf.float64))
        v.scatter_nd_update([[3, 2]], tf.constant([9.0], tf.float64))
        return [v.read_value(), tf.gather(v, [1, 3]), v.gather_nd([[0, 1], [2, 2]])]

    before = counters()["variable_ops"]
    same_on_cpu(update)
    assert counters()["variable_ops"] >= before + 5


@on_hpu
def test_a_generator_on_the_card_gives_tensorflows_numbers() -> None:
    import tensorflow as tf

    def draw() -> Any:
        generator = tf.random.Generator.from_seed(3)
        return [generator.normal([3]), generator.uniform([2], 0, 10, tf.int32), generator.normal([2])]

    same_on_cpu(draw)


@on_hpu
def test_an_op_asked_for_the_cpu_works_on_a_variable_of_the_card() -> None:
    import tensorflow as tf

    v = tf.Variable(TABLE)
    assert v.device.endswith("HPU:0")
    with tf.device("/CPU:0"):
        v.scatter_sub(tf.IndexedSlices(tf.ones([1, 3], tf.float64), tf.constant([0])))
    np.testing.assert_array_equal(v.numpy()[0], TABLE[0] - 1)


@on_hpu
def test_concurrent_updates_of_one_variable_are_not_lost() -> None:
    import tensorflow as tf

    v = tf.Variable(np.zeros([4, 3]))

    def work() -> None:
        with tf.device("/HPU:0"):
            for _ in range(20):
                v.scatter_add(tf.IndexedSlices(tf.ones([1, 3], tf.float64), tf.constant([2])))

    in_threads(work, 4)
    np.testing.assert_array_equal(v.numpy()[2], [80.0] * 3)


@on_hpu
def test_asynchronous_eager_execution_does_not_wait_for_itself() -> None:
    import tensorflow as tf

    table = tf.Variable(TABLE)  # stock kernel
    small = tf.Variable(TABLE.astype(np.float32))  # dataflow form
    tf.config.experimental.set_synchronous_execution(False)
    try:
        for v in (table, small):
            v.scatter_add(tf.IndexedSlices(tf.ones([1, 3], v.dtype), tf.constant([2])))
            np.testing.assert_array_equal(v.numpy()[2], TABLE[2] + 1)
    finally:
        tf.config.experimental.set_synchronous_execution(True)


@on_hpu
def test_reading_an_uninitialized_variable_is_tensorflows_error() -> None:
    import tensorflow as tf

    handle = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=[4, 3], shared_name="nothing here")
    try:
        tf.raw_ops.ResourceScatterAdd(resource=handle, indices=[0], updates=tf.ones([1, 3], tf.float64))
    except tf.errors.OpError as error:
        assert "nothing here" in str(error)
    else:
        raise AssertionError("an uninitialized variable was updated")


# --- errors: nothing is swallowed ---


@on_hpu
def test_an_exception_while_compiling_reaches_the_user_with_its_place() -> None:
    import tensorflow as tf

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise ZeroDivisionError("no such luck")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="raises"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "ZeroDivisionError: no such luck" in str(error)
            assert "test_device.py:" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_an_exception_chooses_its_status() -> None:
    import tensorflow as tf

    class Unimplemented(Exception):
        tf_code = 12

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise Unimplemented("op X, node y: not on HPU")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="unimplemented"), [tf.ones([1])])
        except tf.errors.UnimplementedError as error:
            assert "op X, node y: not on HPU" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_ctrl_c_while_compiling_reaches_the_user_and_is_forgotten() -> None:
    import tensorflow as tf

    calls = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return program([(F32, [1])], doubled)

    cluster = make_cluster(["x"], name="interrupted")
    with programs(resolve):
        interrupted = False
        try:
            with contextlib.suppress(tf.errors.CancelledError):
                launch(cluster, [tf.ones([1])])
            for _ in range(100):
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted = True
        assert interrupted
        (y,) = launch(cluster, [tf.ones([1])])
        assert y.numpy().tolist() == [2.0]


@on_hpu
def test_lack_of_memory_while_compiling_is_resource_exhausted() -> None:
    import tensorflow as tf

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        raise MemoryError("17 GB for a schedule")

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="no memory"), [tf.ones([1])])
        except tf.errors.ResourceExhaustedError as error:
            assert "host memory" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_a_program_that_would_read_past_an_input_is_refused() -> None:
    import tensorflow as tf

    from habana_tf._native import _bridge

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        return _bridge.make_program("test", [], [(0, 0, 0, 4096)], [(F32, [1])])

    with programs(resolve):
        try:
            launch(make_cluster(["x"], name="past the end"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "reaches past its input" in str(error)
        else:
            raise AssertionError("the launch succeeded")


@on_hpu
def test_a_program_that_does_not_fit_its_op_is_an_error() -> None:
    import tensorflow as tf

    with programs(lambda c, s: program([(F32, [1]), (F32, [1])], doubled)):
        try:
            launch(make_cluster(["x"], name="two outputs"), [tf.ones([1])])
        except tf.errors.InternalError as error:
            assert "2 outputs, its op has 1" in str(error)
        else:
            raise AssertionError("the launch succeeded")


# --- threads ---


def in_threads(work: Callable[[], None], n: int) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@on_hpu
def test_sixteen_threads_on_one_cold_function_compile_one_at_a_time() -> None:
    import tensorflow as tf

    resolved = []
    busy = threading.Lock()

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        assert busy.acquire(blocking=False), "two threads compile the same cluster"
        resolved.append(threading.get_ident())
        time.sleep(0.2)
        busy.release()
        return program([(F32, signature[0][1])], doubled)

    cluster = make_cluster(["x"], name="cold")

    @tf.function
    def function(x: Any) -> Any:
        return launch(cluster, [x])[0]

    def work() -> None:
        with tf.device("/HPU:0"):
            assert function(tf.constant([3.0])).numpy().tolist() == [6.0]

    with programs(resolve):
        in_threads(work, 16)
    # TensorFlow may instantiate a cold function several times, each with a kernel of its own that asks once, in
    # turn: from the second on it is the compiler's cache that answers.
    assert 1 <= len(resolved) < 16


@on_hpu
def test_one_failed_compilation_is_every_waiting_threads_error() -> None:
    import tensorflow as tf

    resolved = []

    def resolve(cluster: bytes, signature: list[Any]) -> int:
        resolved.append(1)
        time.sleep(0.2)
        raise ValueError("cannot")

    cluster = make_cluster(["x"], name="cold and broken")

    def work() -> None:
        with tf.device("/HPU:0"):
            try:
                launch(cluster, [tf.constant([3.0])])
            except tf.errors.InternalError as error:
                assert "ValueError: cannot" in str(error)
            else:
                raise AssertionError("the launch succeeded")

    with programs(resolve):
        in_threads(work, 8)
    assert len(resolved) < 8


@on_hpu
def test_datasets_that_capture_tensors_of_the_card() -> None:
    import tensorflow as tf

    w = tf.identity(tf.constant([2.0, 3.0]))
    data = tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32) * w, num_parallel_calls=4)
    assert [x.numpy().tolist() for x in data] == [[2.0 * i, 3.0 * i] for i in range(8)]
