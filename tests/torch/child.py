"""Runs tests of PyTorch's front end in a process of their own: to load the device cannot be undone.

A file's tests share one process. Each runs in both modes, lazy and eager.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from tests import child, installation
from tests.child import serve as serve  # asked for in the child, with `load`


def _has_torch() -> bool:
    """Whether PyTorch is installed. To look for the module would find this folder, where `tests` is on the path."""
    try:
        return bool(version("torch"))
    except PackageNotFoundError:
        return False


HAS_TORCH = _has_torch()
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install 'habana_tf[torch]'")
MODES = "lazy", "eager"
_BESIDE = Path(sys.prefix).with_name(".venv")
needs_tensorflow = pytest.mark.skipif(
    not any((_BESIDE / stamp).exists() for stamp in installation.STAMPS),
    reason="no environment of TensorFlow is beside PyTorch's: `make test` makes one",
)


def tensorflow(script: str, **extra: str) -> str:
    """What a script prints in the environment of TensorFlow."""
    words = f"import sys\nsys.path.append({str(installation.ROOT)!r})\n" + textwrap.dedent(script)
    done = subprocess.run(
        [_BESIDE / "bin" / "python", "-c", words], env=child.environment(PYTHONPATH="", **extra), text=True,
        capture_output=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def get_recorder() -> Any:
    """That of the device. For tests in the child."""
    from habana_tf.torch import loader

    return loader.load()


def raises(words: str, call: Callable[[], Any], kind: type[BaseException] = RuntimeError) -> None:
    """A call fails with an error whose message has these words."""
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value), caught.value


def on_device(*arguments: str, modes: tuple[str, ...] = MODES) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test in the file's child, which has loaded the device, once per mode and for each argument."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        if child.in_child:
            return test
        path, name = test.__code__.co_filename, test.__name__

        @needs_torch
        @pytest.mark.parametrize("argument", arguments or ("",))
        @pytest.mark.parametrize("mode", modes)
        def run(mode: str, argument: str) -> None:
            child.ask("torch", load, path, name, mode, argument)

        run.__name__, run.__doc__ = name, test.__doc__
        return run

    return decorate


def load() -> Callable[..., None]:
    """What runs a test in the child."""
    found = get_recorder()

    def run(test: Callable[..., None], mode: str, argument: str) -> None:
        found.flush()
        found.lazy = mode == "lazy"
        test(*([argument] if argument else []))
        found.flush()

    return run
