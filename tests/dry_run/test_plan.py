"""Plans against predictions of the same jobs, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.child import on_hpu

layers = tf.keras.layers


def perceptron(width: int = 512, depth: int = 4) -> tf.keras.Model:
    parts = [layers.Dense(width, activation="relu", use_bias=False) for _ in range(depth)]
    return tf.keras.Sequential([layers.Input((width,)), *parts])


@on_hpu
def test_rows_are_predictions_and_no_fewer_cards_would_do() -> None:
    import habana_tf
    from habana_tf.dry_run.plan import COUNTS

    model = perceptron()
    rate = 20 * habana_tf.predict(model, (4096, 512), chip="gaudi2").examples_per_second
    found = habana_tf.plan(model, (4096, 512), target=f"{rate:.3f} examples/s", precisions=["bf16"])
    assert {row.chip for row in found} == {"gaudi", "gaudi2", "gaudi3"}
    assert [r.cards for r in found] == sorted(r.cards for r in found)
    before = {row.cards: COUNTS[COUNTS.index(row.cards) - 1] for row in found}
    every = habana_tf.compare(model, (4096, 512), cards={*before, *before.values()})
    for row in found:
        told = {p.cards: p for p in every if p.chip == row.chip and p.cards in (row.cards, before[row.cards])}
        assert row.examples_per_second == pytest.approx(told[row.cards].examples_per_second) and row.accumulate == 1
        assert row.hbm_bytes == told[row.cards].hbm_bytes
        assert told[row.cards].examples_per_second >= rate > min(p.examples_per_second for p in told.values())
    best = found.best()
    assert [row.cards for row in found.scaling] == [2**k for k in range(13)]
    assert all(row.chip == best.chip and 0 <= sum(row.lost.values()) < 1 for row in found.scaling)
    waits = [row.step.waiting for row in found.scaling]
    assert waits == sorted(waits) and waits[0] == 0 < waits[1]


@on_hpu
def test_traced_once_for_each_batch_and_precision() -> None:
    import habana_tf

    traces = []

    def f(x: Any) -> Any:
        traces.append(x.shape[0])
        return tf.matmul(x, x, transpose_b=True)

    found = habana_tf.plan(f, (64, 64), target="1 examples/s", batches=[64, 128])
    assert traces == [64, 128, 64, 128] and len(found) == 12


@on_hpu
def test_a_global_batch_is_kept_by_accumulation() -> None:
    import habana_tf

    found = habana_tf.plan(
        perceptron(), (1024, 512), target="1000 examples/s", global_batch=8192, batches=[1024, 3000], chips=["gaudi2"],
        precisions=["bf16"],
    )  # fmt: skip
    (row,) = found
    assert (row.cards, row.batch, row.accumulate, row.global_batch) == (1, 1024, 8, 8192)
    assert [(r.cards, r.accumulate) for r in found.scaling] == [(1, 8), (2, 4), (4, 2), (8, 1)]
    (why,) = found.left_out
    assert why.startswith("gaudi2, batch 3000, bf16: a global batch of 8,192 is no multiple of it")


@on_hpu
def test_what_does_not_fit_and_what_is_too_slow_are_left_out_with_the_reason() -> None:
    import habana_tf
    from habana_tf.tensorflow.dry_run.weightless import without_values

    with without_values():
        model = perceptron(2048, 4)
    asked = {"target": "100,000,000 examples/s", "precisions": ["fp32"], "most_cards": 2}
    found = habana_tf.plan(model, (1 << 20, 2048), optimizer="adam", **asked)
    reasons = {why.split(",")[0]: why for why in found.left_out}
    assert "GiB of 32.0 GiB: a batch of" in reasons["gaudi"] and "at most fits" in reasons["gaudi"]
    assert not found.rows and not found.scaling and "2 cards give" in reasons["gaudi3"]
    most = int(reasons["gaudi"].split("a batch of ")[1].split()[0].replace(",", ""))
    assert habana_tf.predict(model, (most, 2048), optimizer="adam", precision="fp32", chip="gaudi").fits
    slow = habana_tf.plan(model, (256, 2048), chips=["gaudi"], **asked)
    assert len(slow) == 0 and "2 cards give" in slow.left_out[0] and "examples/s at most" in slow.left_out[0]


@on_hpu
def test_hosts_that_give_too_little_take_more_boxes_and_the_cure_is_said() -> None:
    """Each box gets 100,000 examples a second: 250,000 take three of them."""
    import habana_tf

    given = {"target": "250,000 examples/s", "chips": ["gaudi3"], "precisions": ["bf16"]}
    fed = habana_tf.plan(perceptron(), (4096, 512), **given)
    found = habana_tf.plan(perceptron(), (4096, 512), host=habana_tf.Host(100_000), host_watts=1000, **given)
    assert fed.best().cards < 8 and found.best().cards == 24 and found.best().limits.input_bound
    assert found.best().watts == 24 * 900 + 3 * 1000
    assert "such pipelines on each host" in " ".join(str(found).split())
    assert json.loads(found.to_json())["rows"][0]["limits"]["input_bound"] is True


@on_hpu
def test_a_policy_of_mixed_precision_decides_alone() -> None:
    import habana_tf

    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = perceptron()
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    found = habana_tf.plan(model, (64, 512), target="1 examples/s", chips=["gaudi2"])
    assert [row.precision for row in found] == ["mixed_bfloat16"]


@on_hpu
def test_errors_say_what_to_do() -> None:
    import habana_tf

    for given, said in (
        ({"target": "soon"}, "write it like"),
        ({"target": "8 hours"}, "needs dataset_size="),
        ({"target": "8/s", "chips": ["tpu"]}, "use one of gaudi"),
        ({"target": "8/s", "most_cards": 5000}, "1 to 4,096 cards"),
        ({"target": "8/s", "batches": [0]}, "examples from 1 on"),
        ({"target": "8/s", "global_batch": 0}, "examples from 1 on"),
    ):
        try:
            habana_tf.plan(tf.nn.relu, (4, 4), **given)
        except ValueError as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)


@pytest.mark.rest
def test_a_script_is_planned_for(tmp_path: Path) -> None:
    from tests.dry_run.test_script import SCRIPT, planned

    (tmp_path / "train.py").write_text(SCRIPT)
    wrong = planned(tmp_path, "--target", "soon", "train.py")
    assert wrong.returncode == 2 and "write it like" in wrong.stderr
    done = planned(tmp_path, "--target", "2 hours", "--dataset-size", "100", "--json", "train.py")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {(row["chip"], row["precision"]) for row in rows} == {
        (chip, precision) for chip in ("gaudi", "gaudi2", "gaudi3") for precision in ("bf16", "fp32")
    }
    assert rows[0]["cards"] == 1 and rows[0]["hours"] < 2 and not (tmp_path / "trained").exists()
