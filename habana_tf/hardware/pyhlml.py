"""The readings of the cards under the names of Habana's `pyhlml`.

    from habana_tf.hardware import pyhlml
    pyhlml.hlmlInit()
    card = pyhlml.hlmlDeviceGetHandleByIndex(0)
    pyhlml.hlmlDeviceGetUtilizationRates(card)

Same functions, arguments, units and errors as Habana's module. It is not installed as `pyhlml`, so that it never
hides the real one; a script that imports that name can be given this module with
`sys.modules["pyhlml"] = habana_tf.hardware.pyhlml`. Names, addresses and identifiers are bytes, as there.

What a simulated card does not have (events, PCIe counters, performance states, injected errors) raises
HLMLError with HLML_ERROR_NOT_SUPPORTED. Imports neither TensorFlow nor NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from habana_tf.hardware import readings
from habana_tf.hardware.cards import Card, cards


class HLML_RETURN(IntEnum):
    """What a call returns."""

    HLML_SUCCESS = 0
    HLML_ERROR_UNINITIALIZED = 1
    HLML_ERROR_INVALID_ARGUMENT = 2
    HLML_ERROR_NOT_SUPPORTED = 3
    HLML_ERROR_ALREADY_INITIALIZED = 5
    HLML_ERROR_NOT_FOUND = 6
    HLML_ERROR_INSUFFICIENT_SIZE = 7
    HLML_ERROR_DRIVER_NOT_LOADED = 9
    HLML_ERROR_TIMEOUT = 10
    HLML_ERROR_AIP_IS_LOST = 11
    HLML_ERROR_MEMORY = 12
    HLML_ERROR_NO_DATA = 13
    HLML_ERROR_UNKNOWN = 14


class HLML_CLOCK_TYPE(IntEnum):
    """Clocks."""

    HLML_CLOCK_SOC = 0
    HLML_CLOCK_IC = 1
    HLML_CLOCK_MME = 2
    HLML_CLOCK_TPC = 3


class HLML_TEMP_SENS(IntEnum):
    """Sensors of temperature."""

    HLML_TEMPERATURE_ON_AIP = 0
    HLML_TEMPERATURE_ON_BOARD = 1


class HLML_EVENT(IntEnum):
    """Events, for hlmlDeviceRegisterEvents."""

    ECC_EVENT = 1
    CRITICAL_EVENT = 2
    CLOCK_RATE = 4


class HLMLError(Exception):
    """A call failed; `value` is one of HLML_RETURN."""

    def __init__(self, value: HLML_RETURN, why: str) -> None:
        super().__init__(f"{value.name}: {why}")
        self.value = value


@dataclass(frozen=True)
class LinkCaps:
    """The PCIe link. link_speed as text, link_width in lanes as text, both bytes."""

    link_speed: bytes
    link_width: bytes


@dataclass(frozen=True)
class PCIInfo:
    """The PCIe address of a card, and the vendor and device number of its chip."""

    bus: int
    bus_id: bytes
    device: int
    domain: int
    pci_device_id: int
    caps: LinkCaps


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes of HBM."""

    free: int
    total: int
    used: int


_initialized = False
# Source of the numbers: `hl-smi -q` and kernel logs of real machines (Gaudi2 1da3:1020, Gaudi3 1da3:1060; Gaudi 1000).
_PCI_DEVICE = {"gaudi": 0x1DA31000, "gaudi2": 0x1DA31020, "gaudi3": 0x1DA31060}
_PCI_SPEED = {"gaudi": b"16GT/s", "gaudi2": b"16GT/s", "gaudi3": b"32GT/s"}  # PCIe 4, 4 and 5


def hlmlInit() -> None:
    """Must be called before any other function; calling it again does no harm."""
    global _initialized
    _initialized = True


def hlmlInitWithFlags(flags: int = 0) -> None:
    """As hlmlInit; 0 is the only flag."""
    if flags != 0:
        raise HLMLError(HLML_RETURN.HLML_ERROR_INVALID_ARGUMENT, f"hlmlInitWithFlags: {flags}, use 0")
    hlmlInit()


def hlmlShutdown() -> None:
    """After it every function but hlmlInit fails."""
    global _initialized
    _required()
    _initialized = False


def hlmlDeviceGetCount() -> int:
    """Cards of the machine."""
    return len(_required())


def hlmlDeviceGetHandleByIndex(index: int) -> Card:
    """The card with this index."""
    return _find(lambda card: card.index == index, f"index {index}")


def hlmlDeviceGetHandleByPCIBusID(pci_addr: str) -> Card:
    """The card with this address, such as 0000:19:00.0."""
    return _find(lambda card: card.bus_id == pci_addr.lower(), f"PCI address {pci_addr}")


def hlmlDeviceGetHandleByUUID(uuid: str) -> Card:
    """The card with this identifier."""
    return _find(lambda card: card.uuid == uuid, f"UUID {uuid}")


def hlmlDeviceGetName(device: Card) -> bytes:
    """The product, such as HL-225."""
    return _reading(device).chip.product.encode()


def hlmlDeviceGetPCIInfo(device: Card) -> PCIInfo:
    """The PCIe address."""
    domain, bus, slot = device.bus_id.split(".")[0].split(":")
    chip = _reading(device).chip.name
    caps = LinkCaps(_PCI_SPEED[chip], b"x16")
    return PCIInfo(int(bus, 16), device.bus_id.encode(), int(slot, 16), int(domain, 16), _PCI_DEVICE[chip], caps)


def hlmlDeviceGetClockInfo(device: Card, clock_type: int = HLML_CLOCK_TYPE.HLML_CLOCK_SOC) -> int:
    """A clock in MHz; simulated clocks never change. SOC is that of the matrix engines, as on Gaudi2."""
    chip = _reading(device).chip
    if clock_type in (HLML_CLOCK_TYPE.HLML_CLOCK_SOC, HLML_CLOCK_TYPE.HLML_CLOCK_MME):
        return chip.mme_clock // 1_000_000
    if clock_type == HLML_CLOCK_TYPE.HLML_CLOCK_TPC:
        return chip.tpc_clock // 1_000_000
    _unsupported(f"clock {clock_type}")


def hlmlDeviceGetMaxClockInfo(device: Card, clock_type: int = HLML_CLOCK_TYPE.HLML_CLOCK_SOC) -> int:
    """The highest speed of a clock in MHz."""
    return hlmlDeviceGetClockInfo(device, clock_type)


def hlmlDeviceGetUtilizationRates(device: Card) -> int:
    """Percent of the last second in which a launch ran."""
    return round(100 * _reading(device).utilization)


def hlmlDeviceGetMemoryInfo(device: Card) -> MemoryInfo:
    """Memory in bytes."""
    reading = _reading(device)
    return MemoryInfo(reading.memory_free, reading.memory_total, reading.memory_used)


def hlmlDeviceGetTemperature(device: Card, sensor_type: int = HLML_TEMP_SENS.HLML_TEMPERATURE_ON_AIP) -> int:
    """Degrees Celsius, modelled (see `readings`); the board's is not."""
    if sensor_type != HLML_TEMP_SENS.HLML_TEMPERATURE_ON_AIP:
        _unsupported(f"temperature sensor {sensor_type}")
    return round(_reading(device).celsius)


def hlmlDeviceGetPowerUsage(device: Card) -> int:
    """Milliwatts, modelled (see `readings`)."""
    return round(1000 * _reading(device).watts)


def hlmlDeviceGetPowerManagementDefaultLimit(device: Card) -> int:
    """The power limit in milliwatts."""
    return 1000 * _reading(device).chip.power_cap_watts


def hlmlDeviceGetTotalECCErrors(device: Card, error_type: int = 0, counter_type: int = 0) -> int:
    """Memory errors: a simulated card has none."""
    _reading(device)
    return 0


def hlmlDeviceGetMemoryErrorCounter(device: Card, error_type: int = 0, counter_type: int = 0, location: int = 0) -> int:
    """Memory errors at one place: a simulated card has none."""
    _reading(device)
    return 0


def hlmlDeviceGetUUID(device: Card) -> bytes:
    """The identifier of the card."""
    _required()
    return device.uuid.encode()


def hlmlDeviceGetSerial(device: Card) -> bytes:
    """The serial number of the card."""
    _required()
    return device.serial.encode()


def hlmlDeviceGetMinorNumber(device: Card) -> int:
    """The number of the card's device file."""
    _required()
    return device.index


def hlmlDeviceGetBoardID(device: Card) -> int:
    """The module id."""
    _required()
    return device.module_id


def hlmlDeviceGetCurrentClocksThrottleReasons(device: Card) -> int:
    """Why clocks are lowered: 0, nothing slows a simulated card down."""
    _reading(device)
    return 0


def hlmlDeviceGetCurrPCIELinkWidth(device: Card) -> int:
    """PCIe lanes."""
    _reading(device)
    return 16


def hlmlDeviceGetCurrPCIELinkGeneration(device: Card) -> int:
    """PCIe generation."""
    return 5 if _reading(device).chip.name == "gaudi3" else 4


def hlmlDeviceGetCpuAffinity(device: Card) -> list[int]:
    """Cores of the host near the card: all this process may use."""
    _required()
    return sorted(os.sched_getaffinity(0))


_NOT_SIMULATED = (
    "hlmlDeviceGetTemperatureThreshold", "hlmlDeviceGetPersistenceMode", "hlmlDeviceGetPerformanceState",
    "hlmlDeviceGetECCMode", "hlmlEventSetCreate", "hlmlEventSetFree", "hlmlEventSetWait", "hlmlDeviceRegisterEvents",
    "hlmlDeviceGetMACInfo", "hlmlDeviceERRInject", "hlmlDeviceGetHLRevision", "hlmlDeviceGetPCBInfo",
    "hlmlDeviceGetPCIEThroughput", "hlmlDeviceGetPCIEReplayCounter", "hlmlDeviceGetTotalEnergyConsumption",
    "hlmlDeviceGetMemoryAffinity", "hlmlDeviceGetViolationStatus", "hlmlDeviceGetReplacedRowsCount",
    "hlmlDeviceGetReplacedRowsPendingStatus",
)  # fmt: skip


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name not in _NOT_SIMULATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def not_simulated(*arguments: object) -> NoReturn:
        _unsupported(name)

    return not_simulated


def _unsupported(what: str) -> NoReturn:
    _required()
    raise HLMLError(HLML_RETURN.HLML_ERROR_NOT_SUPPORTED, f"a simulated card has no {what}")


def _required() -> tuple[Card, ...]:
    if not _initialized:
        raise HLMLError(HLML_RETURN.HLML_ERROR_UNINITIALIZED, "call hlmlInit() first")
    return cards()


def _find(wanted: Callable[[Card], bool], name: str) -> Card:
    for card in _required():
        if wanted(card):
            return card
    raise HLMLError(HLML_RETURN.HLML_ERROR_NOT_FOUND, f"no card has the {name}; the machine has {len(cards())} cards")


def _reading(device: Card) -> readings.Reading:
    _required()
    return readings.read(device)


__all__ = [*(name for name in globals() if name[:4] in ("HLML", "hlml")), "LinkCaps", "MemoryInfo", "PCIInfo"]
