"""Makes TensorFlow's own mirrored strategies raise an error that names `HPUStrategy`.

`tf.distribute.MirroredStrategy()` and `tf.distribute.MultiWorkerMirroredStrategy()` look for GPUs and TPUs only, so
with HPU loaded they would train on the CPU without a word. A process has one card, so there is nothing to mirror
over either. A MirroredStrategy on named devices other than HPU works, and so do both when the program has hidden HPU
with `tf.config.set_visible_devices`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group


def _refusing_hpu(make: Callable[..., None]) -> Callable[..., None]:
    """`MirroredExtended.__init__`, which takes devices that are no HPU only."""

    @functools.wraps(make)
    def __init__(self: Any, container_strategy: Any, devices: Any = None, *args: Any, **kwargs: Any) -> None:
        if devices is None or any("HPU" in str(device).upper() for device in devices):
            _refuse(
                "MirroredStrategy",
                "to train on the CPU although HPU is loaded, name it: MirroredStrategy(['CPU:0'])",
            )
        make(self, container_strategy, devices, *args, **kwargs)

    return __init__


def _refusing_several(find: Callable[..., Any]) -> Callable[..., Any]:
    """`_initialize_local_devices` of MultiWorkerMirroredStrategy, which refuses HPU."""

    @functools.wraps(find)
    def _initialize_local_devices(self: Any, cluster_resolver: Any, worker_device: str) -> Any:
        _refuse(
            "MultiWorkerMirroredStrategy",
            "to train on the CPU, do not load HPU, or hide it: tf.config.set_visible_devices([], 'HPU')",
        )
        return find(self, cluster_resolver, worker_device)

    return _initialize_local_devices


def _refuse(name: str, otherwise: str) -> None:
    import tensorflow as tf

    if tf.config.get_visible_devices("HPU"):
        raise ValueError(
            f"tf.distribute.{name} knows no HPU. Use habana_frameworks.tensorflow.distribute.HPUStrategy, which is "
            "used like tf.distribute.MultiWorkerMirroredStrategy, with one card per process; for one card, "
            f"tf.distribute.OneDeviceStrategy('device:HPU:0') does too; {otherwise}"
        )


_PLACE = "tensorflow.python.distribute"
STRATEGIES = Group(
    "strategies",
    "MirroredStrategy and MultiWorkerMirroredStrategy train on the CPU without a word",
    (
        Change(f"{_PLACE}.mirrored_strategy", "MirroredExtended.__init__", _refusing_hpu),
        Change(
            f"{_PLACE}.collective_all_reduce_strategy",
            "CollectiveAllReduceExtended._initialize_local_devices",
            _refusing_several,
        ),
    ),
)
