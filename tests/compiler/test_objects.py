"""Modules compiled by several processes: the same bytes, whoever compiles them, and nothing lost when one dies."""

from __future__ import annotations

import ctypes
import gc
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from habana_tf.compiler import costs
from habana_tf.compiler.codegen import machine, objects
from habana_tf.compiler.codegen.machine import Loaded, compile_ir
from habana_tf.compiler.codegen.objects import Objects, Worker, WorkerFailed, join, split
from habana_tf.hardware.cpu import target

MODULES = [f"define i64 @f{k}(i64 %x) {{\n  %y = mul i64 %x, {k + 2}\n  ret i64 %y\n}}\n" for k in range(6)]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three processes, and no worker that an earlier test left."""
    monkeypatch.setattr(objects, "processes", lambda: 3)
    monkeypatch.setattr(objects, "idle", objects._Idle())
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
    yield
    for thread in threading.enumerate():  # one that gives its worker back late would give it to the next test
        if thread.name == "habana_tf compiler":
            thread.join(60)
    objects.idle.close()


def compiled(start: type[Worker] = Worker) -> bytes:
    with Objects(target(), start=start) as made:
        for ir in MODULES:
            made.add(ir)
        return made.finish()


def test_join_and_split_are_inverse() -> None:
    parts = [b"", b"one", bytes(1000)]
    assert split(join(parts)) == parts and split(b"") == []


def test_the_bytes_do_not_depend_on_who_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    want = [compile_ir(ir, target()) for ir in MODULES]
    assert split(compiled()) == want
    monkeypatch.setattr(objects, "processes", lambda: 1)
    assert split(compiled()) == want


def test_a_worker_compiles() -> None:
    worker = Worker()
    worker.wait()
    try:
        assert [worker.compile(ir, target()) for ir in MODULES[:2]] == [compile_ir(x, target()) for x in MODULES[:2]]
        with pytest.raises(WorkerFailed, match="expected"):
            worker.compile("define nonsense", target())
        assert worker.usable
    finally:
        worker.close()
    assert not worker.usable


def test_all_objects_are_linked_together() -> None:
    loaded = Loaded(split(compiled()), [f"f{k}" for k in range(6)], target())
    functions = [ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address(f"f{k}")) for k in range(6)]
    assert [f(10) for f in functions] == [20, 30, 40, 50, 60, 70]


def test_a_linker_goes_with_the_last_of_what_it_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_numbers", itertools.count(1 << 20))  # what other tests linked has linkers of its own
    code = compile_ir(MODULES[0], target())
    loaded = [Loaded([code], ["f0"], target()) for _ in range(3 * costs.LINKED_LIBRARIES)]
    first, second, third = (weakref.ref(loaded[k * costs.LINKED_LIBRARIES]._library.linker) for k in range(3))
    last = loaded[costs.LINKED_LIBRARIES]
    del loaded
    gc.collect()
    assert first() is None and second() is not None and third() is not None, (
        "the second has one left, the third is next"
    )
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(last.address("f0"))(10) == 20


class Dying(Worker):
    """A worker that is killed before it answers."""

    def compile(self, ir: str, target: object) -> bytes:
        self._process.kill()
        return super().compile(ir, target)


class Dead(Worker):
    """A worker that has ended before it is told anything."""

    def compile(self, ir: str, target: object) -> bytes:
        self._process.kill()
        self._process.wait()
        return super().compile(ir, target)


class Odd(Worker):
    """A worker whose answer nobody expects."""

    def compile(self, ir: str, target: object) -> bytes:
        raise KeyError("bytes")


class Late(Worker):
    """A worker that ends while it starts."""

    def wait(self) -> None:
        self._process.kill()
        super().wait()


@pytest.mark.parametrize("kind", [Dying, Dead, Odd, Late])
def test_a_worker_that_dies_costs_one_warning(
    kind: type[Worker], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Objects._next

    def only_workers(self: Objects, wait: bool) -> tuple[int, str] | None:
        """This process leaves the first modules to the workers."""
        if not wait:
            for thread in self._threads:
                thread.join(30)
        return hold(self, wait)

    monkeypatch.setattr(Objects, "_next", only_workers)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        assert split(compiled(kind)) == [compile_ir(ir, target()) for ir in MODULES]
    assert [r.getMessage().startswith("a compiler process failed") for r in caplog.records] == [True]


def test_a_worker_is_used_again() -> None:
    started: list[Worker] = []

    class Counted(Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    for _ in range(3):
        with Objects(target(), start=Counted) as made:
            for ir in MODULES:
                made.add(ir)
            made.finish()
            threads = made._threads
        for thread in threads:
            thread.join(30)
    assert 1 <= len(started) <= 2 and all(w.usable for w in started)


def test_a_worker_for_a_large_recipe_starts_at_once_and_is_kept() -> None:
    with Objects(target(), large=True) as made:
        (thread,) = made._threads
        made.add(MODULES[0])
        assert split(made.finish()) == [compile_ir(MODULES[0], target())]  # who was first does not matter
    thread.join(60)
    assert len(objects.idle._workers) == 1


def test_workers_that_are_expected_start_before_there_is_a_recipe_and_are_taken() -> None:
    started: list[Worker] = []

    class Counted(Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    objects.expect(costs.WORKER_PRODUCTS - 1, Counted)
    assert not objects.idle._coming, "a small program"
    objects.expect(3 * costs.WORKER_PRODUCTS, Counted)
    objects.expect(costs.WORKER_PRODUCTS, Counted)
    coming = list(objects.idle._coming)
    assert len(coming) == 2, "three processes, this one among them"
    with Objects(target(), large=True, start=Counted) as made:
        for ir in MODULES:
            made.add(ir)
        made.finish()
    for thread in made._threads:
        thread.join(60)
    assert started == coming, "nobody has started more"
    assert {*objects.idle._workers, *objects.idle._coming} == {*coming} and objects.idle._workers


def test_a_worker_that_has_ended_is_not_counted_on() -> None:
    objects.expect(costs.WORKER_PRODUCTS)
    (first,) = objects.idle._coming
    first._process.kill()
    first._process.wait()
    objects.expect(costs.WORKER_PRODUCTS)
    assert objects.idle._coming[0] is not first and len(objects.idle._coming) == 1


def test_expected_workers_that_nobody_took_end_with_the_process() -> None:
    objects.expect(costs.WORKER_PRODUCTS)
    (worker,) = objects.idle._coming
    objects.idle.close()
    assert not worker.usable and not objects.idle._coming


def test_a_worker_that_is_free_takes_a_module_while_others_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's lock would keep it waiting until the code generator pauses."""
    monkeypatch.setattr(objects, "HANDOVER", 60)
    with Objects(target(), large=True) as made:
        give_up = time.monotonic() + 60
        while not made._free and time.monotonic() < give_up:
            time.sleep(0.01)
        made.add(MODULES[0])
        assert not made._waiting, "it was taken before `add` returned"
        assert split(made.finish()) == [compile_ir(MODULES[0], target())]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_expected_worker_that_does_not_start_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        objects.expect(costs.WORKER_PRODUCTS, Late)
        assert split(compiled(Late)) == [compile_ir(ir, target()) for ir in MODULES]
        for thread in threading.enumerate():
            if thread.name == "habana_tf compiler":
                thread.join(60)
    assert [r.getMessage().startswith("a compiler process failed") for r in caplog.records] == [True]


def test_nobody_waits_for_a_worker_to_start() -> None:
    go = threading.Event()

    class Slow(Worker):
        def wait(self) -> None:
            assert go.wait(60)
            super().wait()

    with Objects(target(), start=Slow) as made:
        for ir in MODULES:
            made.add(ir)
        assert len(split(made.finish())) == len(MODULES)
    go.set()
    for thread in made._threads:
        thread.join(60)
    assert len(objects.idle._workers) == len(made._threads) > 0


def test_ir_that_nobody_can_compile_is_an_error() -> None:
    with Objects(target()) as made:
        for ir in (*MODULES, "define nonsense"):
            made.add(ir)
        with pytest.raises(RuntimeError, match="expected"):
            made.finish()
