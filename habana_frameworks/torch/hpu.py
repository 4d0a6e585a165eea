"""Habana's `habana_frameworks.torch.hpu`: the module `torch.hpu` under Habana's name."""

from habana_tf.torch.device import load
from habana_tf.torch.hpu import *  # noqa: F403

load()
