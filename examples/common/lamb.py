"""LAMB: Adam whose step in each layer is measured by the layer's weights. For Keras 2."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from common.lars import measured


class LAMB(tf.keras.optimizers.Optimizer):
    """Layer-wise adaptive moments (arXiv 1904.00962, algorithm 2), as BERT is trained with large batches.

    learning_rate: a number or a schedule. clip: all gradients together are made this long where they are longer, as
    the programs that train BERT do; None leaves them. Biases and normalisations take plain Adam's steps, without decay.
    """

    def __init__(
        self, learning_rate: Any, weight_decay: float = 0.01, beta_1: float = 0.9, beta_2: float = 0.999,
        epsilon: float = 1e-6, clip: float | None = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(name="LAMB", global_clipnorm=clip, jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon

    def build(self, var_list: Any) -> None:
        super().build(var_list)
        if not hasattr(self, "means"):
            self.means = [self.add_variable_from_reference(each, "mean") for each in var_list]
            self.squares = [self.add_variable_from_reference(each, "square") for each in var_list]

    def update_step(self, gradient: Any, variable: Any) -> None:
        rate = tf.cast(tf.convert_to_tensor(self.learning_rate), variable.dtype)
        at = tf.cast(self.iterations + 1, variable.dtype)
        value = tf.convert_to_tensor(variable)
        index = self._index_dict[self._var_key(variable)]
        mean, square = self.means[index], self.squares[index]
        mean.assign(self.beta_1 * mean + (1 - self.beta_1) * gradient)
        square.assign(self.beta_2 * square + (1 - self.beta_2) * tf.square(gradient))
        step = mean / (1 - self.beta_1**at) / (tf.sqrt(square / (1 - self.beta_2**at)) + self.epsilon)
        if measured(variable):
            step += self.decay * value
            length, long = tf.norm(value), tf.norm(step)
            rate *= tf.where((length > 0) & (long > 0), length / long, 1.0)
        variable.assign_sub(rate * step)
