"""Sums over a part made by hand."""

from __future__ import annotations

import pytest

from habana_tf.timeline import summary
from habana_tf.timeline.record import Kind
from tests.timeline.parts import CARD, KERNELS, part


def test_kinds() -> None:
    sums = summary.totals(part())
    assert sums.seconds == pytest.approx(5e-3)
    assert sums.by_kind[Kind.LAUNCH] == pytest.approx(2e-3) and sums.counts[Kind.LAUNCH] == 2
    assert sums.by_kind[Kind.RESOLVE] == pytest.approx(1e-3)


def test_programs_and_their_kernels() -> None:
    (program,) = summary.programs(part())
    assert (program.name, program.launches) == ("step", 2)
    assert program.host_seconds == pytest.approx(2e-3) and program.card_seconds == pytest.approx(6e-6)
    product, relu = program.kernels
    assert product.host_seconds == pytest.approx(6e-4) and product.calls == 1
    assert product.card_seconds == 2e-6 and relu.card_seconds == 1e-6


def test_what_takes_the_card_longest_is_first() -> None:
    made = part()
    slow_here = {"name": "other", "how": "compiled", "seconds": 0, "kernels": [], "hbm": [],
                 "card": {"seconds": 1e-9, "intervals": []}}  # fmt: skip
    made["programs"]["8"] = slow_here
    made["threads"][0]["events"].append([0, 10**9, 8, 0, 0, 1, 0])
    assert [p.name for p in summary.programs(made)] == ["step", "other"]


def test_kernels_of_one_name_share_what_does_not_match() -> None:
    made = part()
    twice = [*KERNELS, {**KERNELS[1], "calls": [2, 1]}]
    made["programs"]["7"]["kernels"] = twice
    assert [k.card_seconds for k in summary.programs(made)[0].kernels] == [2e-6, 0.5e-6, 0.5e-6]
    made["programs"]["7"]["card"] = {**CARD, "intervals": [*CARD["intervals"], ["TPC", 3e-6, 7e-6, "net/dense/Relu",
                                                           None, None, 0, 0]]}  # fmt: skip
    assert [k.card_seconds for k in summary.programs(made)[0].kernels] == [2e-6, 1e-6, 7e-6]


def test_paths_say_which_pass() -> None:
    made = part()
    names = ["net/a/MatMul", "gradient_tape/net/a/MatMul/MatMul_1", "SGD/AssignSub"]
    ops = [["MatMul x", "AssignVariableOp statistic"], ["MatMul x"], ["Mul x", "AssignSubVariableOp y"]]
    made["programs"]["7"]["kernels"] = [
        {**KERNELS[0], "name": name, "ops": each, "engine": engine, "calls": [k, 1]}
        for k, (name, each, engine) in enumerate(zip(names, ops, ("MME", "MME", "TPC"), strict=True))
    ]
    found = summary.by_path(summary.programs(made)[0])
    assert list(found) == [
        ("forward", "net", "a", "MatMul"),
        ("backward", "net", "a", "MatMul", "MatMul_1"),
        ("update", "SGD", "AssignSub"),
    ]  # fmt: skip
    assert found["forward", "net", "a", "MatMul"] == pytest.approx(6e-4)
