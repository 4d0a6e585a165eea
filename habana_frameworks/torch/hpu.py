"""Habana's `habana_frameworks.torch.hpu`: the module `torch.hpu` under Habana's name, and its parts under theirs."""

import sys

from habana_tf.torch.device import (
    graphed,
    hpu,
    memory,
    metrics,
    random,
    streams,
)
from habana_tf.torch.device.hpu import *  # noqa: F403
from habana_tf.torch.device.hpu import _get_device_index as _get_device_index
from habana_tf.torch.loader import load

load()

graphs, events, _utils = graphed, streams, hpu
for _name, _module in (
    ("graphs", graphs), ("memory", memory), ("metrics", metrics), ("random", random), ("streams", streams),
    ("events", events), ("_utils", _utils),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module
