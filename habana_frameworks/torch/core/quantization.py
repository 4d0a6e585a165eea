"""What prepares a model for inference, under the name that Habana has it by since release 1.12."""

from habana_tf.torch.core import check_params_as_const as _check_params_as_const
from habana_tf.torch.core import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from habana_tf.torch.core import mark_params_as_const as _mark_params_as_const

__all__ = [
    "_check_params_as_const", "_mark_params_as_const", "hpu_inference_initialize", "hpu_inference_set_env",
    "hpu_initialize", "hpu_reset_env", "hpu_set_env", "hpu_set_inference_env", "hpu_teardown_inference_env",
]  # fmt: skip
