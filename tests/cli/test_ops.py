"""`ops` prints the op table, whole or in part, quickly and without TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf.tensorflow.lowering.table import rows
from tests.child import environment


def test_every_op_is_there(run: Callable[..., Any]) -> None:
    listed = json.loads(run("ops", "--json").out)
    assert {entry["op"] for entry in listed} == set(rows())
    matmul = next(entry for entry in listed if entry["op"] == "MatMul")
    assert matmul["types"] == {"T": ["float32", "bfloat16"]}
    text = run("ops").out
    assert f"{len(rows())} ops" in text and all(op in text for op in rows())


def test_names_choose(run: Callable[..., Any]) -> None:
    listed = [entry["op"] for entry in json.loads(run("ops", "avgpool", "relu6", "--json").out)]
    assert {"AvgPool", "AvgPoolGrad", "Relu6"} <= set(listed)
    assert all("avgpool" in op.lower() or "relu6" in op.lower() for op in listed)


def test_an_op_of_tensorflow_is_told_from_one_that_does_not_exist(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("ops", "betainc")
    assert result.code == 1 and "TensorFlow's Betainc runs on the CPU" in result.err
    result = run("ops", "string")
    assert result.code == 1 and "more run on the CPU" in result.err
    result = run("ops", "nosuch")
    assert result.code == 1 and "neither HPU nor TensorFlow has an op with 'nosuch'" in result.err
    assert "CPU" not in result.err
    assert "did you mean Conv2D?" in run("ops", "Conv2DD").err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "TensorFlow is not installed here" in run("ops", "nosuch").err


def test_no_tensorflow() -> None:
    code = (
        "import sys; from habana_tf.cli.main import main; main(['ops']); "
        "sys.exit(len({'tensorflow', 'keras', 'llvmlite'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
