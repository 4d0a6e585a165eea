"""What scripts ask about the device."""

from __future__ import annotations

import pytest

from habana_frameworks.tensorflow import habana_device


@pytest.mark.parametrize("chip, name", [("gaudi", "GAUDI"), ("gaudi2", "GAUDI2"), ("gaudi3", "GAUDI3")])
def test_get_type_names_the_generation(monkeypatch: pytest.MonkeyPatch, chip: str, name: str) -> None:
    monkeypatch.setenv("HABANA_SIM_CHIP", chip)
    assert habana_device.get_type() == name


def test_get_type_is_gaudi2_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HABANA_SIM_CHIP", raising=False)
    assert habana_device.get_type() == "GAUDI2"
