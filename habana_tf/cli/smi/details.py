"""`hl-smi -q`, `-d`, `-L` and `--fw-versions`: everything about each card, in indented lines "name : value".

Only what a simulated card has is printed: one temperature and one power supply, no firmware but this program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from habana_tf.cli.smi.fields import timestamp
from habana_tf.hardware.cards import Card
from habana_tf.hardware.readings import DRIVER_VERSION, TOOL_VERSION, Reading
from habana_tf.version import __version__

SECTIONS = ("PRODUCT", "POWER", "CLOCK", "TEMPERATURE", "FAN", "BUS", "MEMORY", "NET", "ROW_REPLACEMENT")
_MIB = 1 << 20
_MHZ = 1_000_000
_WIDTH = 40
_FIRMWARE = f"simulated by habana_tf {__version__}"

Lines = Iterator[tuple[int, str, object]]
"""(depth, name, value); a value of None makes a heading."""


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
        _print(_firmware())


def _head(attached: int) -> None:
    _print(iter([(0, "Timestamp", timestamp()), (0, "Driver Version", DRIVER_VERSION)]))
    _print(iter([(0, "HL-SMI Version", TOOL_VERSION)]))
    print()
    _print(iter([(0, "Attached AIPs", attached)]))


def _title(card: Card) -> None:
    print(f"\n[{card.index}] AIP (accel{card.index}) {card.bus_id}")


def _print(lines: Lines) -> None:
    for depth, name, value in lines:
        start = " " * (8 * depth) + name
        print(start if value is None else f"{start:<{_WIDTH}}: {value}")


def _identity(card: Card) -> Lines:
    yield 1, "Product Name", card.chip.product
    yield 1, "Serial Number", card.serial
    yield 1, "Module status", "Operational"
    yield 1, "Module ID", card.module_id
    yield 1, "AIP UUID", card.uuid
    yield from _firmware()


def _firmware() -> Lines:
    yield 1, "Firmware [SPI] Version", _FIRMWARE
    yield 1, "Firmware [OS] Version", _FIRMWARE


def _bus(card: Card) -> Lines:
    domain, bus, device = card.bus_id.split(".")[0].split(":")
    yield 1, "PCI", None
    yield 2, "Bus", f"0x{bus}"
    yield 2, "Device", f"0x{device}"
    yield 2, "Domain", f"0x{domain}"
    yield 2, "Bus Id", card.bus_id


def _power(row: Reading) -> Lines:
    yield 1, "Power Readings", None
    yield 2, "Power Management", "auto"
    yield 2, "Power Draw", f"{row.watts:.0f} W"
    yield 2, "Power Max", f"{row.chip.power_cap_watts} W"
    yield 2, "Power Limit", f"{row.chip.power_cap_watts} W"


def _clock(row: Reading) -> Lines:
    for heading in ("Clocks", "Clocks Max"):
        yield 1, heading, None
        yield 2, "[1] mme", f"{row.chip.mme_clock // _MHZ} MHz"
        yield 2, "[2] tpc", f"{row.chip.tpc_clock // _MHZ} MHz"
    yield 1, "Clocks Throttle Reasons", "Not Active"


def _memory(row: Reading) -> Lines:
    used, total = row.memory_used // _MIB, row.memory_total // _MIB
    yield 1, "Memory Type", "HBM"
    yield 1, "Memory Usage", None
    yield 2, "Total", f"{total} MB"
    yield 2, "Used", f"{used} MB"
    yield 2, "Free", f"{total - used} MB"
    told = row.holder.telemetry if row.holder is not None else None
    if told is not None:
        yield 1, "Process", None
        yield 2, "Peak", f"{told.memory_peak // _MIB} MB"
        yield 2, "Launches", told.launches
        yield 2, "Recipes compiled", told.recipes
        yield 2, "Busy", f"{told.busy:.1f} s"


def _ports(row: Reading) -> Lines:
    yield 1, "Network Information", None
    yield 2, "Ports", row.chip.ports
    yield 2, "External ports", ", ".join(map(str, row.chip.external_ports))


def _rows(row: Reading) -> Lines:
    yield 1, "Replaced Rows", None
    yield 2, "Single Bit ECC", 0
    yield 2, "Double Bit ECC", 0
    yield 2, "Pending", "No"


_SECTIONS = {
    "PRODUCT": lambda row: _identity(row.card),
    "POWER": _power,
    "CLOCK": _clock,
    "TEMPERATURE": lambda row: iter([(1, "Temperature", None), (2, "[ 1] On Chip 0", f"{row.celsius:.0f} C")]),
    "FAN": lambda row: iter([(1, "Fan Speed", "N/A")]),
    "BUS": lambda row: _bus(row.card),
    "MEMORY": _memory,
    "NET": _ports,
    "ROW_REPLACEMENT": _rows,
}
