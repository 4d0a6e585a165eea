"""`habana-tf ops`: the ops that run on HPU, with element types and notes; with `--missing`, those that do not."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from habana_tf.cli.output import CommandError, print_json, print_table


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only ops whose name contains this, in any case")
    parser.add_argument(
        "--missing", action="store_true",
        help="the ops that TensorFlow computes and HPU does not, by family, with how often Keras uses them (NAME may be"
        " a family)",
    )  # fmt: skip
    parser.add_argument(
        "--framework", choices=("tensorflow", "torch"), default="tensorflow",
        help="whose ops: TensorFlow's, or PyTorch's overloads (default: %(default)s)",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the whole table as a page of the documentation")
    parser.set_defaults(run=_ops)


def _ops(arguments: argparse.Namespace) -> int:
    if arguments.framework == "torch":
        return _overloads(arguments)
    if arguments.missing:
        return _missing(arguments)
    from habana_tf.lowering import catalog
    from habana_tf.lowering.table import rows

    if arguments.markdown:
        sys.stdout.write(catalog.markdown())
        return 0
    wanted = [name.lower() for name in arguments.names]
    found = [e for e in catalog.entries() if not wanted or any(name in e.op.lower() for name in wanted)]
    if not found:
        raise CommandError(_none(arguments.names), 1)
    if arguments.json:
        print_json([asdict(entry) for entry in found])
    else:
        print_table(["op", "element types", "real card", "notes"], [
            (e.op, catalog.short(rows()[e.op]), e.real_card, "; ".join(e.notes)) for e in found
        ])  # fmt: skip
        print(f"\n{len(found)} ops. real card: whether it is known to have run there (docs/placement.md)")
    return 0


def _overloads(arguments: argparse.Namespace) -> int:
    """Those of PyTorch."""
    if arguments.missing:
        raise CommandError("--missing lists TensorFlow's ops: leave --framework torch out", 2)
    from habana_tf.torch.ops import catalog

    if arguments.markdown:
        sys.stdout.write(catalog.markdown())
        return 0
    wanted = [name.lower() for name in arguments.names]
    found = [e for e in catalog.entries() if not wanted or any(n in f"{e.overload} {e.family}".lower() for n in wanted)]
    if not found:
        asked = " or ".join(repr(name) for name in arguments.names)
        raise CommandError(f"no overload that HPU has, nor family of them, has {asked} in its name", 1)
    if arguments.json:
        print_json([asdict(entry) for entry in found])
    else:
        columns = ["overload", "family", "types", "read at run time"]
        print_table(columns, [(e.overload, e.family, e.types, ", ".join(e.runtime)) for e in found])
        print(f"\n{len(found)} overloads")
    return 0


def _missing(arguments: argparse.Namespace) -> int:
    """Families in the order of their most used op, and in each the most used first."""
    if arguments.markdown:
        raise CommandError("--missing cannot be printed with --markdown: leave it out, or use --json", 2)
    from habana_tf.cli.missing import missing, uses

    try:
        with _progress() as tell:
            every = missing(tell)
    except ImportError as error:
        raise CommandError(f"--missing needs TensorFlow, which cannot be imported: {error}", 1) from None
    wanted = [name.lower() for name in arguments.names]
    found = [m for m in every if not wanted or any(name in m.op.lower() or name == m.family for name in wanted)]
    if not found:
        asked = " or ".join(repr(name) for name in arguments.names)
        raise CommandError(f"no missing op has {asked} in its name: `habana-tf ops` lists the ops that HPU has", 1)
    order = list(dict.fromkeys(m.family for m in found))
    found.sort(key=lambda m: order.index(m.family))
    if arguments.json:
        print_json([asdict(m) for m in found])
        return 0
    counted = uses()
    columns = ["family", "op", ">networks", ">cases", "GPU", "real card", "lowering"]
    print_table(columns, [
        (m.family, m.op, str(m.networks), str(m.cases), "yes" if m.gpu else "", m.real_card,
         (m.module or "") + (" (new)" if m.new_module else "")) for m in found
    ])  # fmt: skip
    print(
        f"\n{len(found)} ops that TensorFlow computes on the CPU and HPU does not, of element types that HPU has.\n"
        f"networks, cases: how many have it in a training step, of {counted['networks']} networks and of "
        f"{counted['cases']} layers, losses, metrics, optimizers, schedules and activations of Keras "
        f"{counted['keras']}.\n"
        "GPU: TensorFlow has it there. real card: whether it is known to have run there (docs/placement.md). lowering: "
        "the module of habana_tf/lowering where it belongs."
    )
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that says what is done now; it is gone at the end. Elsewhere nothing is shown."""
    shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def tell(text: str) -> None:
        if shown:
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        tell("")


def _none(names: list[str]) -> str:
    """What to say when HPU has none of these: ops of TensorFlow run on the CPU, and others run nowhere."""
    asked = " or ".join(repr(name) for name in names)
    known = _of_tensorflow()
    if known is None:
        return f"HPU has no op with {asked} in its name; TensorFlow is not installed here, so its ops are not known"
    found = [op for op in known if any(name.lower() in op.lower() for name in names)]
    if found:
        shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        return f"HPU has no op with {asked} in its name: TensorFlow's {shown} run{'s' * (len(found) == 1)} on the CPU"
    import difflib

    lower = {op.lower(): op for op in known}
    near = difflib.get_close_matches(names[0].lower(), lower, n=1, cutoff=0.75)
    hint = f": did you mean {lower[near[0]]}?" if near else ""
    return f"neither HPU nor TensorFlow has an op with {asked} in its name{hint}"


def _of_tensorflow() -> list[str] | None:
    """TensorFlow's ops by name, sorted; None where it is not installed. Read from a file: an import takes seconds."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = os.path.join(spec.submodule_search_locations[0], "_api", "v2", "raw_ops", "__init__.py")
    try:
        with open(path, encoding="utf-8") as file:
            return sorted(re.findall(r"^from \S+ import (?:\w+ as )?([A-Z]\w*)", file.read(), re.MULTILINE))
    except OSError:
        return None
