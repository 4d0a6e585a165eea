"""Habana's `habana_frameworks.torch.core`, by custom imported as htcore."""

from habana_frameworks.torch import hpu
from habana_frameworks.torch.core import quantization, weight_sharing
from habana_frameworks.torch.utils.internal import is_lazy
from habana_tf.torch.core import (
    add_step_closure,
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
    is_enabled_weight_permute_pass,
    iter_mark_step,
    mark_step,
)

__all__ = [
    "add_step_closure", "hpu", "hpu_inference_initialize", "hpu_inference_set_env", "hpu_initialize", "hpu_reset_env",
    "hpu_set_env", "hpu_set_inference_env", "hpu_teardown_inference_env", "is_enabled_weight_permute_pass",
    "is_lazy", "iter_mark_step", "mark_step", "quantization", "weight_sharing",
]  # fmt: skip
