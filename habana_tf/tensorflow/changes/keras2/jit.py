"""Makes Keras 2 accept `jit_compile=True`.

Keras 2 refuses it with a warning if TensorFlow has any device of a plugin. If HPU is the only such device, it is
accepted, as in Keras 3: HPU compiles what it marks (`xla.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from habana_tf.host_changes.change import Group
from habana_tf.tensorflow.changes.keras2.packages import ONLY, changes


def _beside_hpu(check: Callable[[bool], bool]) -> Callable[[bool], bool]:
    """Keras 2's check of `jit_compile=True`, which HPU passes. Keras' optimizers ask it too, but for a GPU as well."""

    def can_jit_compile(warn: bool = False) -> bool:
        from tensorflow.python import pywrap_tfe

        kinds = {name.rsplit(b":", 2)[-2] for name in pywrap_tfe.TF_ListPluggablePhysicalDevices()}
        return kinds == {b"HPU"} or check(warn)

    return can_jit_compile


JIT = Group(
    "keras2_jit",
    "Keras refuses jit_compile=True with a warning, and the attribute reads False",
    changes("utils.tf_utils", "can_jit_compile", _beside_hpu),
    only=ONLY,
)
