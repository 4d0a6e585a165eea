"""What the card's rows rest on: the model, asked with what a launch was made of; and names that a user knows."""

from __future__ import annotations

from typing import Any

import pytest

from habana_tf.card.model.parameters import FITTED, LATEST_FITTED
from habana_tf.card.timeline.card import basis, label
from habana_tf.hardware.chips import chip, chips
from tests.child import on_hpu


def _programs(work: Any) -> list[Any]:
    """What the runtime launched while some work was done, with all that is known of it."""
    from habana_tf.card.timeline.record import EventKind, TimelineRecording
    from habana_tf.resolver import programs

    recording = TimelineRecording()
    work()
    record = recording.read()
    recording.stop()
    return [programs.find(n) for n in dict.fromkeys(e.subject for e in record.events(EventKind.LAUNCH))]


def _step() -> tuple[Any, Any]:
    """A training step, and an input for it."""
    import tensorflow as tf

    w = tf.Variable(tf.ones([512, 256]), name="weights")

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_mean(tf.nn.softmax(tf.matmul(x, w, name="net/product"), name="net/soft") ** 2)
        w.assign_sub(0.01 * tape.gradient(y, w))
        return y

    return step, tf.ones([128, 512])


@on_hpu
def test_a_launch_that_ran_is_predicted_as_from_shapes_alone() -> None:
    from habana_tf.card.model.cluster_time import cluster_time
    from habana_tf.card.timeline.card import card_launch
    from habana_tf.tensorflow.dry_run.foreseen import foresee

    step, x = _step()
    step(x)
    (made,) = _programs(lambda: step(x))
    (alone,) = foresee(step.get_concrete_function(x)).launches
    for known in chips():
        found = card_launch(made, known)
        time = cluster_time(known, alone.program, frozenset(alone.made.values()), LATEST_FITTED)
        assert found.seconds == pytest.approx(time.seconds) and not found.why
        assert found.hidden == pytest.approx(time.hidden * found.drawn) or found.drawn < 1
        assert len(found.intervals) == len(time.units)


@on_hpu
def test_units_have_the_names_of_ops_and_stand_in_their_bundles() -> None:
    from habana_tf.card.timeline.card import card_launch

    step, x = _step()
    step(x)
    (made,) = _programs(lambda: step(x))
    found = card_launch(made, chip("gaudi2"))
    products = [i for i in found.intervals if i.engine == "MME"]
    assert [i.name for i in products] == ["net/product", "gradient_tape/net/product/MatMul"]
    assert products[0].flops == products[1].flops == 2 * 128 * 512 * 256
    assert any(i.name == "net/soft" for i in found.intervals)
    for i in found.intervals:
        bundle = found.bundles[i.bundle]
        assert bundle.start <= i.start and i.start + i.seconds <= bundle.start + bundle.seconds + 1e-12
        assert f"{i.op} {i.name}" in i.ops or i.op == "inputs"
    assert max(i.start + i.seconds for i in found.intervals) == pytest.approx(found.seconds)
    fed = 4 * (128 * 512 + 512 * 256)
    assert found.use[0].at == 0.0 and min(u.hbm for u in found.use) >= fed
    assert sorted(r.nbytes for r in found.results) == [4]  # the loss; what the variable becomes is none


@on_hpu
def test_an_interpreted_program_is_predicted_and_a_strange_one_says_why() -> None:
    from dataclasses import replace

    from habana_tf.card.timeline.card import card_launch

    step, x = _step()
    step(x)
    (made,) = _programs(lambda: step(x))
    interpreted = replace(made, rows=b"", buffers=[])
    assert interpreted.kernels() == []
    assert card_launch(interpreted, chip("gaudi2")) == card_launch(made, chip("gaudi2"))
    wrong = replace(made, shapes=tuple((3,) * len(shape) for shape in made.shapes))
    found = card_launch(wrong, chip("gaudi2"))
    assert found.seconds == 0.0 and not found.intervals
    assert "cannot be lowered" in found.why and "do not broadcast" in found.why


def test_the_basis_names_chip_and_parameters() -> None:
    for known in chips():
        said = basis(known)
        assert known.name in said and f"{1 - FITTED.hidden:.0%} of the second" in said
        assert f"{FITTED.launch * 1e6:.2g} µs" in said


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
