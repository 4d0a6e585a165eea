"""`habana-tf ops`: the ops that run on HPU, with element types and notes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from habana_tf.cli.output import CommandError, print_json, print_table


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="only ops whose name contains this, in any case")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the whole table as the page docs/ops.md")
    parser.set_defaults(run=_ops)


def _ops(arguments: argparse.Namespace) -> int:
    from habana_tf.lowering import catalog
    from habana_tf.lowering.table import rows

    if arguments.markdown:
        sys.stdout.write(catalog.markdown())
        return 0
    wanted = [name.lower() for name in arguments.names]
    found = [e for e in catalog.entries() if not wanted or any(name in e.op.lower() for name in wanted)]
    if not found:
        raise CommandError(f"HPU has no op with {' or '.join(arguments.names)} in its name: it runs on the CPU", 1)
    if arguments.json:
        print_json([asdict(entry) for entry in found])
    else:
        print_table(["op", "element types", "notes"], [(e.op, catalog.short(rows()[e.op]), "; ".join(e.notes))
                                                       for e in found])  # fmt: skip
        print(f"\n{len(found)} ops")
    return 0
