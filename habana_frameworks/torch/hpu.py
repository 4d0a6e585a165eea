"""Habana's `habana_frameworks.torch.hpu`: the module `torch.hpu` under Habana's name, and its parts under theirs."""

import contextlib
import sys
from collections.abc import Iterator

from habana_tf.torch.device import (
    graphed,
    hpu,  # noqa: F401  libraries ask for `habana_frameworks.torch.hpu.hpu`, too
    memory,
    metrics,
    random,
    streams,
)
from habana_tf.torch.device.hpu import *  # noqa: F403
from habana_tf.torch.loader import load

load()

graphs, events = graphed, streams
for _name, _module in (
    ("graphs", graphs), ("memory", memory), ("metrics", metrics), ("random", random), ("streams", streams),
    ("events", events),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module


@contextlib.contextmanager
def sdp_kernel(enable_recompute: bool = False) -> Iterator[None]:
    """Chooses between Habana's kernels of FusedSDPA, which changes nothing here."""
    yield
