"""Predicts the card's time of one launch of a cluster for given shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.card.model.cluster_time import ClusterTime, cluster_time
from habana_tf.card.model.lowered import Lowered, lowered
from habana_tf.card.model.parameters import LATEST_FITTED
from habana_tf.cluster.cluster import Cluster
from habana_tf.hardware.chips import Chip


def launch_time(
    chip: Chip, cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]
) -> tuple[Lowered, ClusterTime]:
    """The cluster lowered for these sizes, and its units of work with when each is done, in seconds.

    shapes, values: of its inputs; of values those that fix a shape. Raises what `cluster.lower.lower` raises.
    """
    made = lowered(cluster, shapes, values)
    return made, cluster_time(chip, made.program, frozenset(made.made.values()), LATEST_FITTED)
