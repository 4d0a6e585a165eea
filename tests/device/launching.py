"""The device HPU is specified by the tests of this folder: what TensorFlow and its users may rely on.

Launches here run small programs written in Python (`program`), so that nothing depends on the compiler; ops are
launched as HpuLaunch by hand (`launch`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

F32, I32, I64 = 1, 3, 9
Body = Callable[[list[Any], list[Any], list[bytes]], None]
_clusters: set[bytes] = set()


def counters() -> dict[str, int]:
    from habana_tf._native import _bridge

    return _bridge.counters()


def make_cluster(inputs: Sequence[str], outputs: int = 1, fixed: Sequence[int] = (), name: str = "test") -> bytes:
    """A cluster of float32 inputs; those in `fixed` are int32 shapes of a Fill. Only its text matters here."""
    from habana_tf.cluster.cluster import Arg
    from habana_tf.ir.dtypes import DType
    from habana_tf.tensorflow.clusters.writer import ClusterWriter

    writer = ClusterWriter(name)
    refs = [writer.arg(Arg(DType.I32 if i in fixed else DType.F32, i in fixed, n)) for i, n in enumerate(inputs)]
    for _ in range(outputs):
        writer.result(refs[0], Arg(DType.F32, False))
    _clusters.add(writer.bytes())
    return writer.bytes()


@contextlib.contextmanager
def programs(resolve: Callable[[bytes, list[Any]], Any], fixed: Sequence[int] = (), seeds: Any = ()) -> Iterator[None]:
    """Lets `resolve` answer for the clusters made here; what other ops ask goes to the compiler as ever."""
    from habana_tf import runtime_hooks

    real_resolve, real_info = runtime_hooks.resolve, runtime_hooks.cluster_info
    runtime_hooks.resolve = lambda c, s: resolve(c, s) if c in _clusters else real_resolve(c, s)
    runtime_hooks.cluster_info = lambda c: (c, [], list(fixed), list(seeds)) if c in _clusters else real_info(c)
    try:
        yield
    finally:
        runtime_hooks.resolve, runtime_hooks.cluster_info = real_resolve, real_info


def program(outputs: Sequence[tuple[int, Sequence[int]]], body: Body, states: Sequence[tuple[int, int]] = ()) -> Any:
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
            "HpuLaunch", args=list(args), host_args=list(host), variables=[], Tout=list(out), Thost_out=list(host_out),
            cluster=cluster, cluster_name="test", updates=[],
        )[2]  # fmt: skip
        return list(node.outputs)
    attrs = (
        "Tin", [a.dtype.as_datatype_enum for a in args], "Thost", [a.dtype.as_datatype_enum for a in host],
        "Tout", list(out), "Thost_out", list(host_out), "cluster", cluster, "cluster_name", b"test",
        "num_variables", 0,
    )  # fmt: skip
    return execute.execute(b"HpuLaunch", len(out) + len(host_out), [*args, *host], attrs, context.context(), name=None)


def unaligned(array: np.ndarray) -> Any:
    """A tensor in host memory that begins 4 bytes past an aligned address, as TensorFlow's own slices may."""
    import tensorflow as tf

    raw = np.zeros(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    moved = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return tf.experimental.dlpack.from_dlpack(moved.__dlpack__())


@contextlib.contextmanager
def variable_plans(plan: Callable[[bytes], tuple[Any, ...]]) -> Iterator[None]:
    """Lets `plan` say how the ops on variables run that are met for the first time."""
    from habana_tf import runtime_hooks

    real = runtime_hooks.variable_plan
    runtime_hooks.variable_plan = plan
    try:
        yield
    finally:
        runtime_hooks.variable_plan = real


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
