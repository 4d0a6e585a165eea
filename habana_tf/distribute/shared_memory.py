"""Sums over workers that share a host go through shared memory.

What: when a strategy's workers all run on one host, its all-reduces of numbers become the op `HpuCollectiveReduce`
(kernels/runtime/exchange.h) in place of TensorFlow's `CollectiveReduceV2`, which sends every tensor through gRPC.

Why: for 100 MB, the gradients of a ResNet50, TensorFlow's ring takes seconds between two processes of one host.

How: the workers meet once, when the strategy is made, by TensorFlow's own collectives (`hardware/exchange.py`).

Invariants: all workers use it or none does; the order of exchanges is rank 0's; every worker gets the same bits.
A function needs one thread of TensorFlow's for all its sums. Functions with sums that several Python threads run at
the same time are not supported: TensorFlow numbers their collectives in the order of the calls, which differs between
workers, and here, other than on the ring, each waits with a thread of the pool.
`CommunicationOptions(implementation=RING)` asks for TensorFlow's ring, and gets it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import collective_util, cross_device_utils
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_library

from habana_tf.hardware import exchange as exchanges

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

    def gather(*numbers: int) -> Any:
        with tf.device("/device:CPU:0"):
            mine = tf.constant([numbers], tf.int64)
            return host_launcher._all_gather(mine, collective_util.Options()).numpy()

    return exchanges.meet(gather, rank, size, job, task, "gRPC")
