"""Habana's `habana_frameworks.torch.utils.lib_utils`: what kernels of one's own are built with.

Those of Habana are built by its TPC compiler; here `habana-tf build-kernel` builds kernels in C (docs/custom-ops.md).
"""

from habana_frameworks.tensorflow.sysconfig import get_include_dir, get_lib_dir

__all__ = ["get_include_dir", "get_lib_dir"]
