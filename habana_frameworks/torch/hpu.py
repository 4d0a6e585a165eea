"""Habana's `habana_frameworks.torch.hpu`: the module `torch.hpu` under Habana's name, and its parts under theirs."""

import sys

from habana_tf.torch.api import graphed, memory, metrics, random, streams
from habana_tf.torch.device import load
from habana_tf.torch.hpu import *  # noqa: F403

load()

graphs, events = graphed, streams
for _name, _module in (
    ("graphs", graphs), ("memory", memory), ("metrics", metrics), ("random", random), ("streams", streams),
    ("events", events),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module
