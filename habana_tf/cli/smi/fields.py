"""`hl-smi -Q fields -f csv[,noheader][,nounits]`: one line per card, values separated by comma and blank."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from habana_tf.cli.output import CommandError
from habana_tf.hardware.readings import DRIVER_VERSION, Reading

_MIB = 1 << 20
_FORMATS = ("csv", "noheader", "nounits")


def timestamp() -> str:
    """Now, as `date` prints it."""
    return time.strftime("%a %b %d %H:%M:%S %Z %Y")


def _none(_: Reading) -> object:
    return 0


# Name: (unit or "", value). Simulated cards have no errors, and no ECC to switch.
_FIELDS: dict[str, tuple[str, Callable[[Reading], object]]] = {
    "timestamp": ("", lambda r: timestamp()),
    "name": ("", lambda r: r.chip.product),
    "bus_id": ("", lambda r: r.card.bus_id),
    "driver_version": ("", lambda r: DRIVER_VERSION),
    "temperature.aip": ("C", lambda r: round(r.celsius)),
    "module_id": ("", lambda r: r.card.module_id),
    "utilization.aip": ("%", lambda r: round(100 * r.utilization)),
    "memory.total": ("MiB", lambda r: r.memory_total // _MIB),
    "memory.free": ("MiB", lambda r: r.memory_total // _MIB - r.memory_used // _MIB),
    "memory.used": ("MiB", lambda r: r.memory_used // _MIB),
    "index": ("", lambda r: r.card.index),
    "serial": ("", lambda r: r.card.serial),
    "uuid": ("", lambda r: r.card.uuid),
    "power.draw": ("W", lambda r: round(r.watts)),
    "power.max": ("W", lambda r: r.chip.power_cap_watts),
    **{
        f"ecc.errors.{kind}.{span}.total": ("", _none)
        for kind in ("uncorrected", "corrected", "dram", "dram-corrected")
        for span in ("aggregate", "volatile")
    },
    "ecc.mode.current": ("", lambda r: "N/A"),
    "ecc.mode.pending": ("", lambda r: "N/A"),
    "stats.violation.power": ("", _none),
    "stats.violation.thermal": ("", _none),
}
NAMES = tuple(_FIELDS)


_REPLACED = ("uuid", "replaced_rows.address", "replaced_rows.cause")


def show(rows: Sequence[Reading], wanted: str, form: str) -> None:
    """Prints the fields, a list separated by commas. Raises CommandError for a name or format that does not exist."""
    names, options = _names(wanted, NAMES), _options(form)
    if "noheader" not in options:
        print(", ".join(name + (f" [{_FIELDS[name][0]}]" if _FIELDS[name][0] else "") for name in names))
    for row in rows:
        cells = []
        for name in names:
            unit, value = _FIELDS[name]
            cells.append(f"{value(row)} {unit}" if unit and "nounits" not in options else str(value(row)))
        print(", ".join(cells))


def show_replaced_rows(wanted: str, form: str) -> None:
    """Prints the heading of the rows of memory that cards have replaced, and none below it: simulated memory has no
    errors. Raises CommandError for a name or format that does not exist."""
    names, options = _names(wanted, _REPLACED), _options(form)
    if "noheader" not in options:
        print(", ".join(names))


def _names(wanted: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise CommandError(f"no field is called {', '.join(unknown) or wanted!r}: use {', '.join(known)}", 2)
    return names


def _options(form: str) -> list[str]:
    options = [option.strip() for option in form.split(",")]
    if options[0] != "csv" or not set(options) <= set(_FORMATS):
        raise CommandError(f"no format is called {form!r}: use csv, csv,noheader, csv,nounits or all three", 2)
    return options
