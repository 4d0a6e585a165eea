"""Sums over workers that share a host go through shared memory.

What: when a strategy's workers all run on one host, its all-reduces of numbers become the op `HpuCollectiveReduce`
(kernels/runtime/exchange.h) in place of TensorFlow's `CollectiveReduceV2`, which sends every tensor through gRPC.

Why: for 100 MB, the gradients of a ResNet50, TensorFlow's ring takes seconds between two processes of one host.

How: the workers meet once, when the strategy is made, by TensorFlow's own collectives: each says where it is (host,
simulated machine, name space of processes, user). When all are in the same place, rank 0 makes memory without a name,
and the others join it through rank 0's descriptor: nothing is left behind, however and whenever they end.

Invariants: all workers use it or none does; the order of exchanges is rank 0's; every worker gets the same bits.
A function needs one thread of TensorFlow's for all its sums. Functions with sums that several Python threads run at
the same time are not supported: TensorFlow numbers their collectives in the order of the calls, which differs between
workers, and here, other than on the ring, each waits with a thread of the pool.
`CommunicationOptions(implementation=RING)` asks for TensorFlow's ring, and gets it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_util, cross_device_utils
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_library

from habana_tf.hardware import machine

_log = logging.getLogger("habana_tf")
_SUMMED = frozenset({tf.float32, tf.float64, tf.bfloat16, tf.int64})


class Launcher(cross_device_utils.CollectiveReplicaLauncher):
    """TensorFlow's launcher of collectives, with another all-reduce."""

    def __init__(self, stock: Any, exchange: int) -> None:
        super().__init__(stock._group_key, stock._group_size, stock._collective_keys, stock._device, stock._options)
        self._exchange = exchange

    def all_reduce(self, input_tensor: Any, control_input: Any = None, options: Any = None) -> Any:
        """The sum over all workers; same shape and type on all of them."""
        merged = self._options.merge(options)
        asked = merged.implementation
        if tf.as_dtype(input_tensor.dtype) not in _SUMMED or asked != collective_util.CommunicationImplementation.AUTO:
            return super().all_reduce(input_tensor, control_input, options)
        key = self._next_instance_key()
        token = self._get_ordering_token()
        with tf.device(self._device), self._control_input(control_input):
            x = tf.convert_to_tensor(input_tensor)
            return _sum(x, key, [] if token is None else [token], self._exchange, merged.timeout_seconds or 0.0)


def _sum(x: Any, key: Any, tokens: list[Any], exchange: int, timeout_seconds: float) -> Any:
    if context.executing_eagerly():
        attributes = ("T", x.dtype.as_datatype_enum, "Nordering_token", len(tokens), "exchange", exchange,
                      "timeout_seconds", timeout_seconds)  # fmt: skip
        (total,) = execute.execute(b"HpuCollectiveReduce", 1, [x, key, *tokens], attributes, context.context())
        return total
    _, _, op, _ = op_def_library._apply_op_helper(
        "HpuCollectiveReduce", input=x, instance_key=key, ordering_token=tokens, exchange=exchange,
        timeout_seconds=timeout_seconds,
    )  # fmt: skip
    return op.outputs[0]


def meet(host_launcher: Any, rank: int, size: int, job: str, task: int) -> int | None:
    """The number of the exchange that all workers have joined, or None when they cannot share memory.

    host_launcher: TensorFlow's launcher of collectives between the hosts of the workers.
    job, task: what TensorFlow calls this worker; errors name it so. A chief is rank 0, the first worker then rank 1.
    """
    from habana_tf._native import _bridge

    def gather(*numbers: int) -> Any:
        with tf.device("/device:CPU:0"):
            mine = tf.constant([numbers], tf.int64)
            return host_launcher._all_gather(mine, collective_util.Options()).numpy()

    met = gather(_place(), os.getpid())
    if not np.all(met[:, 0] == met[0, 0]):
        return None
    exchange, descriptor, trouble = None, -1, ""
    try:
        if rank == 0:
            exchange, descriptor = _bridge.make_exchange(size, job, task)
    except RuntimeError as error:
        trouble = str(error)
    try:
        made = int(gather(descriptor)[0, 0])
        try:
            if rank != 0 and made >= 0:
                exchange = _bridge.join_exchange(f"/proc/{met[0, 1]}/fd/{made}", rank, size, job, task)
        except RuntimeError as error:
            trouble = str(error)
        joined = bool(np.all(gather(int(exchange is not None))))
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if trouble:
        _log.warning("workers of one host exchange gradients through gRPC, which is slow: %s", trouble)
    return exchange if joined else None


def _place() -> int:
    """A number that is equal for processes of one simulated machine that can share memory and see each other's ids."""
    host = Path("/proc/sys/kernel/random/boot_id").read_text()
    what = (host, os.getuid(), os.stat("/proc/self/ns/pid").st_ino, machine.directory())
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "little", signed=True)
