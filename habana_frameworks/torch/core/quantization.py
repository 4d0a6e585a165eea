"""What prepares a model for inference, under the name that Habana has it by since release 1.12."""

from habana_tf.torch.core import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)

__all__ = [
    "hpu_inference_initialize", "hpu_inference_set_env", "hpu_initialize", "hpu_reset_env", "hpu_set_env",
    "hpu_set_inference_env", "hpu_teardown_inference_env",
]  # fmt: skip
