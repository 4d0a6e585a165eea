"""`habana-tf ops`: the ops that run on HPU, with element types and notes."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
from dataclasses import asdict

from habana_tf.cli.output import CommandError, print_json, print_table
from habana_tf.reports.units import few


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only ops whose name contains this, in any case")
    parser.add_argument(
        "--framework", choices=("tensorflow", "torch"), default="tensorflow",
        help="whose ops: TensorFlow's, or PyTorch's overloads (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_ops)


def _ops(arguments: argparse.Namespace) -> int:
    if arguments.framework == "torch":
        return _overloads(arguments)
    from habana_tf.tensorflow.lowering import catalog
    from habana_tf.tensorflow.lowering.table import rows

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
    from habana_tf.torch.ops import catalog

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


def _none(names: list[str]) -> str:
    """What to say when HPU has none of these: ops of TensorFlow run on the CPU, and others run nowhere."""
    asked = " or ".join(repr(name) for name in names)
    known = _of_tensorflow()
    if known is None:
        return f"HPU has no op with {asked} in its name; TensorFlow is not installed here, so its ops are not known"
    found = [op for op in known if any(name.lower() in op.lower() for name in names)]
    if found:
        run = f"{few(found, 5)} run{'s' * (len(found) == 1)} on the CPU"
        return f"HPU has no op with {asked} in its name: TensorFlow's {run}"
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
