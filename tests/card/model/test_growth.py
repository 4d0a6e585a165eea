"""What grows with the batch: the largest that fits, by hand and against predictions for that batch."""

from __future__ import annotations

import pytest

from habana_tf.card.model.growth import Growth, largest
from tests.child import on_hpu


def test_the_peak_moves() -> None:
    """The update needs 50 and 1 per batch, the end of the forward pass 10 and 9: 5 batches are as much in either."""
    growth = Growth((100, 2), ((50, 1), (10, 9)))
    assert growth.nbytes(1) == 100 + 2 + 51 and growth.nbytes(5) == 100 + 10 + 55 == 165
    assert growth.nbytes(10) == 100 + 20 + 100


@pytest.mark.parametrize("room, examples", [(154, 5), (152, 2), (165, 20), (166, 20), (220, 40), (231, 44), (99, 0)])
def test_the_largest_that_fits(room: int, examples: int) -> None:
    """Known for 4 examples: 150 + 3 / 4 each up to 20 of them, behind that 110 + 11 / 4 each."""
    growth = Growth((100, 2), ((50, 1), (10, 9)))
    assert largest([growth], 4, room) == examples


def test_launches_of_a_step_add_up_and_what_does_not_grow_is_no_limit() -> None:
    one = Growth((0, 1), ())
    assert largest([one, one], 1, 10) == 5
    assert largest([Growth((7, 0), ((3, 0),))], 32, 10) == 32 and largest([Growth((7, 0), ())], 32, 6) == 0


@on_hpu
def test_it_is_what_a_prediction_for_that_batch_says() -> None:
    """From few examples and from many, for a network whose weights are large and for one whose activations are."""
    import tensorflow as tf

    import habana_tf
    from habana_tf.tensorflow.dry_run.weightless import without_values

    layers = tf.keras.layers
    with without_values():
        wide = tf.keras.Sequential([layers.Input((4096,)), *(layers.Dense(4096) for _ in range(4))])
        deep = tf.keras.Sequential(
            [layers.Input((64, 64, 3)), *(layers.Conv2D(32, 3, padding="same", activation="relu") for _ in range(6))]
        )
    for model, shape, optimizer in ((wide, (4096,), "adam"), (deep, (64, 64, 3), "momentum")):
        told = [
            habana_tf.predict(model, (batch, *shape), optimizer=optimizer, chip="gaudi").largest_batch()
            for batch in (16, 256)
        ]
        assert told[1] == pytest.approx(told[0], rel=0.03)
        there = habana_tf.predict(model, (told[1], *shape), optimizer=optimizer, chip="gaudi")
        assert 0.97 < there.hbm_bytes / there.step.chip.hbm_bytes < 1.03
