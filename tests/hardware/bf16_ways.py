"""Chooses how products of bf16 are computed, in the place of a measurement."""

from __future__ import annotations

import pytest

from habana_tf.hardware import calibration, cpu


def multiply_bf16_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """way: "dot" or "widen"; a target that cannot multiply pairs widens all the same."""
    answer = calibration.Answer("dot" if way == "dot" else "widen", "a test")
    monkeypatch.setattr(cpu, "bf16_products", lambda cpu, features: answer)
