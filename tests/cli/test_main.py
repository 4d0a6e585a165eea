"""The entry point: light, with documented exit codes, and quiet when its reader leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf import __version__

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path)}


def test_help_has_examples_and_exit_codes(run: Callable[..., Any]) -> None:
    result = run("--help")
    assert result.code == 0
    for words in ("recipes", "info", "settings", "examples:", "habana-tf recipes list", "exit codes: 0 done"):
        assert words in result.out


def test_version(run: Callable[..., Any]) -> None:
    result = run("--version")
    assert result.code == 0
    assert result.out == f"habana-tf {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["bake"], ["recipes"], ["recipes", "list", "--sort", "colour"]])
def test_wrong_usage_is_code_2(run: Callable[..., Any], arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert "usage: habana-tf" in result.err


def test_no_command_imports_tensorflow_or_numpy(tmp_path: os.PathLike[str]) -> None:
    code = (
        "import sys; from habana_tf.cli.main import main; "
        "main(['settings']); main(['recipes', 'list']); main(['info']); "
        "sys.exit(len({'tensorflow', 'keras', 'numpy'} & sys.modules.keys()))"
    )
    environment = {**ENVIRONMENT, "TF_RECIPE_CACHE_PATH": os.fspath(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "habana_tf.cli", "settings"],
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered},
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
