"""`HabanaLayerNormalization`: Keras' layer normalization as one layer of Habana's.

Habana's: a Keras layer over one op of the card, with the contract of `tf.keras.layers.LayerNormalization`; it worked on
Gaudi only.
Here: the same arguments, weights, checkpoints and numbers as Keras' layer, so a model may change from one to the other.
Computed by `habana_ops.habana_layer_norm` as reductions and one elementwise pass, which is a single bundle for the
graph compiler. Works on any device.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_frameworks.tensorflow.habana_ops import habana_layer_norm, habana_layer_norm_grad

__all__ = ["HabanaLayerNormalization"]


@tf.keras.utils.register_keras_serializable(package="Habana")
class HabanaLayerNormalization(tf.keras.layers.LayerNormalization):
    """Arguments: axis=-1, epsilon=1e-3, center=True, scale=True, and initializers, regularizers and constraints of
    beta and gamma, as `tf.keras.layers.LayerNormalization`. Input: any shape with known extents on `axis`."""

    def call(self, inputs: Any) -> Any:
        inputs = tf.cast(inputs, self.compute_dtype)
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        beta = self.beta if self.center else tf.zeros(())
        gamma = self.gamma if self.scale else tf.ones(())
        y, _, _ = habana_layer_norm(inputs, beta, gamma, axes, self.epsilon)
        y.set_shape(inputs.shape)
        return y


def _HabanaLayerNorm(op: Any, *grads: Any) -> tuple[Any, Any, Any]:
    """The gradients of Habana's raw op for its inputs x, beta and gamma, as `tf.RegisterGradient` wants them.

    op: a node with inputs (x, beta, gamma), outputs (y, mean, istd) and attributes epsilon and axes. grads: of the
    three outputs; only the first counts. Nothing here makes such nodes, as `habana_layer_norm` is made of TensorFlow's
    ops: this is for scripts that take the function by name, for an op of their own.
    """
    return habana_layer_norm_grad(
        op.inputs[0], grads[0], op.outputs[1], op.outputs[2], op.inputs[2], op.get_attr("epsilon"), op.get_attr("axes")
    )
