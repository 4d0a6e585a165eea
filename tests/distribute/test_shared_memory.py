"""Sums through shared memory: exact in the order of the ranks, the same on all, whatever their order of asking."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.child import python
from tests.distribute.job import run

SUMS = """
import threading
import numpy as np
import tensorflow as tf
from habana_tf.distribute import HPUStrategy, shared_memory

strategy = HPUStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
(launcher,) = strategy.extended._cross_device_ops._launchers
assert isinstance(launcher, shared_memory.Launcher)
mapped = [line for line in open("/proc/self/maps") if "habana_tf-exchange" in line]
assert mapped and all("memfd:" in line for line in mapped), mapped  # without a name there is nothing to leave behind


def numbers(rank, count, dtype):
    random = np.random.default_rng([rank, count])
    if np.dtype(dtype).kind == "i":
        return random.integers(-1000, 1000, count).astype(dtype)
    return random.normal(size=count).astype(np.float32).astype(dtype)


def expected(count, dtype):
    wide = np.float32 if dtype == tf.bfloat16.as_numpy_dtype else dtype
    total = numbers(0, count, dtype).astype(wide)
    for other in range(1, size):
        total = total + numbers(other, count, dtype).astype(wide)
    return total.astype(dtype)


@tf.function(reduce_retracing=False)
def summed(x):
    def replica(x):
        return tf.distribute.get_replica_context().all_reduce("sum", tf.reshape(x, [-1]))

    return strategy.run(replica, args=(x,))


piece = (1 << 20) // 4
for count in (0, 1, 7, piece - 1, piece, piece + 1, 3 * piece + 5):
    np.testing.assert_array_equal(summed(tf.constant(numbers(rank, count, np.float32))), expected(count, np.float32))
for dtype in (tf.bfloat16.as_numpy_dtype, np.float64, np.int64, np.int32):
    np.testing.assert_array_equal(summed(tf.constant(numbers(rank, 1001, dtype))), expected(1001, dtype))
special = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45], np.float32)
np.testing.assert_array_equal(summed(tf.constant(special)), special * np.float32(size))


def ops(count, **options):
    chosen = tf.distribute.experimental.CommunicationOptions(**options)

    @tf.function
    def step(x):
        def replica(x):
            return tf.distribute.get_replica_context().all_reduce("sum", x + 1.0, options=chosen)

        return strategy.run(replica, args=(x,))

    assert float(step(tf.constant(1.0))) == 2.0 * size
    graph = step.get_concrete_function(tf.constant(1.0)).graph
    return {op.type for op in graph.get_operations() if "Collective" in op.type}


implementations = tf.distribute.experimental.CommunicationImplementation
assert ops(1) == {"HpuCollectiveReduce"}
assert ops(1, implementation=implementations.RING) == {"CollectiveReduceV2"}

found = {}
with tf.device("/device:HPU:0"):

    def ask(key):
        x = tf.fill([3], float(key + rank))
        found[key] = shared_memory._sum(x, tf.constant(key), [], launcher._exchange, 0.0).numpy().tolist()

    threads = [threading.Thread(target=ask, args=(key,)) for key in range(1000, 1008)]
    for thread in threads if rank % 2 == 0 else reversed(threads):  # in another order on every other worker
        thread.start()
    for thread in threads:
        thread.join(60)
assert found == {key: [float(key * size + sum(range(size)))] * 3 for key in range(1000, 1008)}, found

try:
    summed(tf.zeros([3 + rank]))
    error = "none"
except tf.errors.InvalidArgumentError as raised:
    error = raised.message
report(rank, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_sums(workers: int) -> None:
    errors = run(SUMS, workers)
    assert all("all must train the same model" in error for error in errors), errors


ABSENT = """
import time
import tensorflow as tf
from habana_tf.distribute import HPUStrategy, shared_memory

strategy = HPUStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(timeout_seconds=2.0)
)
rank = strategy.cluster_resolver.task_id
(launcher,) = strategy.extended._cross_device_ops._launchers
with strategy.scope():
    v = tf.Variable(1.0)
step = tf.function(lambda: strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", v * 1.0)))
assert float(step()) == strategy.num_replicas_in_sync


def told(ask):
    try:
        ask()
    except (tf.errors.DeadlineExceededError, tf.errors.AbortedError) as error:
        return error.message
    return "no error"


def reported(other):
    return os.path.exists(os.path.join(os.environ["REPORTS"], str(other)))


def until(done):
    while not done():
        time.sleep(0.1)

"""

LATE = """
if rank == 1:  # does not come until the others are past their time
    until(lambda: reported(0) and reported(2))
report(rank, told(step))
until(lambda: all(map(reported, range(3))))
os._exit(0)
"""


@pytest.mark.slow
def test_who_does_not_come_is_named_and_told() -> None:
    first, late, third = run(ABSENT + LATE, 3)
    assert all("worker 1 (" in error for error in (first, late, third))
    timed_out, told = "did not take part within 2", "was given up by another worker"
    assert timed_out in first + third  # whoever waited longer is told by the other
    assert all(timed_out in error or told in error for error in (first, third))
    assert told in late


OTHER = """
with tf.device("/device:HPU:0"):
    x = tf.ones([3])
    ask = lambda: shared_memory._sum(x, tf.constant(1000 + rank), [], launcher._exchange, 2.0)
    report(rank, told(ask))
until(lambda: all(map(reported, range(2))))
os._exit(0)
"""


@pytest.mark.slow
def test_workers_that_ask_for_different_sums_do_not_wait_forever() -> None:
    assert all("worker 1 (" in message for message in run(ABSENT + OTHER, 2))


BEFORE_FOPEN = """
#include <dlfcn.h>
#include <cstdio>

extern "C" {
void (*before_fopen)(const char*) = nullptr;

FILE* fopen(const char* path, const char* mode) {
  static auto* real = reinterpret_cast<FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "fopen"));
  if (before_fopen != nullptr) before_fopen(path);
  return real(path, mode);
}
}
"""

LAST_SHARE = """
import ctypes, mmap, os, struct, subprocess
from pathlib import Path
import tensorflow as tf
import habana_tf
from habana_tf._native import _bridge
from habana_tf.distribute import shared_memory

habana_tf.load_habana_module()
exchange, descriptor = _bridge.make_exchange(2, "worker", 0)
memory = mmap.mmap(descriptor, 0)
MISSED, PEER, PIECE = 24, 128, 1 << 20  # as in exchange.cc: Header::missed, the size of a Peer, kPieceBytes
OTHER, SLOTS = 2 * PEER, len(memory) - 4 * PIECE  # peers begin behind a header of their size

other = subprocess.Popen(["sleep", "600"])  # worker 1, whose part is played here
started = int(Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19])
struct.pack_into("<qQ", memory, OTHER, other.pid, started)


@ctypes.CFUNCTYPE(None, ctypes.c_char_p)
def act(path):
    if path != f"/proc/{other.pid}/stat".encode() or other.poll() is not None:
        return
    struct.pack_into("<2f", memory, SLOTS + 2 * PIECE, 10.0, 20.0)  # its numbers
    struct.pack_into("<f", memory, SLOTS + 4, 2.0 + 20.0)  # its share of the sum
    struct.pack_into("<IIQi", memory, OTHER + 16, 1, 1, 2, 1)  # copied, summed, count, float
    other.kill()
    other.wait()


ctypes.c_void_p.in_dll(ctypes.CDLL(None), "before_fopen").value = ctypes.cast(act, ctypes.c_void_p).value
with tf.device("/device:HPU:0"):
    total = shared_memory._sum(tf.constant([1.0, 2.0]), tf.constant(1000), [], exchange, 0.0)
assert other.poll() is not None
assert total.numpy().tolist() == [11.0, 22.0], total
assert struct.unpack_from("<i", memory, MISSED) == (0,)
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_a_worker_may_do_its_last_share_and_end_just_before_it_is_looked_for(tmp_path: Path) -> None:
    """It does so in the moment in which worker 0, who waits for it, opens /proc to see whether it lives."""
    source, library = tmp_path / "before_fopen.cc", tmp_path / "before_fopen.so"
    source.write_text(BEFORE_FOPEN)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    python(LAST_SHARE, LD_PRELOAD=str(library))
