"""What recipes on disk are predicted to take, against what the process that made them says of its launches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from habana_tf.cli.recipes.predicted import _numbers
from habana_tf.cluster.counts import Count
from habana_tf.ir.expression import sym
from tests.child import python
from tests.cli.recipes.conftest import Keys

SCRIPT = """
import json
import tensorflow as tf
import habana_tf
habana_tf.load_habana_module()

@tf.function(reduce_retracing=True)
def layer(x, w):
    return tf.nn.softmax(tf.matmul(x, w)) * 2.0

times = {}
for rows in (48, 64, 80):
    before = habana_tf.card_time_report()
    layer(tf.ones((rows, 32)), tf.ones((32, 16)))
    for chip in ("gaudi", "gaudi3"):
        (row,) = [r for r in habana_tf.card_time_report(chip, since=before).recipes if r.name.startswith("cluster")]
        times[f"{rows} {chip}"] = row.each
print(json.dumps(times))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A cache with a recipe for 48 rows and one for any number of them, and what their launches were predicted."""
    root = tmp_path_factory.mktemp("cache")
    root.chmod(0o700)
    done = python(SCRIPT, imported=True, TF_RECIPE_CACHE_PATH=str(root))
    return root, json.loads(done.stdout.splitlines()[-1])


def keys(run: Callable[..., Any], root: Path) -> dict[bool, str]:
    """Whether it leaves sizes open -> its key; of the cluster's recipes."""
    rows = json.loads(run("recipes", "list", "--path", str(root), "--op", "softmax", "--json").out)["recipes"]
    return {"s0" in json.dumps(row["header"]["inputs"]): row["header"]["digest"] for row in rows}


def test_show_predicts_each_chip(made: tuple[Path, dict[str, float]], run: Callable[..., Any]) -> None:
    root, times = made
    key = keys(run, root)[False]
    data = json.loads(run("recipes", "show", key, "--path", str(root), "--json").out)
    assert set(data["predicted"]) == {"gaudi", "gaudi2", "gaudi3"} and data["not_predicted"] == ""
    for chip in ("gaudi", "gaudi3"):
        assert data["predicted"][chip]["seconds"] == pytest.approx(times[f"48 {chip}"])
    shown = run("recipes", "show", key, "--path", str(root)).out
    assert re.search(r"^gaudi2 .* µs", shown, re.MULTILINE) and "predicted: one launch" in shown
    quick = run("recipes", "show", key, "--path", str(root), "--quick").out
    assert "predicted" not in quick


def test_a_range_is_predicted_for_the_sizes_asked_for(
    made: tuple[Path, dict[str, float]], run: Callable[..., Any]
) -> None:
    root, times = made
    key = keys(run, root)[True]
    assert "depends on s0; pass --sizes" in run("recipes", "show", key, "--path", str(root)).out
    for rows in (64, 80):
        data = json.loads(run("recipes", "show", key, "--path", str(root), "--sizes", str(rows), "--json").out)
        assert data["predicted"]["gaudi"]["seconds"] == pytest.approx(times[f"{rows} gaudi"])


def test_the_page_predicts_what_it_draws(
    made: tuple[Path, dict[str, float]], run: Callable[..., Any], tmp_path: Path
) -> None:
    root, _ = made
    page = tmp_path / "page.html"
    assert run("recipes", "report", "--path", str(root), "--html", str(page)).code == 0
    assert page.read_text().count("one launch takes gaudi ") == 2
    assert run("recipes", "report", "--path", str(root), "--html", str(page), "--quick").code == 0
    assert "one launch takes" not in page.read_text()


def test_what_cannot_be_predicted_says_why(
    cached: Keys, made: tuple[Path, dict[str, float]], run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry without its cluster; a Python without TensorFlow."""
    shown = run("recipes", "show", cached["64"])
    assert "not predicted: it does not say what it was compiled from" in shown.out
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", None)
    root, _ = made
    shown = run("recipes", "show", keys(run, root)[False], "--path", str(root))
    assert shown.code == 0 and "takes TensorFlow, which cannot be imported" in shown.out


def test_a_listing_says_type_work_and_batch(made: tuple[Path, dict[str, float]], run: Callable[..., Any]) -> None:
    root, _ = made
    rows = json.loads(run("recipes", "list", "--path", str(root), "--op", "softmax", "--json").out)["recipes"]
    heads = {row["header"]["takes"]: row["header"] for row in rows}
    assert set(heads) == {"float32[48,32], float32[32,16]", "float32[s0,32], float32[32,16]"}
    for head in heads.values():
        assert head["precision"] == "float32"
        assert max(head["work"], key=head["work"].get) == "MatMul" and sum(head["work"].values()) <= 101
    (line,) = [line for line in run("recipes", "list", "--path", str(root)).out.splitlines() if "[48,32]" in line]
    assert "fp32" in line and "MatMul " in line and "%" in line


def test_a_value_that_fixes_a_shape_keeps_its_type() -> None:
    value = np.empty(2, object)
    value[:] = [sym(0), 10]
    found = _numbers(value.view(Count), (8,), np.int32)
    assert found.dtype == np.int32 and found.tolist() == [8, 10] and isinstance(found, Count)
