"""The summary table of `hl-smi`: 79 columns, laid out as that of a Gaudi server, process list included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from habana_tf.hardware.readings import DRIVER_VERSION, TOOL_VERSION, Reading

_MIB = 1 << 20
_EDGE = "+" + "-" * 77 + "+"
_RULE = "|" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+"
_HEAD = (
    _RULE,
    "| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |",
    "|" + "=" * 31 + "+" + "=" * 22 + "+" + "=" * 22 + "|",
)
_PROCESSES = (
    "| Compute Processes:                                               AIP Memory |",
    "|  AIP       PID   Type   Process name                             Usage      |",
    "|" + "=" * 77 + "|",
)
_END = "+" + "=" * 77 + "+"


def lines(rows: Sequence[Reading]) -> Iterator[str]:
    yield _EDGE
    yield f"| {'HL-SMI Version:':<20}{TOOL_VERSION:>46}          |"
    yield f"| {'Driver Version:':<20}{DRIVER_VERSION:>46}          |"
    yield from _HEAD
    for row in rows:
        yield from _card(row)
        yield _RULE
    yield from _PROCESSES
    for row in rows:
        yield _process(row)
    yield _END


def _card(row: Reading) -> Iterator[str]:
    name = f"{row.card.index:>4}  {row.chip.product}"
    yield f"|{name:<26}N/A  | {row.card.bus_id:<17}N/A | {'0':>19}  |"
    power = f"{row.watts:.0f}W / {row.chip.power_cap_watts}W"
    memory = f"{row.memory_used // _MIB}MiB / {row.memory_total // _MIB}MiB"
    yield (
        f"| N/A  {row.celsius:>3.0f}C   N/A  {power:>12} | {memory:>20} | {f'{row.utilization:.0%}':>6}{'N/A':>14} |"
    )


def _process(row: Reading) -> str:
    pid, kind, name, usage = "N/A", "N/A", "N/A", "N/A"
    if row.holder is not None:
        pid, kind = str(row.holder.pid or "N/A"), "C"
        if row.holder.telemetry is not None:
            name, usage = row.holder.telemetry.command, f"{row.process_memory // _MIB}MiB"
    if len(name) > 40:
        name = name[:37] + "..."
    return f"|{row.card.index:>4}{pid:>11}   {kind:<7}{name:<41}{usage:<11}|"
