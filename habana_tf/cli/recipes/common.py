"""What the actions share: options, opening the cache directory, finding a recipe by name or key."""

from __future__ import annotations

import argparse
import gc
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from habana_tf.cli.output import CommandError, tensor
from habana_tf.reports.units import counted

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.cache.entry_head import Header
    from habana_tf.cache.listing import Listed
    from habana_tf.cache.reader import Reader

KEY_DIGITS = 12
"""Digits of a key that are shown where there is little room."""


def action(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], *examples: str) -> None:
    """What every action has: the function that runs it, --path, --json and, in its --help, examples."""
    parser.set_defaults(run=partial(_guarded, run))
    parser.epilog = "examples:\n" + "".join(f"  habana-tf recipes {example}\n" for example in examples)
    parser.add_argument("--path", metavar="DIR", help="the cache directory (default: TF_RECIPE_CACHE_PATH)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Runs an action; what the cache raises becomes an error of the command, with its exit code."""
    # Headers of a thousand entries are a hundred thousand objects and no garbage: the collector would look at them
    # again and again, for a sixth of the time that a listing takes.
    collected = gc.isenabled()
    gc.disable()
    try:
        return run(arguments)
    except (CommandError, BrokenPipeError):
        raise
    except Exception as error:
        from habana_tf.cache import BundleError, EntryError, NoDirectory, NoPath, ReadOnly, Refused

        if isinstance(error, NoPath):
            raise CommandError(f"{error} or pass --path", 2) from error
        if isinstance(error, BundleError | EntryError | NoDirectory | OSError | ReadOnly | Refused):
            raise CommandError(str(error), 1) from error
        raise
    finally:
        if collected:
            gc.enable()


def add_recipe(parser: argparse.ArgumentParser, name: str = "recipe", **options: Any) -> None:
    """An argument that names a recipe."""
    parser.add_argument(name, metavar="NAME_OR_KEY", **{"help": "its name, or the first digits of its key", **options})


def opened(arguments: argparse.Namespace) -> Reader:
    """The cache directory that the options name."""
    from habana_tf.cache.reader import Reader

    return Reader.of(arguments.path)


def rows_of(reader: Reader, heads_only: bool = False) -> tuple[list[Listed], list[Listed]]:
    """The recipes and notes of failures of a directory; what cannot be used. heads_only: their headers have what a
    line of a listing shows (see `cache.entry`), and no more."""
    rows = reader.listing(heads_only)
    return [row for row in rows if row.header is not None], [row for row in rows if row.header is None]


def entry_of(reader: Reader, row: Listed) -> Entry:
    """The whole entry, verified."""
    from habana_tf.cache import EntryError, Refused

    try:
        return reader.inspect(row)
    except (EntryError, Refused, OSError) as error:
        raise CommandError(f"{row.path}: {error}", 1) from error


def only_match(rows: Sequence[Listed], wanted: str, root: str) -> Listed:
    """The one recipe with this name or a key that starts so."""
    found = [row for row in rows if header(row)["name"] == wanted]
    found = found or [row for row in rows if header(row)["digest"].startswith(wanted.lower())]
    if not found:
        raise CommandError(f"no recipe in {root} is called {wanted!r} or has a key that starts so", 1)
    if len(found) > 1:
        which = [f"  {header(row)['digest']}  {tensors(header(row), 'inputs')}" for row in found]
        raise CommandError(f"{len(found)} recipes match {wanted!r}; name one by its key:", 1, which)
    return found[0]


def header(row: Listed) -> Header:
    assert row.header is not None, "only rows with a header are shown"
    return row.header


def framework(row: Listed) -> str:
    """TensorFlow or PyTorch: whose program it was."""
    return str(header(row).get("framework", "TensorFlow"))


def op_count(row: Listed) -> int:
    """How many ops were compiled together; one for an eager op."""
    ops = header(row).get("ops")
    return sum(ops.values()) if isinstance(ops, dict) else 0


def ops_text(row: Listed) -> str:
    """2 MatMul, Relu"""
    return counted(header(row).get("ops") or {})


def worked(row: Listed) -> str:
    """Conv2D 61%, MatMul 30%: the ops that are most of the work; where that is not known, how many there are."""
    work = header(row).get("work")
    ranked = sorted(work.items(), key=lambda item: (-item[1], item[0])) if isinstance(work, dict) else []
    return ", ".join(f"{op} {share}%" for op, share in ranked) or ops_text(row)


_SHORT_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def precision(row: Listed) -> str:
    """fp32, bf16; empty where it is not known."""
    label = header(row).get("precision", "")
    return _SHORT_TYPES.get(label, label)


def tensors(of: Any, which: str) -> str:
    """The inputs or outputs in a header."""
    return ", ".join(tensor(each) for each in of.get(which) or [])


def shortened(text: str, limit: int = 60) -> str:
    """Lists in a table line end where they get long, behind an item, the first one at least; `show` has them whole."""
    more = ", ..."
    first, *others = text.split(", ", 1)
    if len(text) <= limit or not others:
        return text
    kept = text[: limit - len(more) + len(", ")].rpartition(", ")[0]
    return (kept or first) + more


def plain(value: object) -> str:
    """JSON data as text for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        items = (f"{{{plain(item)}}}" if isinstance(item, dict) else plain(item) for item in value)
        return "[" + ", ".join(items) + "]"
    return str(value)


_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MOST_SECONDS, _MOST_BYTES = 1e11, 2.0**62
"""Longer ago or larger than anything is; past it a number would be infinite."""
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def age(text: str) -> float:
    """30d as seconds; an argument's type."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 90s, 15m, 12h, 30d or 2w")
    return min(float(found[1]) * _AGES[found[2]], _MOST_SECONDS)


def byte_size(text: str) -> int:
    """512M as bytes; an argument's type."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 4096, 64K, 512M or 2G (units of 1024)")
    return int(min(float(found[1]) * _SIZES[found[2].upper()], _MOST_BYTES))
