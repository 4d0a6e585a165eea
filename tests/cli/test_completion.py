"""The completion script offers what the parser takes, in bash itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["re"], ["recipes"]),
        (["ch"], ["check"]),
        (["check", "--j"], ["--json"]),
        (["recipes", "li"], ["list"]),
        (["recipes", "list", "--sort", "s"], ["size"]),
        (["recipes", "ir", "--stage", ""], ["cluster", "primitives", "llvm"]),
        (["recipes", "show", "--js"], ["--json"]),
        (["completion", "z"], ["zsh"]),
        (["recipes", "import", "bund"], ["bundle.file"]),
    ],
)
def test_bash_offers(run: Callable[..., Any], tmp_path: Path, words: list[str], offered: list[str]) -> None:
    (tmp_path / "bundle.file").touch()
    script = run("completion", "bash").out
    line = " ".join(f'"{word}"' for word in ("habana-tf", *words))
    script += f'\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _habana_tf; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stderr, done.stdout.split()) == ("", offered)


def test_zsh_uses_the_same_words(run: Callable[..., Any]) -> None:
    assert (
        run("completion", "zsh").out == "autoload -U +X bashcompinit && bashcompinit\n" + run("completion", "bash").out
    )
    assert run("completion", "fish").code == 2
