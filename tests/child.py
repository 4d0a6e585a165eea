"""Runs tests in a process of their own.

Loading HPU cannot be undone and makes it the default device of its process, so tests that need it do not run in
pytest's own process. `on_hpu` runs a test function in a child that has loaded HPU once for all tests of a file
(`on_device` of tests/torch/child.py does so for PyTorch); `python` runs a script in a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
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

    imported: a process that finds the framework imported that the script names, PyTorch or else TensorFlow, and with
    `hpu` what loading HPU imports, which saves seconds. hpu: if it is None, whether the script names the package.
    """
    words = ["-c", textwrap.dedent(script), *arguments]
    if imported:
        hpu = "habana" in script if hpu is None else hpu
        installed = [*importlib.metadata.distributions(name="torch")]  # a folder of this name is no installation
        framework = "torch" if "torch" in script and installed else "tensorflow"
        done = forked.run(words, environment(**extra), timeout, hpu=hpu, framework=framework)
    else:
        done = subprocess.run(
            [sys.executable, *words], env=environment(**extra), text=True, capture_output=True, timeout=timeout
        )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class _Server:
    """The process that runs the tests of a file: it reads a request per line and writes an answer per line."""

    def __init__(self, path: str, framework: str, load: Callable[[], Callable[..., None]]) -> None:
        stdin, asks = os.pipe()
        answers, stdout = os.pipe()
        words = ["-c", f"from {load.__module__} import load, serve; serve({path!r}, load)"]
        env = environment(TF_CPU_RUNTIME_FALLBACK="forbid")
        self.process = forked.Child(words, env, stdin=stdin, stdout=stdout, stderr=2, hpu=True, framework=framework)
        os.close(stdin)
        os.close(stdout)
        self.asks, self.answers = os.fdopen(asks, "w"), os.fdopen(answers)
        atexit.register(self.process.kill)


_servers: dict[str, _Server] = {}
in_child = False
"""Whether this process runs the tests of a file for another one."""


def ask(framework: str, load: Callable[[], Callable[..., None]], path: str, test: str, *arguments: str) -> None:
    """Runs a test in the child process of its file, which is started for the first one.

    load: called in the child; loads HPU and returns what runs a test: a function of it and the arguments. It is found
    there by its name, in its module.
    """
    server = _servers.get(path)
    if server is None or server.process.poll() is not None:
        while _servers:  # those of other files: their tests are over
            _servers.popitem()[1].process.kill()
        server = _servers[path] = _Server(path, framework, load)
    print(json.dumps([test, *arguments]), file=server.asks, flush=True)
    answer = server.answers.readline()
    assert answer, f"the child of {path} died with {server.process.wait()}"
    error = json.loads(answer)
    if error is not None:
        raise AssertionError("in the child process:\n" + error)


def on_hpu(test: Callable[[], None]) -> Callable[[], None]:
    """Runs a test without arguments in the file's child process, under /HPU:0."""

    @functools.wraps(test)
    def run() -> None:
        if in_child:
            test()
        else:
            ask("tensorflow", load, test.__code__.co_filename, test.__name__)

    return run


def load() -> Callable[..., None]:
    """What runs a test of `on_hpu` in the child."""
    import tensorflow as tf

    import habana_tf

    habana_tf.load_habana_module()

    def run(test: Callable[[], None]) -> None:
        with tf.device("/HPU:0"):
            test()

    return run


@contextlib.contextmanager
def fallbacks() -> Iterator[None]:
    """Within a test in a child: what cannot be compiled, or is better run on the CPU, does so, as for users."""
    before = os.environ.pop("TF_CPU_RUNTIME_FALLBACK", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["TF_CPU_RUNTIME_FALLBACK"] = before


def check_recipes() -> None:
    """Has a recipe that was just compiled fail where one that is read from the cache is refused."""
    from habana_tf.resolver import recipes

    get = recipes.get

    def checked(key: Any, name: str, program_key: Any, compile: Callable[[str], Any], fits: Any) -> Any:
        def compiled(program: str) -> Any:
            made = compile(program)
            fits(made)  # before another thread finds it: the first that binds it takes its code
            return made

        return get(key, name, program_key, compiled, fits)

    recipes.get = checked  # type: ignore[assignment]


def serve(path: str, load: Callable[[], Callable[..., None]]) -> None:
    """Answers what `ask` asks until nobody does any more."""
    global in_child
    in_child = True
    out = os.fdopen(os.dup(1), "w")  # the tests' own prints go to stderr
    os.dup2(2, 1)
    run = load()
    check_recipes()
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for line in sys.stdin:
        test, *arguments = json.loads(line)
        error = None
        try:
            run(getattr(module, test), *arguments)
        except BaseException:
            error = traceback.format_exc()
        out.write(json.dumps(error) + "\n")
        out.flush()
