"""What Habana's quantization tells its graph compiler about scales, which needs none of it here.

Scales are inputs of programs, so that another scale, its way of being chosen, or that it is chosen anew for each tensor
is no other program. What is told is remembered for those who ask.
"""

from __future__ import annotations

__all__ = ["get_scale_attribute_hash_id", "set_is_dynamic_quantization", "set_scale_attributes"]

_method = 0


def set_scale_attributes(is_hw_aligned: bool, scale_hash_id: int) -> None:
    """Remembers by which method scales are chosen, for `get_scale_attribute_hash_id`. is_hw_aligned: whether the matrix
    unit can apply all of them as exponents, which their values tell."""
    global _method
    _method = int(scale_hash_id)


def get_scale_attribute_hash_id() -> int:
    """What `set_scale_attributes` was told, 0 before."""
    return _method


def set_is_dynamic_quantization(is_dynamic: bool = True) -> None:
    """Nothing: see the module."""
