"""LARS: each layer's step is measured by its weights. For Keras 2."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

UNMEASURED = ("bias", "gamma", "beta")
"""Variables with these words in their names take plain steps, without weight decay."""


def measured(variable: Any) -> bool:
    """Whether the steps of a variable are measured by its weights, which also decay."""
    return not any(word in variable.name.rpartition("/")[2] for word in UNMEASURED)


class LARS(tf.keras.optimizers.Optimizer):
    """Layer-wise adaptive rate scaling with momentum (arXiv 1708.03888), as ResNet-50 is trained with large batches.

    learning_rate: a number or a schedule. trust: how long a step is at a rate of 1, in lengths of the layer's weights.
    """

    def __init__(
        self, learning_rate: Any, weight_decay: float = 5e-5, momentum: float = 0.9, trust: float = 0.001
    ) -> None:
        super().__init__(name="LARS", jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.decay, self.momentum, self.trust = weight_decay, momentum, trust

    def build(self, var_list: Any) -> None:
        super().build(var_list)
        if not hasattr(self, "momenta"):
            self.momenta = [self.add_variable_from_reference(each, "momentum") for each in var_list]

    def update_step(self, gradient: Any, variable: Any) -> None:
        rate = tf.cast(tf.convert_to_tensor(self.learning_rate), variable.dtype)
        value = tf.convert_to_tensor(variable)
        if measured(variable):
            length, slope = tf.norm(value), tf.norm(gradient)
            ratio = self.trust * length / (slope + self.decay * length + 1e-9)
            rate = rate * tf.where((length > 0) & (slope > 0), ratio, 1.0)
            gradient += self.decay * value
        kept = self.momenta[self._index_dict[self._var_key(variable)]]
        kept.assign(self.momentum * kept + rate * gradient)
        variable.assign_sub(kept)
