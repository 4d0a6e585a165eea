"""`HabanaInstanceNormalization`: each image and channel normalized by itself.

Habana's: a Keras layer over one op of the card, with the contract of TensorFlow Addons' InstanceNormalization, which is
group normalization with one channel per group on the last axis.
Here: the same contract, computed by `habana_ops.habana_instance_norm`. `training` is taken and makes no difference.
Works on any device.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_frameworks.tensorflow.habana_ops import habana_instance_norm

__all__ = ["HabanaInstanceNormalization"]


@tf.keras.utils.register_keras_serializable(package="Habana")
class HabanaInstanceNormalization(tf.keras.layers.Layer):
    """Input: [batch, ..., channels] of rank 3 or more; output of the same shape. Weights gamma, beta: [channels].

    epsilon: added to the variance. center, scale: whether there is a beta, a gamma.
    """

    def __init__(
        self,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self._of = {
            "beta": (beta_initializer, beta_regularizer, beta_constraint),
            "gamma": (gamma_initializer, gamma_regularizer, gamma_constraint),
        }
        self.beta: Any = None
        self.gamma: Any = None

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 3 or input_shape[-1] is None:
            raise ValueError(
                f"{self.name}: an input [batch, ..., channels] of rank 3 or more with known channels is needed, "
                f"not {tuple(input_shape)}"
            )
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            initializer, regularizer, constraint = self._of[name]
            if wanted:
                weight = self.add_weight(
                    name=name, shape=(input_shape[-1],), initializer=tf.keras.initializers.get(initializer),
                    regularizer=tf.keras.regularizers.get(regularizer), constraint=tf.keras.constraints.get(constraint),
                )  # fmt: skip
                setattr(self, name, weight)
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        inputs = tf.cast(inputs, self.compute_dtype)
        beta = self.beta if self.center else tf.zeros(inputs.shape[-1])
        gamma = self.gamma if self.scale else tf.ones(inputs.shape[-1])
        y, *_ = habana_instance_norm(inputs, beta, gamma, self.epsilon)
        y.set_shape(inputs.shape)
        return y

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"epsilon": self.epsilon, "center": self.center, "scale": self.scale}
        for name, (initializer, regularizer, constraint) in self._of.items():
            for kind, module, value in (
                ("initializer", tf.keras.initializers, initializer),
                ("regularizer", tf.keras.regularizers, regularizer),
                ("constraint", tf.keras.constraints, constraint),
            ):
                config[f"{name}_{kind}"] = module.serialize(module.get(value))
        return {**super().get_config(), **config}
