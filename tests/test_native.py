"""The native runtime through its bridge, without TensorFlow: programs, threads, random states, host memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from habana_tf._native import _bridge

F32 = 1
N = 10_000

# y[i] = 2 * x[i] + dims[0] for the work items [begin, end)
KERNEL = """
define void @kernel(ptr %buffers, ptr %dims, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %slot
  %add = load i64, ptr %dims
  %addf = sitofp i64 %add to float
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %from = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %from
  %two = fmul float %v, 2.0
  %w = fadd float %two, %addf
  %to = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[tuple[int, Any]]:
    """Address of the kernel above, and what keeps it alive."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(KERNEL), machine)
    engine.finalize_object()
    yield engine.get_function_address("kernel"), engine


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = _bridge.get_threads()
    _bridge.set_threads(4)
    yield
    _bridge.set_threads(before)


def chain(kernel: tuple[int, Any], calls: int, grain: int) -> _bridge.Program:
    """A program that applies the kernel `calls` times, through the workspace."""
    address, engine = kernel
    where = [(0, 0, 0, 4 * N), (2, 0, 0, 4 * N), (2, 0, 4 * N, 4 * N), (1, 0, 0, 4 * N)]
    steps = []
    source = 0
    for i in range(calls):
        target = 3 if i == calls - 1 else 1 + i % 2
        steps.append((address, [source, target], [1], N, grain))
        source = target
    return _bridge.make_program("chain", steps, where, [(F32, [N])], 8 * N, data=_bridge.RecipeData(b"", engine))


def expected(x: np.ndarray, calls: int) -> np.ndarray:
    for _ in range(calls):
        x = 2 * x + 1
    return x


@pytest.mark.parametrize("grain", [1, 100, N // 2, N, 10 * N])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_work_item_is_done_once_and_calls_follow_each_other(
    kernel: tuple[int, Any], grain: int, threads: int
) -> None:
    _bridge.set_threads(threads)
    program = chain(kernel, 7, grain)
    x = np.arange(N, dtype=np.float32)
    for _ in range(20):
        (y,) = _bridge.run_program(program, [x])
        np.testing.assert_array_equal(y.view(np.float32), expected(x, 7))
    launches = {number: count for number, _, count, *_ in _bridge.launched()}
    assert launches[_bridge.program_number(program)] == 20


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_workers_that_slept_wake_on_other_processors_than_the_callers(kernel: tuple[int, Any]) -> None:
    program, x = chain(kernel, 7, 100), np.arange(N, dtype=np.float32)
    here = frozenset(os.sched_getaffinity(0))
    for _ in range(3):
        _bridge.run_program(program, [x])
        wait_until(others_sleep)
    kept_off = {frozenset(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")} - {here}
    assert {len(here - mask) for mask in kept_off} == {1}
    assert frozenset(os.sched_getaffinity(0)) == here


def test_a_caller_sleeps_while_it_waits_long_for_the_others() -> None:
    """The other's part of the work does not end before the caller is seen to sleep."""
    caller, native = threading.get_ident(), threading.get_native_id()
    begun, left, slept = threading.Event(), threading.Event(), []

    def work(buffers: int, dims: int, begin: int, end: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(60)
            left.set()
            return
        begun.set()
        assert left.wait(60)
        wait_until(lambda: all(time.sleep(0.001) or state(native) == "S" for _ in range(20)))
        slept.append(True)

    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(work)
    address = ctypes.cast(function, ctypes.c_void_p).value
    _bridge.set_threads(2)
    program = _bridge.make_program(
        "slow", [(address, [0], [], 2, 1)], [(1, 0, 0, 8)], [(F32, [2])], 0, data=_bridge.RecipeData(b"", function)
    )
    _bridge.run_program(program, [])
    assert slept == [True]


def wait_until(true: Callable[[], bool]) -> None:
    """Waits for a condition, for a minute at most."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it has not come about in a minute"
        time.sleep(0.001)


def state(task: int) -> str:
    """Of a thread of this process: R runs, S sleeps."""
    return Path(f"/proc/self/task/{task}/stat").read_text().rpartition(")")[2].split()[0]


def others_sleep() -> bool:
    """Whether all threads of this process sleep but the one that asks."""
    tasks = (int(name) for name in os.listdir("/proc/self/task"))
    return all(state(task) == "S" for task in tasks if task != threading.get_native_id())


def blocks(kernel: tuple[int, Any], parts: int, **changed: Any) -> _bridge.Program:
    """A program that applies the kernel three times in a loop of so many blocks, each on its part of input, output and
    workspace."""
    address, engine = kernel
    part = 4 * N // parts
    where = [(0, 0, 0, 4 * N), (1, 0, 0, 4 * N), (2, 0, 0, 8 * N), *((5, whole, 0, part) for whole in (2, 2, 0, 1))]
    windows = [(3, 0, 0, 2 * part), (4, part, 0, 2 * part), (5, 0, 0, part), (6, 0, 0, part)]
    loop = {"windows": windows, "blocks": parts, **changed}
    return _bridge.make_program(
        "blocks", [(address, [3, 4], [1], N // parts, 10)], where, [(F32, [N])], 8 * N,
        data=_bridge.RecipeData(b"", engine), loops=[(0, 1, 3, loop["windows"], [(3, 4, 5, 6)], loop["blocks"])],
    )  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2, 5, 50])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_block_of_a_loop_makes_all_its_iterations(kernel: tuple[int, Any], parts: int, threads: int) -> None:
    _bridge.set_threads(threads)
    x = np.arange(N, dtype=np.float32)
    program = blocks(kernel, parts)
    for _ in range(20):
        (y,) = _bridge.run_program(program, [x])
        np.testing.assert_array_equal(y.view(np.float32), expected(x, 3))


def test_blocks_that_leave_their_buffers_are_refused(kernel: tuple[int, Any]) -> None:
    part = 4 * N // 5
    with pytest.raises(ValueError, match="no block"):
        blocks(kernel, 5, blocks=0)
    for window in ((3, 0, 0, 3 * part), (3, 0, 0, -4), (3, 2 * part, 0, 2 * part)):
        with pytest.raises(ValueError, match="moves a window out of its buffer"):
            blocks(kernel, 5, windows=[window])


def test_concurrent_launches_share_the_pool_without_waiting_for_it(kernel: tuple[int, Any]) -> None:
    program = chain(kernel, 9, 100)
    wrong = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=N).astype(np.float32)
        for _ in range(30):
            (y,) = _bridge.run_program(program, [x])
            if not np.array_equal(y.view(np.float32), expected(x, 9)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert not wrong


def test_constants_and_shapes_arrive(kernel: tuple[int, Any]) -> None:
    address, engine = kernel
    constants = np.arange(6, dtype=np.float32)
    program = _bridge.make_program(
        "constants", [(address, [0, 1], [5], 6, 100)], [(3, 0, 0, 24), (1, 0, 0, 24)], [(F32, [2, 3])],
        data=_bridge.RecipeData(constants.tobytes(), engine),
    )  # fmt: skip
    (y,) = _bridge.run_program(program, [])
    np.testing.assert_array_equal(y.view(np.float32), 2 * constants + 5)


@pytest.mark.parametrize(
    "calls, buffers, what",
    [
        ([(1, [1], [], 1, 1)], [(0, 0, 0, 4)], "missing buffer"),
        ([(0, [0], [], 1, 1)], [(0, 0, 0, 4)], "a kernel has wrong buffers"),
        ([(0, [0, 1, 1], [], 1, 1)], [(6, 0, 0, 0), (7, 0, 0, 0)], "a missing kernel"),
        ([], [(1, 0, 4, 4)], "past its output"),
        ([], [(1, 1, 0, 4)], "missing output"),
        ([], [(2, 0, 0, 65)], "past the workspace"),
        ([], [(3, 0, 0, 9)], "past the constants"),
        ([], [(9, 0, 0, 4)], "unknown kind"),
        ([], [(0, 0, -4, 4)], "negative"),
    ],
)
def test_a_program_with_a_fault_is_refused_when_it_is_made(calls: Any, buffers: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        _bridge.make_program("faulty", calls, buffers, [(F32, [1])], 64, data=_bridge.RecipeData(b"12345678", None))


class Code:
    """Stands for what machine code belongs to, or for a function."""

    def __call__(self, *args: Any) -> None:
        pass


def _settle() -> None:
    """What native code gave up goes with the next call that makes a program: it may have been under a lock."""
    _bridge.make_interpreted("next", [], [], Code())


def test_programs_keep_their_code_alive_as_long_as_one_of_them_lives() -> None:
    code = Code()
    watch = weakref.ref(code)
    data = _bridge.RecipeData(b"", code)
    programs = [_bridge.make_program("alive", [], [], [], data=data, numbers=[n]) for n in range(3)]
    del code, data
    while programs:
        gc.collect()
        assert watch() is not None
        programs.pop()
    _settle()
    assert watch() is None


def test_an_interpreted_program_keeps_its_function_alive() -> None:
    code = Code()
    watch = weakref.ref(code)
    program = _bridge.make_interpreted("alive", [], [], code)
    del code
    gc.collect()
    assert watch() is not None
    del program
    _settle()
    assert watch() is None


def test_programs_of_a_recipe_share_its_constants_and_are_known_while_they_live() -> None:
    data = _bridge.RecipeData(b"12345678", None)

    def make(*numbers: int) -> _bridge.Program:
        return _bridge.make_program("known", [], [(3, 0, 0, 8)], [(F32, [numbers[0]])], data=data, numbers=numbers)

    assert data.find([1]) is None
    one, two = make(1), make(1, 2)
    assert data.alive() == 2
    assert data.find([1]) is not None
    assert _bridge.program_number(make(1)) == _bridge.program_number(one)  # of the same numbers there is one
    assert data.alive() == 2
    del one
    assert data.find([1]) is None
    assert data.alive() == 1
    many = [make(n) for n in range(1000)]
    assert data.alive() == 1001
    del many, two
    assert data.alive() == 0


def test_an_interpreted_program_sees_inputs_outputs_and_states() -> None:
    state = np.arange(6, dtype=np.uint32).tobytes()

    def body(ins: list[memoryview], outs: list[memoryview], states: list[bytes]) -> None:
        assert states == [state]
        assert ins[0].readonly
        np.frombuffer(outs[0], np.float32)[:] = np.frombuffer(ins[0], np.float32) + 1

    program = _bridge.make_interpreted("interpreted", [(F32, [3])], [(0, 1)], body)
    (y,) = _bridge.run_program(program, [np.zeros(3, np.float32)], [state])
    assert y.view(np.float32).tolist() == [1.0, 1.0, 1.0]


def test_an_exception_in_an_interpreted_program_is_raised_with_its_place() -> None:
    def body(ins: list[memoryview], outs: list[memoryview], states: list[bytes]) -> None:
        raise LookupError("not here")

    program = _bridge.make_interpreted("raises", [], [], body)
    with pytest.raises(RuntimeError, match=r"LookupError: not here.*test_native\.py:\d+"):
        _bridge.run_program(program, [])


def test_host_memory_is_what_the_kernel_says_or_less() -> None:
    total, available = _bridge.host_memory()
    with open("/proc/meminfo") as f:
        kernel_total = int(f.readline().split()[1]) * 1024
    assert 0 < available <= total <= kernel_total


def test_all_processors_are_used_unless_told_otherwise() -> None:
    _bridge.set_threads(0)
    assert 1 <= _bridge.get_threads() <= len(os.sched_getaffinity(0))
