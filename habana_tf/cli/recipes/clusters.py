"""Reads the cluster that a recipe was compiled from, with the front end that wrote it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.cluster.cluster import Cluster


def reader(entry: Entry) -> Callable[[bytes], Cluster]:
    """What makes a cluster of an entry's section. Raises ImportError where that takes TensorFlow and it is missing; a
    cluster of PyTorch's takes nothing."""
    if entry.header.get("framework") == "PyTorch":
        from habana_tf.torch.record.program import TorchCluster

        return TorchCluster.read
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # its start would stand between the lines of the answer
    importlib.import_module("tensorflow")
    from habana_tf.tensorflow.clusters.cluster import parse

    return parse
