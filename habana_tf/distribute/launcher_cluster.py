"""Describes the ranks that MPI or SLURM started as a TensorFlow cluster (hosts and ports), when nothing else does.

`HPUStrategy()` under `mpirun -np 4` or `srun -n 4`, without TF_CONFIG and without a resolver, has one worker per rank;
TensorFlow's own strategy would train four times separately, without a message. Every rank computes the same table: the
hosts in order, a port per rank. That needs hosts filled one after the other; ranks distributed in turn are an error.
"""

from __future__ import annotations

import errno
import socket
import zlib
from typing import Any

from habana_tf import settings
from habana_tf.hardware.ranks import Ranks, launched

_FIRST_PORT, _PORTS = 10000, 20000
"""Below the ports that Linux gives to outgoing connections (net.ipv4.ip_local_port_range: from 32768)."""


class ClusterError(RuntimeError):
    """This process cannot be a worker of its cluster; the message says what to do."""


def resolver(listens: bool = False) -> Any | None:
    """A cluster resolver with one worker per rank, or None for a program that is alone.

    listens: this process has its server on the port already.
    Raises ClusterError when the hosts or their order are not known, or another program has the port of this rank.
    """
    ranks = launched()
    if ranks is None or ranks.size == 1:
        return None
    import tensorflow as tf

    hosts, first = _hosts(ranks), _first_port(ranks)
    workers = [f"{hosts[rank // ranks.local_size]}:{first + rank}" for rank in range(ranks.size)]
    if not listens:
        _require_free(first + ranks.rank)
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": workers}), task_type="worker", task_id=ranks.rank, rpc_layer="grpc"
    )


def _hosts(ranks: Ranks) -> tuple[str, ...]:
    """The hosts, in the order in which the launcher filled them, as many ranks on each."""
    if ranks.size % ranks.local_size or ranks.rank % ranks.local_size != ranks.local_rank:
        raise ClusterError(
            f"rank {ranks.rank} of {ranks.size} has local rank {ranks.local_rank} of {ranks.local_size}: the hosts "
            "were not filled one after the other with as many ranks each, so it is not known which rank is where. "
            "Start the job so (mpirun --map-by slot, srun --distribution=block), or describe the cluster in TF_CONFIG"
        )
    count = ranks.size // ranks.local_size
    if count == 1:
        return ("localhost",)
    named = settings.MULTI_HLS_IPS.get()
    if not named and settings.SLURM_STEP_NODELIST.get() is not None:
        from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver

        named = tuple(slurm_cluster_resolver.expand_hostlist(settings.SLURM_STEP_NODELIST.get()))
    if len(named) != count:
        raise ClusterError(
            f"rank {ranks.rank} of {ranks.size}: the job runs on {count} hosts, but {len(named)} are named. Set "
            f"{settings.MULTI_HLS_IPS.name} to the addresses of all hosts, in the order of the ranks, or describe the "
            "cluster in TF_CONFIG"
        )
    return named


def _first_port(ranks: Ranks) -> int:
    """The port of rank 0. Jobs have different ones, by the name that the launcher gave them."""
    chosen = settings.HABANA_SIM_PORT_BASE.get()
    if chosen is not None:
        return chosen
    job = [setting.get() for setting in (settings.PMIX_NAMESPACE, settings.SLURM_JOB_ID, settings.SLURM_STEP_ID)]
    return _FIRST_PORT + zlib.crc32(repr((job, ranks.size)).encode()) % _PORTS


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ClusterError(
                f"port {port} of this host, which would be this worker's, is taken by another program: set "
                f"{settings.HABANA_SIM_PORT_BASE.name} to the first of as many free ports as there are workers, the "
                "same for all of them"
            ) from error
