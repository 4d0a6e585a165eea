"""What holds for every action: it prints JSON when asked, its help has examples, and the examples are right."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf.cli.main import parser
from habana_tf.cli.recipes import _ACTIONS
from tests.cli.recipes.conftest import Keys

ACTIONS = {
    "list": "", "show": "AddV2", "explain": "", "diff": "AddV2 Mul", "stats": "", "verify": "", "prune": "",
    "clear": "--yes", "export": "{file}", "import": "{bundle}", "path": "",
    "ir": "--stage cluster {layer}", "asm": "--object {file} {layer}", "report": "--html {file}",
}  # fmt: skip


def test_none_is_left_out() -> None:
    assert {name for name, _, _ in _ACTIONS} == ACTIONS.keys()


@pytest.mark.parametrize("action", ACTIONS)
def test_json(cached: Keys, run: Callable[..., Any], action: str) -> None:
    bundle, file = f"{cached.path}.bundle", f"{cached.path}.out"
    assert run("recipes", "export", bundle).code == 0
    words = ACTIONS[action].format(bundle=bundle, file=file, layer=cached["64"]).split()
    result = run("recipes", action, *words, "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)


@pytest.mark.parametrize("action", ["", *ACTIONS])
def test_help_has_examples_that_parse(run: Callable[..., Any], action: str) -> None:
    result = run("recipes", *action.split(), "--help")
    assert result.code == 0
    examples = re.findall(r"^  habana-tf (recipes .*?)(?:   .*)?$", result.out.partition("examples:\n")[2], re.M)
    assert examples
    for example in examples:
        assert callable(parser().parse_args(shlex.split(example)).run)
        assert action in example


@pytest.mark.parametrize("action", sorted({*ACTIONS} - {"import", "path"}))
def test_no_directory_is_code_1_and_none_named_code_2(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any, action: str
) -> None:
    words = ACTIONS[action].format(file=tmp_path / "file", layer="LAYER").split()
    missing = run("recipes", action, *words, "--path", str(tmp_path / "nothing"))
    assert missing.code == 1 and "is not a directory" in missing.err
    unnamed = run("recipes", action, *words)
    assert unnamed.code == 2 and "set TF_RECIPE_CACHE_PATH or pass --path" in unnamed.err
