"""Names of tensors, and which chip it is."""

from __future__ import annotations

import enum

from habana_tf.torch.device.chip import device_type, synDeviceType
from habana_tf.torch.transformer_engine.scaling import FP8TensorMeta

__all__ = ["FP8BwdTensors", "FP8FwdTensors", "FP8TensorMeta", "is_gaudi2", "is_gaudi3"]


class FP8FwdTensors(enum.IntEnum):
    """Which scale is whose, in forward passes."""

    GEMM1_INPUT = 0
    GEMM1_WEIGHT = 1
    GEMM2_INPUT = 2
    GEMM2_WEIGHT = 3


class FP8BwdTensors(enum.IntEnum):
    """Which scale is whose, in backward passes."""

    GRAD_OUTPUT1 = 0
    GRAD_OUTPUT2 = 1


def is_gaudi2() -> bool:
    """Whether this process's card is a Gaudi2."""
    return device_type() is synDeviceType.synDeviceGaudi2


def is_gaudi3() -> bool:
    """Whether this process's card is a Gaudi3."""
    return device_type() is synDeviceType.synDeviceGaudi3
