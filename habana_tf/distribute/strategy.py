"""`HPUStrategy`: synchronous training with one card per process.

What: TensorFlow's multi-worker strategy (`tf.distribute.MultiWorkerMirroredStrategy`) whose local device is HPU:0.
Scripts use it as that class: `scope()`, `run`, `reduce`, Keras' `compile` and `fit`, batches of the global size.

Why a subclass: TensorFlow's own counts GPUs and TPUs only and would silently train on the CPU. Nothing else of it
has to change, so many workers are the same class with another cluster.

Invariants:
- the variables made under the scope and the steps run by the strategy are on HPU:0, or making the strategy fails;
- workers that share a host exchange through shared memory (`shared_memory.py`), others as in TensorFlow;
- a process has exactly one replica: its card. Other workers' devices are never counted;
- with one worker there is no partial-batch handling: no worker can run out of data before another, so the
  conditionals that stock TensorFlow wraps around every input and every batch normalization have nothing to decide.
  A smaller last batch is trained on as it is; the end of the data ends the epoch. With several workers they stay,
  because there an uneven end would hang the collectives;
- one worker reads its data sets as they are: stock TensorFlow's iterator over several devices brings a batch through
  a thread and a remote call to reach the one device there is, which takes longer than a step of a small net.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy as stock
from tensorflow.python.distribute import collective_util, distribute_lib

from habana_tf import loader
from habana_tf.distribute import grpc_server, launcher_cluster, shared_memory


class HPUStrategy(stock.CollectiveAllReduceStrategy):
    """One worker per card; gradients are summed over the workers.

    cluster_resolver: a `tf.distribute.cluster_resolver.ClusterResolver`; None reads TF_CONFIG, and without that
        the ranks of mpirun or srun. Without any of them there is one worker, this process.
    communication_options: a `tf.distribute.experimental.CommunicationOptions`.
    Loads the HPU if `load_habana_module()` was not called before; raises what that raises, and launched.ClusterError.
    A process may make several of one cluster (`grpc_server.py`), in the same order on all workers.
    """

    def __init__(self, cluster_resolver: Any = None, communication_options: Any = None) -> None:
        loader.load_habana_module()
        resolver = cluster_resolver or tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if cluster_resolver is None and not resolver.cluster_spec().as_dict():
            resolver = launcher_cluster.resolver(listens=grpc_server.server() is not None) or resolver
        if grpc_server.server() is not None:
            grpc_server.require(resolver)
        elif resolver.cluster_spec().as_dict():
            grpc_server.prepare()
        with _without_startup_warnings():
            extended = _HPUExtended(self, resolver, communication_options or collective_util.Options())
            distribute_lib.Strategy.__init__(self, extended)


class _HPUExtended(stock.CollectiveAllReduceExtended):
    """What the strategy does: everything as in TensorFlow, on HPU:0."""

    def _initialize_multi_worker(self, cluster_resolver: Any) -> None:
        server = grpc_server.server()
        if server is not None:
            self._std_server_started = True
            self._enable_check_health = not server.default_session_config.experimental.coordination_config.service_type
            self._collective_key_base = grpc_server.keys()
        super()._initialize_multi_worker(cluster_resolver)
        if self._num_workers < 2 or not tf.executing_eagerly():  # an estimator's workers cannot meet: they use the ring
            return
        (host,) = self._host_cross_device_ops._launchers
        exchange = shared_memory.meet(host, self._id_in_cluster, self._num_workers, self._task_type, self._task_id)
        if exchange is not None:
            several = self._cross_device_ops
            several._launchers = [shared_memory.Launcher(each, exchange) for each in several._launchers]
        grpc_server.order([host, *self._cross_device_ops._launchers])

    def _initialize_local_devices(self, cluster_resolver: Any, worker_device: str) -> tuple[tuple[str, ...], str]:
        return (f"{worker_device}/device:HPU:0",), "HPU"

    @property
    def enable_partial_batch_handling(self) -> bool:
        """Read by tf.data's distributed iterators and by Keras 2's batch normalization."""
        return bool(self._num_workers > 1)

    def _experimental_distribute_dataset(self, dataset: Any, options: Any) -> Any:
        if self._is_alone(options) and isinstance(dataset, tf.data.Dataset):
            return dataset
        return super()._experimental_distribute_dataset(dataset, options)

    def _distribute_datasets_from_function(self, dataset_fn: Any, options: Any) -> Any:
        if self._is_alone(options):
            return dataset_fn(self._make_input_context())
        return super()._distribute_datasets_from_function(dataset_fn, options)

    def _is_alone(self, options: Any) -> bool:
        """Whether all data is this process's. options: tf.distribute.InputOptions, which TensorFlow's classes obey."""
        alone = self._num_workers == 1 and options is None
        return alone and tf.compat.v1.executing_eagerly_outside_functions()


@contextlib.contextmanager
def _without_startup_warnings() -> Iterator[None]:
    """Drops TensorFlow's remarks that the strategy is made after start-up: HPU is always loaded before it."""
    logger = logging.getLogger("tensorflow")

    def keep(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_STARTUP_REMARKS)

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


_STARTUP_REMARKS = (
    "Collective ops is not configured at program startup",
    "Enabling collective ops after program startup",
)
