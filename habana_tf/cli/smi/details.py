"""`hl-smi -q`, `-d`, `-L` and `--fw-versions`: everything about each card, in indented lines "name : value".

Only what a simulated card has is printed: one temperature and one power supply, no firmware but this program. What is
not measured is marked behind the name of its section, so that the lines with values are those of a real card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from habana_tf.cli.smi.fields import timestamp
from habana_tf.hardware.cards import Card
from habana_tf.hardware.readings import DRIVER_VERSION, TOOL_VERSION, Reading
from habana_tf.version import __version__

SECTIONS = ("PRODUCT", "POWER", "CLOCK", "TEMPERATURE", "FAN", "BUS", "MEMORY", "NET", "ROW_REPLACEMENT")
_MIB = 1 << 20
_MHZ = 1_000_000
_WIDTH = 40
_FIRMWARE = dict.fromkeys(("Firmware [SPI] Version", "Firmware [OS] Version"), f"simulated by habana_tf {__version__}")
_POWER, _TEMPERATURE = "Power Readings (modelled from utilization)", "Temperature (modelled from utilization)"
_CLOCKS, _CLOCKS_MAX = "Clocks (the chip's, not measured)", "Clocks Max (the chip's, not measured)"
_ROWS = "Replaced Rows (simulated memory has no errors)"

Section = Mapping[str, object]
"""Values by name; a section within it is printed under its name, further to the right."""


def show(rows: Sequence[Reading], attached: int, section: str | None) -> None:
    """Prints all sections of the cards, or one."""
    _head(attached)
    for row in rows:
        _title(row.card)
        for name in SECTIONS if section is None else (section,):
            _print(_SECTIONS[name](row))


def listing(cards: Sequence[Card], attached: int) -> None:
    """Prints what identifies each card."""
    _head(attached)
    for card in cards:
        _title(card)
        _print(_identity(card))
        _print(_bus(card))


def firmware(cards: Sequence[Card]) -> None:
    for card in cards:
        _title(card)
        _print(_FIRMWARE)


def _head(attached: int) -> None:
    _print({"Timestamp": timestamp(), "Driver Version": DRIVER_VERSION, "HL-SMI Version": TOOL_VERSION}, depth=0)
    print()
    _print({"Attached AIPs": attached}, depth=0)


def _title(card: Card) -> None:
    print(f"\n[{card.index}] AIP (accel{card.index}) {card.bus_id}")


def _print(section: Section, depth: int = 1) -> None:
    for name, value in section.items():
        start = " " * (8 * depth) + name
        if isinstance(value, Mapping):
            print(start)
            _print(value, depth + 1)
        else:
            print(f"{start:<{_WIDTH}}: {value}")


def _identity(card: Card) -> Section:
    return {
        "Product Name": card.chip.product,
        "Serial Number": card.serial,
        "Module status": "Operational",
        "Module ID": card.module_id,
        "AIP UUID": card.uuid,
        **_FIRMWARE,
    }


def _bus(card: Card) -> Section:
    domain, bus, device = card.bus_id.split(".")[0].split(":")
    return {"PCI": {"Bus": f"0x{bus}", "Device": f"0x{device}", "Domain": f"0x{domain}", "Bus Id": card.bus_id}}


def _power(row: Reading) -> Section:
    most = f"{row.chip.power_cap_watts} W"
    draw = f"{row.watts:.0f} W"
    return {
        _POWER: {"Power Management": "auto", "Power Draw": draw, "Power Max": most, "Power Limit": most}
    }  # fmt: skip


def _clock(row: Reading) -> Section:
    clocks = {"[1] mme": f"{row.chip.mme_clock // _MHZ} MHz", "[2] tpc": f"{row.chip.tpc_clock // _MHZ} MHz"}
    return {_CLOCKS: clocks, _CLOCKS_MAX: clocks, "Clocks Throttle Reasons": "Not Active"}


def _memory(row: Reading) -> Section:
    used, total = row.memory_used // _MIB, row.memory_total // _MIB
    usage = {"Total": f"{total} MB", "Used": f"{used} MB", "Free": f"{total - used} MB"}
    found: dict[str, object] = {"Memory Type": "HBM", "Memory Usage": usage}
    if row.holder is not None and (of := row.holder.telemetry) is not None:
        found["Process"] = {
            "Peak": f"{of.memory_peak // _MIB} MB",
            "Launches": of.launches,
            "Recipes compiled": of.recipes,
            "Busy": f"{of.busy:.1f} s",
        }
    return found


def _ports(row: Reading) -> Section:
    external = ", ".join(map(str, row.chip.external_ports))
    return {"Network Information": {"Ports": row.chip.ports, "External ports": external}}


_SECTIONS: dict[str, Callable[[Reading], Section]] = {
    "PRODUCT": lambda row: _identity(row.card),
    "POWER": _power,
    "CLOCK": _clock,
    "TEMPERATURE": lambda row: {_TEMPERATURE: {"[ 1] On Chip 0": f"{row.celsius:.0f} C"}},
    "FAN": lambda row: {"Fan Speed": "N/A"},
    "BUS": lambda row: _bus(row.card),
    "MEMORY": _memory,
    "NET": _ports,
    "ROW_REPLACEMENT": lambda row: {_ROWS: {"Single Bit ECC": 0, "Double Bit ECC": 0, "Pending": "No"}},
}
