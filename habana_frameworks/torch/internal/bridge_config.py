"""Habana's `habana_frameworks.torch.internal.bridge_config`: settings by functions, `get_pt_hpu_lazy_mode()` and its
like."""

from habana_tf.torch.bridge_config import __getattr__ as __getattr__
from habana_tf.torch.bridge_config import env_setting

__all__ = ["env_setting"]
