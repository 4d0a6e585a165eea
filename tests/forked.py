"""Runs Python programs in processes that have imported TensorFlow or PyTorch before they begin.

The import takes seconds of CPU and the tests start some hundred processes. So one process imports the framework, does
nothing else, and forks a copy of itself for each program; a keeper, forked too, waits for the copy and passes on how
it ended. In a run of the tests there is one such process per framework and set of the variables that are read during
the import, and a second one for programs that load HPU: a copy of the first that has imported what they import, which
takes a second or two.

    child = Child(["script.py", "--epochs", "2"], env)   # what would stand behind `python`; -c and -m work as well
    child.wait(timeout=300)

Not for tests of what happens before, during or without the import, or of what a process is called; with what HPU
imports neither for tests of the history of the recipe cache, which only the process that imported it writes.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import hashlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_AT_IMPORT = (
    "PYTHON", "TF_CPP_", "TF_USE_", "TF_ENABLE_ONEDNN", "KERAS_", "OMP_", "OPENBLAS_", "PYTORCH_", "TORCH_",
    "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_", "PT_HPU_AUTOLOAD",
)  # fmt: skip
"""Variables that are read before a program begins start with one of these."""
_FOLDER = "TESTS_SERVERS"
"""The variable with the folder of the sockets by which all processes of a run of the tests reach these processes."""
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


def own_servers() -> tempfile.TemporaryDirectory[str]:
    """Makes this process and those that inherit its environment share servers, until what is returned is cleaned up."""
    folder = tempfile.TemporaryDirectory(prefix="habana-servers-")
    os.environ[_FOLDER] = folder.name
    return folder


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
            server = _server(framework, early(env), hpu)
            socket.send_fds(server, [json.dumps(request).encode()], [*streams, other.fileno()])
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


def early(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that are read during the import."""
    return tuple(sorted((k, v) for k, v in env.items() if k.startswith(_AT_IMPORT)))


@functools.cache
def _server(framework: str, variables: tuple[tuple[str, str], ...], hpu: bool) -> socket.socket:
    """A connection to the process that has imported the framework under these variables, of which all processes of a
    run of the tests have the same one. It is started for the first of them and ends with the last connection."""
    if _FOLDER not in os.environ:  # no tests, but a script that uses what they use
        atexit.register(own_servers().cleanup)
    what = repr((sys.executable, _HERE, framework, variables, hpu))
    path = os.path.join(os.environ[_FOLDER], hashlib.sha256(what.encode()).hexdigest()[:16])
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _locked(path):
        if os.path.exists(path):
            ours.connect(path)
            return ours
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(path)
            listening.listen()
            ours.connect(path)
            _start(listening, framework, variables, hpu)
    return ours


def _start(listening: socket.socket, framework: str, variables: tuple[tuple[str, str], ...], hpu: bool) -> None:
    """Starts the process that serves at a socket."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(_AT_IMPORT)} | dict(variables)
    if hpu:
        words = [__file__, "0", *_OF_HPU[framework]]
        Child(words, env, stdin=listening.fileno(), session=True, framework=framework)
    else:
        subprocess.Popen(
            [sys.executable, __file__, str(listening.fileno()), framework], env=env, pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Nobody else starts or ends the server at a path meanwhile."""
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _serve(listening: socket.socket) -> dict[str, Any]:
    """Forks a keeper and a program per request. Returns in each program: its request."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    connections = [listening.accept()[0]]
    while True:
        for ready in select.select([listening, *connections], [], [])[0]:
            if ready is listening:
                connections.append(listening.accept()[0])
                continue
            message, descriptors, _, _ = socket.recv_fds(ready, _LARGEST, 4)
            if not message:
                connections.remove(ready)
                ready.close()
            elif os.fork() == 0:
                for each in (listening, *connections):
                    each.close()
                return _fork_program(message, descriptors)
            for each in descriptors:
                os.close(each)
        if not connections and _is_over(listening):
            os._exit(0)


def _is_over(listening: socket.socket) -> bool:
    """Whether nobody asks any more; then nobody finds the socket either."""
    path = listening.getsockname()
    if not os.path.exists(os.path.dirname(path)):
        return True  # the run of the tests has removed it
    with _locked(path):
        if select.select([listening], [], [], 0)[0]:
            return False
        os.unlink(path)
        return True


def _fork_program(message: bytes, descriptors: list[int]) -> dict[str, Any]:
    """In the keeper: forks the program, and waits for it. Returns in the program: its request."""
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
