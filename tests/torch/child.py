"""Runs tests of PyTorch's front end in a process of their own: to load the device cannot be undone.

A file's tests share one process. Each runs in both modes, lazy and eager.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest


def _has_torch() -> bool:
    """Whether PyTorch is installed. To look for the module would find this folder, where `tests` is on the path."""
    try:
        return bool(version("torch"))
    except PackageNotFoundError:
        return False


HAS_TORCH = _has_torch()
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install 'habana_tf[torch]'")
MODES = "lazy", "eager"

_in_child = False
_servers: dict[str, subprocess.Popen[str]] = {}


def _server(path: str) -> subprocess.Popen[str]:
    from tests.child import environment

    found = _servers.get(path)
    if found is None or found.poll() is not None:
        while _servers:
            _servers.popitem()[1].kill()
        found = _servers[path] = subprocess.Popen(
            [sys.executable, __file__, path], env=environment(TF_CPU_RUNTIME_FALLBACK="forbid"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        atexit.register(found.kill)
    return found


def _ask(path: str, test: str, mode: str, argument: str) -> None:
    server = _server(path)
    assert server.stdin is not None and server.stdout is not None
    print(json.dumps([test, mode, argument]), file=server.stdin, flush=True)
    answer = server.stdout.readline()
    assert answer, f"the child of {path} died with {server.wait()}"
    if (error := json.loads(answer)) is not None:
        raise AssertionError("in the child process:\n" + error)


def on_device(*arguments: str, modes: tuple[str, ...] = MODES) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test in the file's child, which has loaded the device, once per mode and for each argument."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        if _in_child:
            return test
        path, name = test.__code__.co_filename, test.__name__

        @needs_torch
        @pytest.mark.parametrize("argument", arguments or ("",))
        @pytest.mark.parametrize("mode", modes)
        def run(mode: str, argument: str) -> None:
            _ask(path, name, mode, argument)

        run.__name__, run.__doc__ = name, test.__doc__
        return run

    return decorate


def _serve(path: str) -> None:
    global _in_child
    _in_child = True
    sys.modules["tests.torch.child"] = sys.modules["__main__"]
    out = os.fdopen(os.dup(1), "w")  # what tests print goes to stderr
    os.dup2(2, 1)
    from habana_tf.torch import device

    recorder = device.load().recorder
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for line in sys.stdin:
        test, mode, argument = json.loads(line)
        error = None
        try:
            recorder.flush()
            recorder.lazy = mode == "lazy"
            getattr(module, test)(*([argument] if argument else []))
            recorder.flush()
        except BaseException:
            error = traceback.format_exc()
        out.write(json.dumps(error) + "\n")
        out.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
