"""`habana-tf recipes list` and `show`: what is in the recipe cache on disk.

Looking changes nothing: no entry is executed, moved or marked as used.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from habana_tf.cli.output import CommandError, duration, moment, print_json, print_table, size, tensor

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.cache.store import Listed, Store

_SHOWN_APART = {"name", "digest", "key", "created", "compile_seconds", "sections", "ops", "inputs", "outputs"}
_KEY_DIGITS = 12

# Most interesting first: what was used last, what is large, what took long; names from A.
_ORDERS: dict[str, Callable[[Listed], Any]] = {
    "used": lambda row: -row.last_used,
    "size": lambda row: -row.file_bytes,
    "compile": lambda row: -_header(row)["compile_seconds"],
    "name": lambda row: (_header(row)["name"], _header(row)["digest"]),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    parser = commands.add_parser("recipes", help="compiled recipes in the cache on disk")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="list the recipes")
    listing.add_argument("--sort", choices=sorted(_ORDERS), default="used", help="default: last used first")
    listing.add_argument("--all", action="store_true", help="also one line for each one-op recipe (eager ops)")
    listing.set_defaults(run=_list)

    show = actions.add_parser("show", help="show everything about one recipe")
    show.add_argument("recipe", metavar="NAME_OR_KEY", help="its name, or the first digits of its key")
    show.set_defaults(run=_show)

    for action in (listing, show):
        action.add_argument("--path", help="the cache directory (default: TF_RECIPE_CACHE_PATH)")
        action.add_argument("--json", action="store_true", help="print JSON")


def _list(arguments: argparse.Namespace) -> int:
    store = _store(arguments.path)
    rows = _listing(store)
    good = sorted((row for row in rows if row.header is not None), key=_ORDERS[arguments.sort])
    bad = [row for row in rows if row.header is None]
    if arguments.json:
        print_json(
            {"path": store.root, "recipes": [asdict(row) for row in good], "unusable": [asdict(row) for row in bad]}
        )
        return 0
    folded = [] if arguments.all else [row for row in good if _op_count(row) == 1]
    lines = [_line(row) for row in good if arguments.all or _op_count(row) != 1]
    if folded:
        lines.append(_folded_line(folded))
    print_table(["name", "key", "ops", "inputs", ">size", ">compile time", "last use"], lines)
    total, seconds = sum(row.file_bytes for row in good), sum(_header(row)["compile_seconds"] for row in good)
    print(f"\n{len(good)} recipes, {size(total)}, compiled in {duration(seconds)}, in {store.root}")
    for row in bad:
        print(f"unusable: {row.path}: {row.problem}", file=sys.stderr)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from habana_tf.cache.entry import EntryError
    from habana_tf.trust import Refused

    store = _store(arguments.path)
    row = _only_match(_listing(store), arguments.recipe, store.root)
    try:
        entry = store.inspect(row)
    except (EntryError, Refused, OSError) as error:
        raise CommandError(f"{row.path}: {error}", 1) from error
    if arguments.json:
        sections = {name: len(data) for name, data in entry.sections.items()}
        print_json({**asdict(row), "section_bytes": sections})
    else:
        _print_entry(row, entry)
    return 0


def _print_entry(row: Listed, entry: Entry) -> None:
    header = entry.header
    facts = [
        ("name", entry.name),
        ("key", entry.digest),
        ("file", row.path),
        ("size", f"{size(row.file_bytes)}, digest verified"),
        ("created", moment(header["created"])),
        ("last use", moment(row.last_used)),
        ("compile time", duration(entry.compile_seconds)),
        ("ops", _ops(row)),
        ("inputs", _tensors(header, "inputs")),
        ("outputs", _tensors(header, "outputs")),
        *((name, _plain(value)) for name, value in header.items() if name not in _SHOWN_APART),
    ]
    print_table(["", ""], facts)
    print()
    stored = {section["name"]: section["stored"] for section in header["sections"]}
    sections = [(name, size(len(data)), size(stored[name])) for name, data in entry.sections.items()]
    print_table(["section", ">size", ">on disk"], sections)
    print()
    print_table(["part of the key", "value"], [(part.name, _plain(part.value)) for part in entry.key.parts])


def _store(path: str | None) -> Store:
    from habana_tf import settings
    from habana_tf.cache.stats import Stats
    from habana_tf.cache.store import Store

    root = path or settings.TF_RECIPE_CACHE_PATH.get()
    if not root:
        raise CommandError("no cache directory: set TF_RECIPE_CACHE_PATH or pass --path", 2)
    if not os.path.isdir(root):
        raise CommandError(f"{root} is not a directory: nothing was cached there", 1)
    return Store(root, Stats())


def _listing(store: Store) -> list[Listed]:
    from habana_tf.trust import Refused

    try:
        return store.listing()
    except (Refused, OSError) as error:
        raise CommandError(str(error), 1) from error


def _only_match(rows: list[Listed], wanted: str, root: str) -> Listed:
    good = [row for row in rows if row.header is not None]
    found = [row for row in good if _header(row)["name"] == wanted]
    found = found or [row for row in good if _header(row)["digest"].startswith(wanted.lower())]
    if not found:
        raise CommandError(f"no recipe in {root} is called {wanted!r} or has a key that starts so", 1)
    if len(found) > 1:
        which = "\n".join(f"  {_header(row)['digest']}  {_tensors(_header(row), 'inputs')}" for row in found)
        raise CommandError(f"{len(found)} recipes match {wanted!r}; name one by its key:\n{which}", 1)
    return found[0]


def _header(row: Listed) -> dict[str, Any]:
    assert row.header is not None, "only rows with a header are shown"
    return row.header


def _op_count(row: Listed) -> int:
    ops = _header(row).get("ops")
    return sum(ops.values()) if isinstance(ops, dict) else 0


def _ops(row: Listed) -> str:
    ops = _header(row).get("ops") or {}
    return ", ".join(op if count == 1 else f"{count} {op}" for op, count in ops.items())


def _tensors(header: Any, which: str) -> str:
    return ", ".join(tensor(each) for each in header.get(which) or [])


def _line(row: Listed) -> list[str]:
    header = _header(row)
    return [
        header["name"],
        header["digest"][:_KEY_DIGITS],
        _shortened(_ops(row)),
        _shortened(_tensors(header, "inputs")),
        size(row.file_bytes),
        duration(header["compile_seconds"]),
        moment(row.last_used),
    ]


def _folded_line(rows: list[Listed]) -> list[str]:
    names = sorted({op for row in rows for op in _header(row)["ops"]})
    return [
        f"({len(rows)} one-op recipes)",
        "",
        _shortened(", ".join(names)),
        "",
        size(sum(row.file_bytes for row in rows)),
        duration(sum(_header(row)["compile_seconds"] for row in rows)),
        moment(max(row.last_used for row in rows)),
    ]


def _shortened(text: str, limit: int = 60) -> str:
    """Lists in a table line end where they get long; `show` has them whole."""
    return text if len(text) <= limit else text[: limit - 3].rsplit(",", 1)[0] + ", ..."


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        items = (f"{{{_plain(item)}}}" if isinstance(item, dict) else _plain(item) for item in value)
        return "[" + ", ".join(items) + "]"
    return str(value)
