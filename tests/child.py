"""Runs tests in a process of their own.

Loading HPU cannot be undone and makes it the default device of its process, so tests that need it do not run in
pytest's own process. `on_hpu` runs a test function in a child that has loaded HPU once for all tests of a file;
`python` runs a script in a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import forked

PATH = os.pathsep.join(filter(None, sys.path))
"""Children import from where the tests import: the installed package, or else the sources."""

_machines = tempfile.TemporaryDirectory(prefix="habana-tests-")


def machine() -> str:
    """The directory of a simulated machine of its own, all cards free."""
    return tempfile.mkdtemp(dir=_machines.name)


_SETTINGS = ("HABANA_", "HLS", "TF_RECIPE", "TF_CONFIG", "TF_BF16", "OMPI_", "PMI_", "MPI_", "HOROVOD_", "SLURM_")


def environment(**extra: str) -> dict[str, str]:
    """This process's environment for a child, without settings of the device but those given.

    Every child is on a simulated machine of its own unless HABANA_SIM_STATE_DIR is given: children of other tests
    are alive and hold cards.
    """
    extra = {"HABANA_SIM_STATE_DIR": machine(), **extra}
    env = {k: v for k, v in os.environ.items() if not k.startswith(_SETTINGS)}
    return {**env, "TF_CPP_MIN_LOG_LEVEL": "2", "HABANA_SIM_LOG": "warning", "PYTHONPATH": PATH, **extra}


def python(
    script: str, *arguments: str, check: bool = True, imported: bool = False, hpu: bool | None = None,
    timeout: float = 600, **extra: str,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a script in a process of its own; with `check`, a failure shows what it printed.

    imported: a process that finds TensorFlow imported, and with `hpu` what loading HPU imports, which saves seconds.
    hpu: if it is None, whether the script names the package.
    """
    words = ["-c", textwrap.dedent(script), *arguments]
    if imported:
        hpu = "habana" in script if hpu is None else hpu
        done = forked.run(words, environment(**extra), timeout, hpu=hpu)
    else:
        done = subprocess.run(
            [sys.executable, *words], env=environment(**extra), text=True, capture_output=True, timeout=timeout
        )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class _Server:
    """The process that runs the tests of a file: one name per line it is asked, one answer per line."""

    def __init__(self, path: str) -> None:
        stdin, asks = os.pipe()
        answers, stdout = os.pipe()
        self.process = forked.Child([__file__, path], environment(), stdin=stdin, stdout=stdout, stderr=2, hpu=True)
        os.close(stdin)
        os.close(stdout)
        self.asks, self.answers = os.fdopen(asks, "w"), os.fdopen(answers)
        atexit.register(self.process.kill)


_servers: dict[str, _Server] = {}


def on_hpu(test: Callable[[], None]) -> Callable[[], None]:
    """Runs a test without arguments in the file's child process, under /HPU:0."""

    @functools.wraps(test)
    def run() -> None:
        if _in_child:
            test()
            return
        path = test.__code__.co_filename
        server = _servers.get(path)
        if server is None or server.process.poll() is not None:
            while _servers:  # those of other files: their tests are over
                _servers.popitem()[1].process.kill()
            server = _servers[path] = _Server(path)
        print(test.__name__, file=server.asks, flush=True)
        answer = server.answers.readline()
        assert answer, f"the child of {path} died with {server.process.wait()}"
        error = json.loads(answer)
        if error is not None:
            raise AssertionError("in the child process:\n" + error)

    return run


_in_child = False


@contextlib.contextmanager
def fallbacks() -> Iterator[None]:
    """Within a test in a child: what cannot be compiled, or is better run on the CPU, does so, as for users."""
    before = os.environ.pop("TF_CPU_RUNTIME_FALLBACK", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["TF_CPU_RUNTIME_FALLBACK"] = before


def _serve(path: str) -> None:
    global _in_child
    _in_child = True
    sys.modules["tests.child"] = sys.modules["__main__"]
    out = os.fdopen(os.dup(1), "w")  # the tests' own prints go to stderr
    os.dup2(2, 1)
    import tensorflow as tf

    import habana_tf

    habana_tf.load_habana_module()
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for line in sys.stdin:
        error = None
        try:
            with tf.device("/HPU:0"):
                getattr(module, line.strip())()
        except BaseException:
            error = traceback.format_exc()
        out.write(json.dumps(error) + "\n")
        out.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
