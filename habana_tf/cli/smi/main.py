"""The command line of `hl-smi`: the options of Habana's tool, and the module beside this one that prints each.

An option that would change real hardware (reset, power limit) is an error that says so. Exit codes: 0 done; 1 the
machine cannot be read, or the request is not simulated; 2 wrong usage or a wrong setting.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from habana_tf.cli.numbers import seconds
from habana_tf.cli.output import CommandError, command_error
from habana_tf.cli.smi import details, fields, network, table
from habana_tf.files.escaped import escaped
from habana_tf.hardware import readings
from habana_tf.hardware.cards import Card, cards
from habana_tf.reports.characters import never_fail
from habana_tf.settings import habana as habana_variables


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; `arguments` are those of the process by default. Returns the exit code."""
    never_fail(sys.stdout, sys.stderr)
    options = _parser().parse_args(arguments)
    try:
        habana_variables.check()
        _show(options)
        while options.loop is not None:
            sys.stdout.flush()
            time.sleep(options.loop)
            _show(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        known = command_error(error)
        print(f"hl-smi: {escaped(known)}", file=sys.stderr)
        return known.code
    return 0


def _show(options: argparse.Namespace) -> None:
    for option, given, other, there in (
        ("-f", options.format, "-Q", options.query_aip or options.query_row_replacement),
        ("-P", options.ports, "-n", options.network),
        ("-c", options.cores or None, "topo", options.topo),
    ):  # fmt: skip
        if given is not None and there is None:
            raise CommandError(f"{option} needs {other}: add it", 2)
    chosen = _chosen(options.device)
    if options.reset_aip or options.power is not None:
        raise CommandError(
            "a simulated card has no state to reset and no power limit to set: end the process that holds it "
            "(hl-smi lists it), and it is free and empty",
            1,
        )
    if options.version:
        print(f"hl-smi/hlml version {readings.TOOL_VERSION} (simulated by habana_tf; driver {readings.DRIVER_VERSION})")
    elif options.topo is not None:
        network.topology(chosen)
    elif options.fw_versions:
        details.firmware(chosen)
    elif options.network is not None:
        network.show(chosen, options.network, options.ports)
    elif options.query_aip is not None:
        fields.show([readings.read(card) for card in chosen], options.query_aip, options.format or "csv")
    elif options.query_row_replacement is not None:
        fields.show_replaced_rows(options.query_row_replacement, options.format or "csv")
    elif options.query or options.display is not None:
        details.show([readings.read(card) for card in chosen], len(cards()), options.display)
    elif options.list_aips:
        details.listing(chosen, len(cards()))
    else:
        print("\n".join(table.lines([readings.read(card) for card in chosen])))


def _chosen(device: str | None) -> list[Card]:
    """The cards to show: those of the addresses, with or without the domain; all when none is given."""
    machine = cards()
    if device is None:
        return list(machine)
    by_bus = {name: card for card in machine for name in (card.bus_id, card.bus_id.removeprefix("0000:"))}
    found = []
    for wanted in device.lower().split(","):
        if wanted.strip() not in by_bus:
            known = ", ".join(card.bus_id for card in machine)
            raise CommandError(f"no card has the address {wanted.strip()!r}: this machine has {known}", 1)
        found.append(by_bus[wanted.strip()])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hl-smi",
        description="Shows the cards of the simulated machine (HABANA_SIM_STATE_DIR); a summary table without options.",
        # A width of its own: looking for the terminal's would cost a tenth of the time of every call.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
        epilog="fields for -Q: " + ", ".join(fields.NAMES),
    )
    add = parser.add_argument
    add("topo", nargs="?", choices=["topo"], help="topology: with -c, the host's cores and memory nodes of each card")
    add("-c", dest="cores", action="store_true", help=argparse.SUPPRESS)
    add("-L", "--list-aips", action="store_true", help="list the cards")
    add("-i", "--device", metavar="PCI_ADDR", help="only the card with this address")
    add("--fw-versions", "--fw-version", action="store_true", help="versions of the firmware")
    add("-r", "--reset-aip", action="store_true", help="not simulated")
    add("-p", "--power-max", "--power-limit", dest="power", metavar="WATTS", help="not simulated")
    add("-q", "--query", action="store_true", help="everything about the cards")
    add("-d", "--display", type=str.upper, choices=details.SECTIONS, metavar="TYPE", help=f"with -q, one section: "
        f"{', '.join(details.SECTIONS)}")  # fmt: skip
    add("-l", "--loop", nargs="?", type=seconds(1e6, least=0.001), const=5.0, metavar="SECONDS",
        help="again and again; every 5 seconds")  # fmt: skip
    add("-Q", "--query-aip", metavar="FIELDS", help="fields, separated by commas, as CSV")
    add("--query-row-replacement", metavar="FIELDS", help="rows of memory that were replaced, as CSV: there are none")
    add("-f", "--format", metavar="csv[,noheader][,nounits]", help="how -Q and --query-row-replacement print")
    add("-n", "--network", choices=network.KINDS, metavar="TYPE", help=f"one of {', '.join(network.KINDS)}")
    add("-P", "--ports", metavar="PORTS", help="with -n, only these ports")
    add("-D", dest="debug", action="store_true", help="accepted, changes nothing")
    add("-v", "--version", action="store_true", help="versions")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
