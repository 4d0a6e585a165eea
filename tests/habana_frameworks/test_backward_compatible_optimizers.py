"""Legacy optimizers by Habana's name, or an error that says where they went."""

from __future__ import annotations

import pytest
import tensorflow as tf

from habana_frameworks.tensorflow import backward_compatible_optimizers as optimizers
from tests.versions import KERAS_3


def test_adam() -> None:
    if KERAS_3:
        with pytest.raises(AttributeError, match=r"Keras 3 has none, use tf\.keras\.optimizers\.Adam"):
            _ = optimizers.Adam
    else:
        assert optimizers.Adam is tf.keras.optimizers.legacy.Adam
    with pytest.raises(AttributeError, match=r"NoSuchOptimizer: the Keras of TensorFlow .* has no such"):
        _ = optimizers.NoSuchOptimizer
