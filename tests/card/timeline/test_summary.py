"""Sums over a part made by hand."""

from __future__ import annotations

import pytest

from habana_tf.card.timeline import summary
from habana_tf.card.timeline.record import EventKind
from tests.card.timeline.parts import CARD, KERNELS, part


def test_kinds() -> None:
    sums = summary.totals(part())
    assert sums.seconds == pytest.approx(5e-3)
    assert sums.by_kind[EventKind.LAUNCH] == pytest.approx(2e-3) and sums.counts[EventKind.LAUNCH] == 2
    assert sums.by_kind[EventKind.RESOLVE] == pytest.approx(1e-3)


def test_programs_and_their_kernels() -> None:
    (program,) = summary.programs(part())
    assert (program.name, program.launches) == ("step", 2)
    assert program.host_seconds == pytest.approx(2e-3) and program.card_seconds == pytest.approx(6e-6)
    product, relu = program.kernels
    assert product.host_seconds == pytest.approx(6e-4) and product.calls == 1
    assert relu.host_seconds == pytest.approx(4e-4)
    assert [u["seconds"] for u in program.units] == [2e-6, 1e-6] and program.drawn == 1.0


def test_what_takes_the_card_longest_is_first() -> None:
    made = part()
    slow_here = {"name": "other", "how": "compiled", "seconds": 0, "kernels": [], "hbm": [],
                 "card": {**CARD, "seconds": 1e-9}}  # fmt: skip
    made["programs"]["8"] = slow_here
    made["threads"][0]["events"].append([0, 10**9, 8, 0, 0, 1, 0])
    assert [p.name for p in summary.programs(made)] == ["step", "other"]


def test_a_forgotten_program_has_no_units() -> None:
    made = part()
    made["programs"]["7"]["card"] = None
    (program,) = summary.programs(made)
    assert program.units == [] and program.card_seconds == 0.0 and program.by_card() == {}


def test_paths_say_which_pass() -> None:
    made = part()
    names = ["net/a/MatMul", "gradient_tape/net/a/MatMul/MatMul_1", "SGD/AssignSub"]
    ops = [["MatMul x", "AssignVariableOp statistic"], ["MatMul x"], ["Mul x", "AssignSubVariableOp y"]]
    made["programs"]["7"]["kernels"] = [
        {**KERNELS[0], "name": name, "ops": each, "engine": engine, "calls": [k, 1]}
        for k, (name, each, engine) in enumerate(zip(names, ops, ("MME", "MME", "TPC"), strict=True))
    ]
    found = summary.programs(made)[0].by_host()
    assert list(found) == [
        ("forward", "net", "a", "MatMul"),
        ("backward", "net", "a", "MatMul", "MatMul_1"),
        ("update", "SGD", "AssignSub"),
    ]  # fmt: skip
    assert found["forward", "net", "a", "MatMul"] == pytest.approx(6e-4)
    units = [
        {**CARD["intervals"][k], "name": name, "ops": each}
        for k, name, each in ((0, names[1], ops[1]), (1, names[2], ops[2]))
    ]  # fmt: skip
    made["programs"]["7"]["card"] = {**CARD, "intervals": units}
    found = summary.programs(made)[0].by_card()  # of two launches
    assert found == {
        ("backward", "net", "a", "MatMul", "MatMul_1"): pytest.approx(4e-6),
        ("update", "SGD", "AssignSub"): pytest.approx(2e-6),
    }  # fmt: skip


def test_what_stands_with_an_optimizer_s_assignments_is_update() -> None:
    """A model's statistics are assigned too, but it has products."""
    work = [
        ("net/conv/Conv2D", "MME", ["Conv2D net/conv/Conv2D"], 1.0), ("net/norm/mul", "TPC", ["Mul net/norm/mul"], 1.0),
        ("net/norm/Assign", "TPC", ["AssignVariableOp net/norm/Assign"], 1.0),
        ("SGD/mul", "TPC", ["Mul SGD/mul"], 1.0), ("SGD/Assign", "TPC", ["AssignAddVariableOp SGD/Assign"], 1.0),
        ("loss", "TPC", ["Mean loss"], 1.0),
    ]  # fmt: skip
    assert list(summary.by_path(work)) == [
        ("forward", "net", "conv", "Conv2D"), ("forward", "net", "norm", "mul"), ("update", "net", "norm", "Assign"),
        ("update", "SGD", "mul"), ("update", "SGD", "Assign"), ("forward", "loss")]  # fmt: skip
