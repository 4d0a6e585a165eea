"""One gRPC server per process, shared by all its strategies: TensorFlow can neither end nor change one it has started.

What: the first strategy of a cluster starts the server; every later one of the same cluster (a fold, a notebook's cell
run again, one strategy to train and one to evaluate) goes on with it, and with the same context of TensorFlow: what was
made under the earlier strategies goes on working. Another cluster, or none, is an error that says so.

Why not TensorFlow's own way, which is to enable collectives once more on the living context: it warns that tensors made
before may fail, gathers all devices anew, and lets the collectives of every strategy begin at the same keys, so that
two strategies in one function could take each other's.

Invariants: all workers make their strategies in the same order, as they run the same steps: the numbers that tell
groups of collectives apart are counted here, from the start of the server. And all strategies take the ordering tokens
of the first: TensorFlow runs a function's collectives of one token in the order in which they were made, so that one
thread is enough for those of several strategies too (a sum through shared memory keeps its thread while it waits).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.python.distribute import multi_worker_util
from tensorflow.python.eager import context

from habana_tf.distribute.launcher_cluster import ClusterError
from habana_tf.tensorflow.changes.context import rebuild

_KEYS = 1000
"""Group keys of a strategy. It takes one per set of local devices: HPU, CPU."""

_joined = 0
_tokens: dict[str, Any] = {}
"""By device the variable that orders its collectives."""


def server() -> Any | None:
    """The ServerDef of the server that runs in this process, None when no strategy has started one."""
    current = context.context()
    return current._collective_ops_server_def if current._initialized else None


def prepare() -> None:
    """Lets the next strategy start a server: TensorFlow takes a cluster only as at program start-up."""
    global _joined
    rebuild()
    _joined = 0
    _tokens.clear()
    current = context.context()  # what a strategy without a cluster has set, or one that could not start
    current._collective_leader = current._collective_ops_server_def = current._coordination_service_config = None


def require(cluster_resolver: Any) -> None:
    """Raises ClusterError unless a resolver describes the task of the cluster that is served."""
    runs = server()
    assert runs is not None
    spec = multi_worker_util.normalize_cluster_spec(cluster_resolver.cluster_spec())
    task, index = cluster_resolver.task_type, cluster_resolver.task_id
    if (spec.as_cluster_def(), task, index) == (runs.cluster, runs.job_name, runs.task_index):
        return
    this = _told(type(spec)(runs.cluster), runs.job_name, runs.task_index)
    raise ClusterError(
        f"this process is {this}, since it made its first HPUStrategy: TensorFlow cannot make it "
        f"{_told(spec, task, index) if spec.jobs else 'one without a cluster'}. Start another process for that; to "
        "use this one's card by itself, take tf.distribute.OneDeviceStrategy('device:HPU:0')"
    )


def _told(spec: Any, task: str | None, index: int | None) -> str:
    return f"/job:{task}/task:{index} of the cluster {spec.as_dict()}"


def order(launchers: Iterable[Any]) -> None:
    """Gives a strategy's launchers of collectives the ordering tokens of their devices; in a graph there are none."""
    for each in launchers:
        if each._ordering_token is not None:
            each._ordering_token = _tokens.setdefault(each._device, each._ordering_token)


def keys() -> int:
    """The number before the first group key of a strategy that joins the running server: nobody else's keys."""
    global _joined
    _joined += 1
    return _joined * _KEYS
