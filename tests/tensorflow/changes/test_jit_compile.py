"""`compile()` of Keras beside HPU, and what it makes of `jit_compile`."""

from __future__ import annotations

import pytest

from tests.child import python
from tests.versions import KERAS_3

KERAS3 = """
import keras, numpy as np, tensorflow as tf
x, y = np.ones([8, 3], np.float32), np.zeros([8, 1], np.float32)
import habana_tf
habana_tf.load_habana_module()
model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
"""


@pytest.mark.skipif(KERAS_3, reason="the check is Keras 2's")
def test_keras_2_takes_jit_compile_and_the_setting_opts_out() -> None:
    script = """
import habana_tf
habana_tf.load_habana_module()
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
model.compile("sgd", "mse", jit_compile=True)
print(model.jit_compile, model.optimizer.jit_compile)
model.jit_compile = False
model.jit_compile = True
print(model.jit_compile)
from habana_tf.tensorflow import changes
changes.undo()
model.compile("sgd", "mse", jit_compile=True)
print(model.jit_compile)
"""
    done = python(script, imported=True)
    assert done.stdout.split() == ["True", "False", "True", "False"]
    assert done.stderr.count("is not supported on your system") == 1
    assert python(script, imported=True, HABANA_SIM_CHANGES="-keras2_jit").stdout.split() == ["False"] * 4


@pytest.mark.skipif(not KERAS_3, reason="the trap is Keras 3's")
def test_a_plain_keras_3_compile_does_not_choose_xla() -> None:
    done = python(
        KERAS3
        + """
model.compile("sgd", "mse")
assert model.jit_compile is False
model.compile("sgd", "mse", jit_compile=True)
model.fit(x, y, verbose=0)
from habana_tf.tensorflow import changes
changes.undo()
model.compile("sgd", "mse")
assert model.jit_compile is True
""",
        imported=True, HABANA_SIM_LOG="info",
    )  # fmt: skip
    assert done.stderr.count("jit_compile='auto' is taken as False") == 1


@pytest.mark.skipif(not KERAS_3, reason="the trap is Keras 3's")
def test_keras_3_imported_after_loading_is_wrapped_too_and_the_setting_opts_out() -> None:
    script = """
import habana_tf
habana_tf.load_habana_module()
import keras
model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
print(model.jit_compile)
"""
    assert python(script).stdout.split() == ["False"]
    assert python(script, HABANA_SIM_CHANGES="-keras3_jit").stdout.split() == ["True"]
