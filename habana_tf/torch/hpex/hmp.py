"""Habana's mixed precision of before autocast: casts that stay on from `convert` to the end of the program.

It is autocast with other lists, without a context: O1 runs one list of ops in bf16 and one in fp32, O2 only products in
bf16 and all else in fp32.
"""

from __future__ import annotations

import logging

import torch

from habana_tf.torch.device import autocast
from habana_tf.torch.device.autocast import CastPolicy, policies, read_list
from habana_tf.torch.loader import load

log = logging.getLogger("habana_tf")

BF16 = ("addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv")
"""Ops that run in bf16 unless a file says others."""
FP32 = ("batch_norm", "cross_entropy", "log_softmax", "nll_loss", "softmax", "topk")
"""Ops that run in fp32 unless a file says others."""
_FORMS = {"addmm": ("linear",), "bmm": ("matmul", "baddbmm"), "mm": ("matmul", "linear")}
"""By a product, the ops under which PyTorch's modules call it."""


def convert(opt_level: str = "O1", bf16_file_path: str = "", fp32_file_path: str = "", isVerbose: bool = False) -> None:
    """Has ops run in mixed precision from now on, in this thread.

    opt_level: O1 or O2. bf16_file_path, fp32_file_path: files that replace O1's lists, one op a line. isVerbose: says
    the lists, and each op when it is first cast. Raises ValueError for another level and OSError for a file that cannot
    be read.
    """
    if opt_level not in ("O1", "O2"):
        raise ValueError(f"hmp has the levels O1 and O2, not {opt_level!r}")
    load()
    casts = autocast.default
    lower: tuple[str, ...] = BF16
    fp32: tuple[str, ...] = ()
    if opt_level == "O1":
        lower = read_list(bf16_file_path) if bf16_file_path else BF16
        fp32 = read_list(fp32_file_path) if fp32_file_path else FP32
    all_lower = [*lower, *(form for name in lower for form in _FORMS.get(name, ()) if form not in fp32)]
    if isVerbose:
        log.warning("hmp %s: in bf16 %s; in fp32 %s", opt_level, ", ".join(lower), ", ".join(fp32) or "all others")
    casts.replace(policies(all_lower, fp32, CastPolicy.PRODUCT if opt_level == "O2" else CastPolicy.LOWER), isVerbose)
    torch.set_autocast_dtype("hpu", torch.bfloat16)
    torch.set_autocast_enabled("hpu", True)
    torch.set_autocast_cache_enabled(False)  # nothing would say when weights have changed


class disable_casts(torch.autocast):
    """A context, or a decorator, in which nothing is cast: `with hmp.disable_casts(): optimizer.step()`."""

    def __init__(self) -> None:
        super().__init__("hpu", dtype=torch.bfloat16, enabled=False)
