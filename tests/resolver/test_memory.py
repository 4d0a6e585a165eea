"""What a launch needs of the card's memory, by its plan."""

from __future__ import annotations

import json
from collections import OrderedDict

import pytest

from habana_tf.resolver import memory
from habana_tf.resolver.memory import LaunchMemory
from tests.child import python

MIB = 1 << 20


def test_a_card_updates_variables_in_place_and_this_host_only_some() -> None:
    plan = LaunchMemory("step", inputs=10 * MIB, outputs=6 * MIB, updates=5 * MIB, workspace=4 * MIB, alive=3 * MIB)
    assert (plan.host_peak, plan.card_peak) == (20 * MIB, 14 * MIB)
    plan = LaunchMemory("step", 10 * MIB, 6 * MIB, 5 * MIB, 4 * MIB, 3 * MIB, in_place=5 * MIB, before=30 * MIB)
    assert (plan.host_peak, plan.card_peak, plan.reached) == (15 * MIB, 14 * MIB, 35 * MIB)


def test_of_an_op_by_itself_the_highest_plan_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_one_op", {})
    for before in (1, 7, 3):
        memory.record_one_op(LaunchMemory("MatMul", 1, 1, 0, 1, 1, before=before))
    memory.record_one_op(LaunchMemory("Relu", 1, 1, 0, 0, 0))
    assert [(x.name, x.reached) for x in memory.one_op()] == [("MatMul", 9), ("Relu", 1)]


def test_a_plan_is_noted_once_per_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_plans", OrderedDict())
    for rows in (1, 2, 2):
        memory.record(LaunchMemory("step", rows, 1, 0, 1, 1))
    assert [plan.inputs for plan in memory._plans["step"].values()] == [1, 2]


def test_the_last_plans_of_the_last_clusters_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_plans", OrderedDict())
    monkeypatch.setattr(memory, "MOST_CLUSTERS", 3)
    for rows in (*range(1, 101), 95):
        memory.record(LaunchMemory("step", rows, 1, 0, 1, 1))
    assert [plan.inputs for plan in memory._plans["step"].values()] == [93, 94, 96, 97, 98, 99, 100, 95]
    for name in ("a", "b", "step", "c"):
        memory.record(LaunchMemory(name, 1, 1, 0, 1, 1))
    assert list(memory._plans) == ["b", "step", "c"]


def test_a_training_step_has_an_exact_plan() -> None:
    done = python(
        """
        import json
        import tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        with tf.device("/HPU:0"):
            w = tf.Variable(tf.ones((64, 32)))

            @tf.function
            def step(x):
                y = tf.reduce_sum(tf.tanh(tf.matmul(x, w)))
                w.assign_sub(0.1 * tf.matmul(x, tf.matmul(x, w), transpose_a=True))
                return y

            step(tf.ones((16, 64)))
        print(habana_tf.memory_report().to_json())
        """,
        imported=True,
    )
    report = json.loads(done.stdout[done.stdout.index("{") :])
    (launch,) = report["launches"]
    assert launch["inputs"] >= 64 * 32 * 4 + 16 * 64 * 4
    assert launch["updates"] == 64 * 32 * 4
    assert launch["outputs"] == 64 * 32 * 4 + 4
    assert report["peak"] >= launch["outputs"]
