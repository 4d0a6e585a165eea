"""The transformer engine by the name of its package of newer releases: see `habana_tf.torch.transformer_engine`. It is
installed at the top, where scripts import it from."""

from habana_tf.torch.transformer_engine.names import publish

publish(globals())
