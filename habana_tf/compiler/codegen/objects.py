"""Parallel compilation of a recipe's modules in worker processes.

Modules have about `MODULE_BYTES` of IR and depend on the functions' text only; a recipe's code is their object files in
order. llvmlite compiles one module at a time per process, so worker processes (`worker.py`) compile modules of a large
recipe, and any from the second one on, while code generation continues; this process compiles the rest in the end. A
worker takes modules only once it has started, which takes a tenth of a second, as long as generating a small network's
code: so large recipes are announced in advance (`expect`). Workers are kept for the next recipe and time out.

Invariants: the bytes do not depend on which process compiled a module. A worker that fails causes one warning, and its
module is compiled here.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from habana_tf.compiler.codegen.machine import compile_ir
from habana_tf.compiler.codegen.worker import IDLE
from habana_tf.compiler.costs import WORKER_PROCESSES, WORKER_PRODUCTS
from habana_tf.hardware.cpu import Target

log = logging.getLogger("habana_tf")

HANDOVER = 0.001
"""Seconds that the code generator waits at most for a free worker to take a new module. Without, the worker's thread
gets Python's lock when the generator has had it for `sys.getswitchinterval`, five milliseconds."""


def join(objects: Iterable[bytes]) -> bytes:
    """Concatenates object files, each after its length (8 bytes, little-endian)."""
    return b"".join(part for x in objects for part in (len(x).to_bytes(8, "little"), x))


def split(code: bytes) -> list[bytes]:
    """The object files that `join` concatenated."""
    out, at = [], 0
    while at < len(code):
        n = int.from_bytes(code[at : at + 8], "little")
        out.append(code[at + 8 : at + 8 + n])
        at += 8 + n
    return out


class WorkerFailed(Exception):
    """A worker ended, or could not compile a module."""


class Worker:
    """A worker process."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        self._process = subprocess.Popen(  # without `site`, which takes a while to find the same path
            [sys.executable, "-S", "-m", "habana_tf.compiler.codegen.worker"], env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._used = time.monotonic()

    def wait(self) -> None:
        """Waits until it can compile. Raises WorkerFailed."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"\n":
            raise WorkerFailed("it did not start")

    @property
    def usable(self) -> bool:
        """Whether it is alive and not about to time out."""
        return self._process.poll() is None and time.monotonic() - self._used < IDLE / 2

    def compile(self, ir: str, target: Target) -> bytes:
        """Object code of a module. Raises WorkerFailed."""
        process, data = self._process, ir.encode()
        assert process.stdin is not None and process.stdout is not None
        head = {
            "cpu": target.llvm_cpu, "features": target.llvm_features, "triple": target.triple, "bytes": len(data)
        }  # fmt: skip
        try:
            process.stdin.write(json.dumps(head).encode() + b"\n" + data)
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            code = process.stdout.read(answer["bytes"])
        except (OSError, ValueError) as why:
            raise WorkerFailed(f"it ended ({why})") from why
        if answer["error"] is not None or len(code) != answer["bytes"]:
            raise WorkerFailed(answer["error"] or "it ended in the middle of an answer")
        self._used = time.monotonic()
        return code

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # unsent data
                    stream.close()


class _Idle:
    """The pool of idle and starting workers; a forked child begins with an empty one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._coming: list[Worker] = []
        self._owner = os.getpid()
        self._warned = False
        atexit.register(self.close)

    def take(self) -> Worker | None:
        """An idle worker, else a starting one once it is ready, else None."""
        while True:
            with self._lock:
                self._disown()
                waits = bool(self._workers)
                if not waits and not self._coming:
                    return None
                worker = (self._workers or self._coming).pop()
            if not worker.usable:
                worker.close()
            elif waits or self._is_ready(worker):
                return worker

    def expect(self, count: int, start: Callable[[], Worker]) -> None:
        """Starts workers until `count` are idle or starting."""
        failed = None
        with self._lock:
            self._disown()
            for some in (self._workers, self._coming):
                for worker in [w for w in some if not w.usable]:
                    some.remove(worker)
                    worker.close()
            for _ in range(count - len(self._workers) - len(self._coming)):
                try:
                    self._coming.append(start())
                except Exception as why:
                    failed = why
                    break
        if failed is not None:
            self.warn(failed)

    def _disown(self) -> None:
        """Empties the pool in a forked child; called with the lock held."""
        if self._owner != os.getpid():
            self._owner, self._workers, self._coming = os.getpid(), [], []

    def started(self, start: Callable[[], Worker]) -> Worker | None:
        """A new worker that is ready; None, with a warning, if it fails."""
        try:
            worker = start()
        except Exception as why:
            self.warn(why)
            return None
        return worker if self._is_ready(worker) else None

    def _is_ready(self, worker: Worker) -> bool:
        """Waits until a worker is ready; False, with a warning, if it fails."""
        try:
            worker.wait()
        except Exception as why:
            self.warn(why)
            worker.close()
            return False
        return True

    def give(self, worker: Worker) -> None:
        with self._lock:
            self._workers.append(worker)

    def warn(self, why: object) -> None:
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            log.warning("a compiler process failed (%s): its modules are compiled in this process", why)

    def close(self) -> None:
        """Ends all workers."""
        with self._lock:
            workers, self._workers, self._coming = [*self._workers, *self._coming], [], []
        if self._owner == os.getpid():
            for worker in workers:
                worker.close()


idle = _Idle()


def processes() -> int:
    """The number of processes that compile a recipe, this one included."""
    return min(len(os.sched_getaffinity(0)), WORKER_PROCESSES + 1)


def expect(products: int, start: Callable[[], Worker] = Worker) -> None:
    """Starts workers in advance for a program with so many products, if that is large."""
    idle.expect(min(processes() - 1, products // WORKER_PRODUCTS), start)


class Objects:
    """Compiles the modules of a recipe: `add` each one, then `finish`.

    large: whether several modules are expected, so that a worker starts at once. start: makes a worker process.
    """

    def __init__(self, target: Target, large: bool = False, start: Callable[[], Worker] = Worker) -> None:
        self._target = target
        self._start = start
        self._done: dict[int, bytes | Exception] = {}
        self._waiting: deque[tuple[int, str]] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._count = 0
        self._free = 0  # threads that wait for a module
        self._complete = False
        if large and processes() > 1:
            self._help()

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._waiting.clear()
            self._complete = True
            self._changed.notify_all()

    def add(self, ir: str) -> None:
        """Adds the next module."""
        with self._changed:
            self._waiting.append((self._count, ir))
            self._count += 1
            if self._free:
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._waiting, HANDOVER)
        if self._count > 1 and len(self._threads) < min(processes() - 1, self._count):
            self._help()

    def _help(self) -> None:
        """Starts a thread that serves a worker."""
        self._threads.append(threading.Thread(target=self._serve, name="habana_tf compiler", daemon=True))
        self._threads[-1].start()

    def finish(self) -> bytes:
        """All object files, joined; compiles the modules that no worker has begun."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()
        while (job := self._next(wait=False)) is not None:
            self._put(job[0], compile_ir(job[1], self._target))
        with self._changed:
            while len(self._done) < self._count:
                self._changed.wait()
        return join(_code(self._done[k]) for k in range(self._count))

    def _next(self, wait: bool) -> tuple[int, str] | None:
        with self._changed:
            self._free += wait
            while wait and not self._waiting and not self._complete:
                self._changed.wait()
            self._free -= wait
            job = self._waiting.popleft() if self._waiting else None
            self._changed.notify_all()
            return job

    def _put(self, number: int, code: bytes | Exception) -> None:
        with self._changed:
            self._done[number] = code
            self._changed.notify_all()

    def _serve(self) -> None:
        """Passes modules to a worker until none are left."""
        worker = self._ready()
        while worker is not None and (job := self._next(wait=True)) is not None:
            number, ir = job
            try:
                self._put(number, worker.compile(ir, self._target))
            except Exception as why:  # any error, or `finish` would wait forever
                idle.warn(why)
                try:
                    self._put(number, compile_ir(ir, self._target))
                except Exception as error:
                    self._put(number, error)
                worker.close()
                return
        if worker is not None:
            idle.give(worker)

    def _ready(self) -> Worker | None:
        """An idle or a new worker; None, with a warning, if none starts."""
        return idle.take() or idle.started(self._start)


def _code(made: bytes | Exception) -> bytes:
    if isinstance(made, Exception):
        raise made
    return made
