"""`pyhlml` gives what `hl-smi` gives, by Habana's names and units."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from habana_tf.hardware import pyhlml, readings
from tests.child import machine


@pytest.fixture(autouse=True)
def _started(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HABANA_SIM_CHIP", "HABANA_SIM_CARDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", machine())
    pyhlml.hlmlInit()
    yield
    pyhlml.hlmlInit()
    pyhlml.hlmlShutdown()


def test_an_idle_gaudi2() -> None:
    assert pyhlml.hlmlDeviceGetCount() == 8
    card = pyhlml.hlmlDeviceGetHandleByIndex(1)
    assert pyhlml.hlmlDeviceGetHandleByPCIBusID("0000:1a:00.0") == card
    assert pyhlml.hlmlDeviceGetHandleByUUID(pyhlml.hlmlDeviceGetUUID(card).decode()) == card
    assert pyhlml.hlmlDeviceGetName(card) == b"HL-225"
    assert pyhlml.hlmlDeviceGetUtilizationRates(card) == 0
    memory = pyhlml.hlmlDeviceGetMemoryInfo(card)
    assert (memory.total, memory.used, memory.free) == (96 << 30, 768 << 20, (96 << 30) - (768 << 20))
    assert pyhlml.hlmlDeviceGetPowerUsage(card) == 74_000  # milliwatts
    assert pyhlml.hlmlDeviceGetPowerManagementDefaultLimit(card) == 600_000
    assert pyhlml.hlmlDeviceGetTemperature(card, 0) == 35
    assert pyhlml.hlmlDeviceGetClockInfo(card) == pyhlml.hlmlDeviceGetMaxClockInfo(card, 0) == 1650
    pci = pyhlml.hlmlDeviceGetPCIInfo(card)
    assert (pci.domain, pci.bus, pci.device, pci.bus_id) == (0, 0x1A, 0, b"0000:1a:00.0")
    assert (pci.pci_device_id, pci.caps.link_speed, pci.caps.link_width) == (0x1DA31020, b"16GT/s", b"x16")


def test_errors_have_habanas_codes() -> None:
    for call, code in (
        (lambda: pyhlml.hlmlDeviceGetHandleByIndex(8), 6),
        (lambda: pyhlml.hlmlInitWithFlags(1), 2),
        (lambda: pyhlml.hlmlDeviceGetTemperature(pyhlml.hlmlDeviceGetHandleByIndex(0), 1), 3),
        (lambda: pyhlml.hlmlEventSetCreate(), 3),
    ):
        with pytest.raises(pyhlml.HLMLError) as caught:
            call()
        assert caught.value.value == code
    card = pyhlml.hlmlDeviceGetHandleByIndex(0)
    pyhlml.hlmlShutdown()
    with pytest.raises(pyhlml.HLMLError, match="hlmlInit"):
        pyhlml.hlmlDeviceGetPowerUsage(card)
    with pytest.raises(AttributeError):
        _ = pyhlml.hlmlNothing


def test_power_and_temperature_follow_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_tf.hardware import telemetry

    told = telemetry.Telemetry(0.0, "gaudi2", "python", 96 << 30, 1 << 30, 1 << 30, 1, 1, 1, 0, 0, 1.0, 0.5)
    monkeypatch.setattr(telemetry, "holder", lambda module: telemetry.Holder(module, 1, told))
    card = pyhlml.hlmlDeviceGetHandleByIndex(0)
    assert pyhlml.hlmlDeviceGetUtilizationRates(card) == 50
    assert pyhlml.hlmlDeviceGetPowerUsage(card) == 1000 * (74 + 600) // 2
    assert pyhlml.hlmlDeviceGetTemperature(card) == 35 + readings.TEMPERATURE_RISE // 2
    assert pyhlml.hlmlDeviceGetMemoryInfo(card).used == (1 << 30) + (768 << 20)


def test_names_are_those_of_habana() -> None:
    assert [code.name for code in pyhlml.HLML_RETURN if code in (0, 5, 14)] == [
        "HLML_SUCCESS", "HLML_ERROR_ALREADY_INITIALIZED", "HLML_ERROR_UNKNOWN"]  # fmt: skip
    assert all(re.fullmatch(r"hlml[A-Z]\w+", name) for name in pyhlml._NOT_SIMULATED)
