"""Runs Python programs in processes that have imported TensorFlow or PyTorch before they begin.

The import takes seconds of CPU and the tests start some hundred processes. So one process imports the framework, does
nothing else, and forks a copy of itself for each program; a keeper, forked too, waits for the copy and passes on how
it ended. There is one such process per framework and set of the variables that are read during the import, and a
second one for programs that load HPU: a copy of the first that has imported what they import, which takes a second or
two.

    child = Child(["script.py", "--epochs", "2"], env)   # what would stand behind `python`; -c and -m work as well
    child.wait(timeout=300)

Not for tests of what happens before, during or without the import, or of what a process is called; with what HPU
imports neither for tests of the history of the recipe cache, which only the process that imported it writes.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from typing import Any

_AT_IMPORT = (
    "PYTHON", "TF_CPP_", "TF_USE_", "TF_ENABLE_ONEDNN", "KERAS_", "OMP_", "OPENBLAS_", "PYTORCH_", "TORCH_",
    "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_", "PT_HPU_AUTOLOAD",
)  # fmt: skip
"""Variables that are read before a program begins start with one of these."""
_LARGEST = 1 << 20
_HERE = os.path.dirname(os.path.abspath(__file__))
"""No program imports from here by a module's last name: `tensorflow` and `torch` in it are the tests of front ends."""
_OF_HPU = {
    "tensorflow": (
        "habana_tf.loader", "habana_tf.tensorflow.graph.eager", "habana_tf.tensorflow.graph.pipeline",
        "habana_tf.resolver.resolve", "habana_tf.custom.op", "llvmlite.binding", "llvmlite.ir",
    ),
    "torch": (
        "habana_tf.torch.loader", "habana_tf.torch.compile", "habana_tf.resolver.resolve", "torch._dynamo",
        "torch.fx.experimental.symbolic_shapes", "llvmlite.binding", "llvmlite.ir",
    ),
}  # fmt: skip
"""These bring nearly all that a program imports until its first launch has run."""


class Child:
    """A running program. Standard streams are file descriptors; without one it is /dev/null.

    framework: what it finds imported. hpu: also what loading HPU and a launch import. HPU is not loaded.
    """

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None,
        stdin: int | None = None, stdout: int | None = None, stderr: int | None = None, session: bool = False,
        hpu: bool = False, framework: str = "tensorflow",
    ) -> None:  # fmt: skip
        self.args = list(arguments)
        self.returncode: int | None = None
        self._keeper, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "arguments": self.args, "env": dict(env), "cwd": os.fspath(cwd or os.getcwd()), "session": session
        }  # fmt: skip
        null = os.open(os.devnull, os.O_RDWR)
        streams = [null if stream is None else stream for stream in (stdin, stdout, stderr)]
        with other:
            early = tuple(sorted((k, v) for k, v in env.items() if k.startswith(_AT_IMPORT)))
            socket.send_fds(_server(framework, early, hpu), [json.dumps(request).encode()], [*streams, other.fileno()])
        os.close(null)
        self.pid = self._told()

    def poll(self) -> int | None:
        """The exit code as subprocess gives it, or None while the program runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end. Raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._keeper.settimeout(timeout)
            try:
                self.returncode = self._told()
            except (TimeoutError, BlockingIOError):
                return None
        return self.returncode

    def _told(self) -> int:
        """The next number that the keeper sends."""
        said = self._keeper.recv(64)
        if not said:
            raise RuntimeError(f"nobody watches over {self.args[0]!r} any more: the process it is forked from has died")
        return int(said)


def run(
    arguments: Sequence[str], env: Mapping[str, str], timeout: float, cwd: str | os.PathLike[str] | None = None,
    hpu: bool = False, framework: str = "tensorflow",
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a program to its end and returns what it printed. Raises subprocess.TimeoutExpired and kills it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = Child(arguments, env, cwd, stdout=out.fileno(), stderr=err.fileno(), hpu=hpu, framework=framework)
        try:
            code = child.wait(timeout)
        finally:
            child.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read(), err.read())


@functools.cache
def _server(framework: str, early: tuple[tuple[str, str], ...], hpu: bool) -> socket.socket:
    """The connection to a process that has imported the framework under these variables."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {k: v for k, v in os.environ.items() if not k.startswith(_AT_IMPORT)} | dict(early)
    with theirs:
        server: Child | subprocess.Popen[bytes]
        if hpu:
            words = [__file__, "0", *_OF_HPU[framework]]
            server = Child(words, env, stdin=theirs.fileno(), session=True, framework=framework)
        else:
            server = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), framework], env=env, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
    atexit.register(server.kill)
    return ours


def _serve(control: socket.socket) -> dict[str, Any]:
    """Forks a keeper and a program per request. Returns in each program: its request."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _LARGEST, 4)
        if not message:
            os._exit(0)  # the tests are over
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, keeper = descriptors
    program = os.fork()
    if program:
        for each in streams:
            os.close(each)
        os.write(keeper, str(program).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        os.write(keeper, str(code).encode())
        os._exit(0)
    os.close(keeper)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    request: dict[str, Any] = json.loads(message)
    return request


def _become(request: dict[str, Any]) -> None:
    """Runs the program of a request as the interpreter would."""
    import numpy as np

    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    np.random.seed()  # TensorFlow draws its own from the system at first use
    first, *rest = request["arguments"]
    path = [*sys.path]
    if first == "-c":
        sys.argv, sys.path[:] = ["-c", *rest[1:]], ["", *path]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    elif first == "-m":
        sys.argv, sys.path[:] = rest, [os.getcwd(), *path]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        folder = os.path.dirname(os.path.abspath(first))
        sys.argv, sys.path[:] = [first, *rest], [*([] if folder == _HERE else [folder]), *path]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    sys.path[:] = [each for each in sys.path if each != _HERE]
    for module in sys.argv[2:]:
        importlib.import_module(module)
    if "tensorflow" in sys.modules:
        _ = sys.modules["tensorflow"].keras.layers  # newer releases import Keras when it is first asked for
    gc.collect()
    gc.freeze()  # a copy does not look for garbage among a million objects, again and again
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
