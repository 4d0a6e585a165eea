"""Habana's `habana_frameworks.torch.dynamo.compile_backend.config`: one module under both names, so that what a
program sets in it is read."""

import sys

from habana_tf.torch import compile_config

sys.modules[__name__] = compile_config
