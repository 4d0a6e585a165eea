"""Runs tests in a process of their own.

Loading HPU cannot be undone and makes it the default device of its process, so tests that need it do not run in
pytest's own process. `on_hpu` runs a test function in a child that has loaded HPU once for all tests of a file;
`python` runs a script in a fresh process.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = os.pathsep.join(filter(None, sys.path))
"""Children import from where the tests import: the installed package, or else the sources."""
_children: dict[str, subprocess.Popen[str]] = {}


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


def python(script: str, *, check: bool = True, timeout: float = 120, **extra: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a fresh process; with `check`, a failure shows what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment(**extra),
        text=True,
        capture_output=True,
        timeout=timeout,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def on_hpu(test: Callable[[], None]) -> Callable[[], None]:
    """Runs a test without arguments in the file's child process, under /HPU:0."""

    @functools.wraps(test)
    def run() -> None:
        if _in_child:
            test()
            return
        path = test.__code__.co_filename
        child = _children.get(path)
        if child is None or child.poll() is not None:
            child = _children[path] = subprocess.Popen(
                [sys.executable, __file__, path], env=environment(), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            atexit.register(child.kill)
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(test.__name__ + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        assert answer, f"the child of {path} died with {child.wait()}"
        error = json.loads(answer)
        if error is not None:
            raise AssertionError("in the child process:\n" + error)

    return run


_in_child = False


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
