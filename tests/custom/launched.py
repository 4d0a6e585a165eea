"""What was launched so far in this process."""

from __future__ import annotations

from typing import Any


def kernels() -> list[dict[str, Any]]:
    """Of the program resolved last."""
    from habana_tf.resolver import programs

    return list(programs._programs._made.values())[-1].kernels()


def counters() -> dict[str, int]:
    from habana_tf._native import _bridge

    return dict(_bridge.counters())
