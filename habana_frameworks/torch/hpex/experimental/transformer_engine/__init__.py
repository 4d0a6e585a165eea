"""Habana's modules that compute in 8 bits: see `habana_tf.torch.transformer_engine`."""

from habana_tf.torch.transformer_engine.names import publish

publish(globals())
