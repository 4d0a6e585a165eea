"""The line that reports name is the user's own, also where a package that is installed calls the op."""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    from habana_tf.torch.record import scopes


def called_by(file: Path) -> Callable[[Callable[[], Any]], Any]:
    """A function of that file which calls another one, in line 2."""
    made: dict[str, Any] = {}
    exec(compile("def call(f):\n    return f()", str(file), "exec"), made)
    return made["call"]  # type: ignore[no-any-return]


@on_device(modes=("lazy",))
def test_a_package_is_named_behind_the_line_that_calls_it() -> None:
    with tempfile.TemporaryDirectory() as folder, patch.object(sys, "path", [*sys.path, folder]):
        Path(folder, "package-1.dist-info").mkdir()
        package = called_by(Path(folder, "package", "step.py"))
        script = called_by(Path(folder).with_name("train.py"))
        here = inspect.currentframe()
        assert here is not None
        assert scopes.line() == f"{__file__}:{here.f_lineno}"
        assert package(scopes.line) == f"{__file__}:{here.f_lineno} (package/step.py:2)"
        inner = script(lambda: package(lambda: script(scopes.line)))
        assert inner == f"{Path(folder).with_name('train.py')}:2"
        assert package(lambda: scopes.line(None)) == f"{__file__}:{here.f_lineno}"
