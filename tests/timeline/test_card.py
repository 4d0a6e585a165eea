"""What the card's rows rest on: rooflines, and names that a user knows."""

from __future__ import annotations

from typing import Any

import pytest

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.recipe import describe_kernels
from habana_tf.hardware.chips import chips
from habana_tf.hardware.cpu import target
from habana_tf.resolver.programs import Made
from habana_tf.timeline.card import basis, card_launch, label
from tests.cli.recipes.conftest import OUT, WIDTH, layer

ROWS = 64


@pytest.mark.parametrize("chip", chips(), ids=lambda chip: chip.name)
def test_a_launch_takes_at_least_its_bytes_and_operations(chip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Made, "ops", lambda self: [("MatMul", "net/dense/MatMul"), ("Exp", "exp"), ("Softmax", "soft")])
    recipe = compile_program(layer(ROWS), "step", target())
    made = Made("step", b"", (), (), (), describe_kernels(recipe), recipe.buffers, "compiled", 0.0)
    launch = card_launch(made, chip)
    moved = 4 * (ROWS * WIDTH + WIDTH * OUT + ROWS * OUT)  # arguments and results, by hand
    assert launch.seconds >= moved / chip.published_hbm_bandwidth
    product = launch.intervals[0]
    assert (product.engine, product.name, product.start) == ("MME", "net/dense/MatMul", 0.0)
    assert product.flops >= 2 * ROWS * WIDTH * OUT
    if chip.published_mme_flops is not None:
        assert product.seconds >= product.flops / chip.published_mme_flops
    ends = [x.start + x.seconds for x in launch.intervals]
    assert [x.start for x in launch.intervals[1:]] == ends[:-1] and launch.seconds == pytest.approx(ends[-1])
    assert all(x.hbm_bytes is not None and x.hbm_bytes >= moved for x in launch.intervals)
    assert chip.name in basis(chip)


OPS = [("Conv2D", "a/Conv2D"), ("BiasAdd", "a/BiasAdd"), ("Conv2DBackpropFilter", "gradient_tape/a"), ("Sub", "sub")]


@pytest.mark.parametrize(
    "engine, ops, name",
    [
        ("MME", [0, 1], "a/Conv2D"),  # what is fused to a product does not name it
        ("MME", [0, 2, 3], "gradient_tape/a"),  # a view that the first product made too
        ("TPC", [1, 3], "sub"),
        ("TPC", [], "map"),
    ],
)
def test_a_kernel_is_called_after_its_op(engine: str, ops: list[int], name: str) -> None:
    assert label({"engine": engine, "ops": ops, "does": "map"}, OPS)[1] == name
