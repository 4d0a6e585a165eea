"""Habana's `habana_frameworks.torch.hpu`: the module `torch.hpu` under Habana's name, and its parts under theirs."""

import sys

from habana_tf.torch.api import graphed, memory, metrics, random, streams
from habana_tf.torch.device import load
from habana_tf.torch.hpu import *  # noqa: F403

load()

sys.modules.update({
    f"{__name__}.{name}": module
    for name, module in (
        ("graphs", graphed), ("memory", memory), ("metrics", metrics), ("random", random), ("streams", streams),
        ("events", streams),
    )
})  # fmt: skip
