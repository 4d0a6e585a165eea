"""The arithmetic of the kernel benchmark, and one run with a small model."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import bench, kernels
from tests.benchmarks.kernels import Row


def test_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "peak", lambda: 100e9)
    rows = [
        Row("products", "dense/MatMul", (8, 8), 4_000_000, 1_000_000, 1e-4, 1e-4 / 64),
        Row("map", "relu", (8, 8), 1_000_000, 4_000_000, 4e-4, 4e-4 / 16),
        Row("products", "dense_1/MatMul", (8, 8), 5_000_000, 1_000_000, 2e-4, 2e-4 / 64),
    ]
    line = kernels.summary("mlp", 1, {"fp32": rows})
    assert list(line["fp32"]["classes"]) == ["map", "products"]
    products = line["fp32"]["classes"]["products"]
    assert products == pytest.approx({"kernels": 2, "ms": 0.3, "gflops": 30, "gb_per_s": 20 / 3, "share_of_peak": 0.3})
    assert line["fp32"]["all"]["kernels"] == 3
    assert line["fp32"]["all"]["shared_by_many"] == pytest.approx(7 / (3 + 4 * 4))
    assert [r["what"] for r in line["fp32"]["slowest"]] == ["relu", "dense_1/MatMul", "dense/MatMul"]
    assert "30.0 GFLOP/s  30%" in kernels.sentence(line)


@pytest.mark.parametrize(
    ("ops", "kind"),
    [
        ([("Conv2D", "model/conv/Conv2D"), ("BiasAdd", "model/conv/BiasAdd")], "products"),
        ([("Conv2D", "model/conv/Conv2D"), ("Conv2DBackpropFilter", "gradient_tape/x")], "weight gradients"),
        ([("Conv2DBackpropInput", "gradient_tape/y")], "input gradients"),
        ([("MatMul", "gradient_tape/model/dense/MatMul/MatMul")], "input gradients"),
        ([("MatMul", "gradient_tape/model/dense/MatMul/MatMul_1")], "weight gradients"),
    ],
)
def test_classes_of_products(ops: list[tuple[str, str]], kind: str) -> None:
    assert kernels._classified("contract", ops)[0] == kind
    assert kernels._classified("reduce", ops)[0] == "reduce"


@pytest.mark.parametrize(
    ("grid", "grain", "share"),
    [(1, 1, 1), (100, 100, 1), (16, 1, 1 / 16), (64, 1, 1 / 64), (65, 1, 2 / 65), (96, 1, 2 / 96), (100, 50, 1 / 2),
     (64 * 64 * 3, 1, 1 / 64)],
)  # fmt: skip
def test_largest_share(grid: int, grain: int, share: float) -> None:
    assert kernels.largest_share(grid, grain) == pytest.approx(share)


@pytest.mark.rest
def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--models", "kernels", "--scale", "mlp", "--precision", "fp32"])
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    classes = line["fp32"]["classes"]
    assert {"products", "input gradients", "weight gradients"} <= set(classes)
    assert all(0 < each["share_of_peak"] < 1.5 for name, each in classes.items() if "gradients" in name)
