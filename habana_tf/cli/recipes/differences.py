"""`habana-tf recipes explain` and `diff`: why a run missed, and how two recipes differ."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from habana_tf.cli.output import CommandError, moment, print_json, print_table
from habana_tf.cli.recipes.changes import WHAT, changes
from habana_tf.cli.recipes.common import (
    KEY_DIGITS,
    action,
    add_recipe,
    header,
    only_match,
    opened,
    ops_text,
    rows_of,
)
from habana_tf.files.escaped import escaped
from habana_tf.reports.table import Styled, printable
from habana_tf.reports.units import duration, operations, size

if TYPE_CHECKING:
    from habana_tf.cache import Difference, Listed, Miss


def declare_explain(parser: argparse.ArgumentParser) -> None:
    action(
        parser,
        _explain,
        "explain",
        "explain --run HOST-4711-19c3",
        "explain cluster_2cb107ca5327          against the recipe that is most like it",
    )
    add_recipe(parser, nargs="?")
    parser.add_argument("--run", dest="of_run", metavar="RUN", help="another run (see `stats`)")
    parser.add_argument("--all", action="store_true", help="also a line for each single op (eager ops)")


def declare_diff(parser: argparse.ArgumentParser) -> None:
    action(parser, _diff, "diff 8c6e 432c", "diff 8c6e 432c --json")
    add_recipe(parser, "left")
    add_recipe(parser, "right")


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.recipe is not None:
        if arguments.of_run is not None:
            raise CommandError("a recipe or --run, not both", 2)
        return _explain_one(arguments)
    from habana_tf import cache

    reader = opened(arguments)
    if arguments.of_run is not None and all(run.run != arguments.of_run for run in cache.runs(reader.root)):
        raise CommandError(f"no run in the journal of {reader.root} is called {arguments.of_run!r}: see `stats`", 1)
    missed = cache.misses(reader.root, arguments.of_run)
    if arguments.json:
        print_json({"path": reader.root, "misses": [miss.to_json() for miss in missed]})
        return 0
    if not missed:
        print(f"nothing was missed, in {escaped(reader.root)}")
        return 0
    rows = []
    single = [miss for miss in missed if not arguments.all and _is_one_op(miss)]
    for miss in missed:
        if miss in single:
            continue
        name, key = Styled(miss.event.name or "?", "cyan"), miss.event.digest[:KEY_DIGITS]
        if miss.cause is not None:
            rows.append([name, key, "itself", "", miss.cause])
            continue
        if miss.event.nearest is None or any(each.name in WHAT for each in miss.differences):
            rows.append([name, key, "none of the same", "", "no recipe of it was there"])
            continue
        lines = _lines(miss.differences)
        rows.append([name, key, f"{miss.nearest or '(gone)'} {miss.event.nearest[:KEY_DIGITS]}", *lines[0]])
        rows += [["", "", "", *line] for line in lines[1:]]
    print_table(["missed", "key", "nearest recipe", "differs in", "nearest -> asked for"], rows)
    if single:
        names = ", ".join(sorted({miss.event.name for miss in single}))
        print(f"\nand {len(single)} single ops (--all): {printable(names)}")
    run = printable(missed[0].event.run)
    print(f"\n{len(missed)} misses of the run {run}, which began to miss {moment(missed[0].event.time)}")
    return 0


def _is_one_op(miss: Miss) -> bool:
    """Whether an eager op was missed: its key has the program that it lowers to."""
    return any(each.name == "program" and each.left is not None for each in miss.differences)


def _explain_one(arguments: argparse.Namespace) -> int:
    """A recipe against the one that is nearest."""
    from habana_tf import cache
    from habana_tf.cache.nearest import Candidate, nearest

    reader = opened(arguments)
    good, _ = rows_of(reader)
    row = only_match(good, arguments.recipe, reader.root)
    keys = {header(each)["digest"]: cache.Key.of(map(tuple, header(each)["key"])) for each in good}
    mine = keys.pop(header(row)["digest"])
    found = nearest(mine, (Candidate.of(key, "", 0.0) for key in keys.values()))
    if found is None:
        raise CommandError(f"no other recipe in {reader.root} has anything in common with {arguments.recipe}", 1)
    other = next(each for each in good if header(each)["digest"] == found.digest)
    return _compare(arguments, other, row)


def _diff(arguments: argparse.Namespace) -> int:
    reader = opened(arguments)
    good, _ = rows_of(reader)
    return _compare(arguments, *(only_match(good, w, reader.root) for w in (arguments.left, arguments.right)))


def _compare(arguments: argparse.Namespace, left: Listed, right: Listed) -> int:
    from habana_tf import cache

    differences = cache.explain(left, right)
    facts = [(name, a, b) for (name, a), (_, b) in zip(_facts(left), _facts(right), strict=True) if a != b]
    if arguments.json:
        sides = {"left": header(left)["digest"], "right": header(right)["digest"]}
        rows = [{"fact": name, "left": a, "right": b} for name, a, b in facts]
        print_json({**sides, "key": [each.to_json() for each in differences], "facts": rows})
        return 0
    print_table(["", "left", "right"], facts)
    print()
    if not differences:
        print("the keys are equal")
        return 0
    lines = _lines(differences, swapped=False)
    print_table(["part of the key", "left -> right"], lines)
    return 0


def _lines(differences: tuple[Difference, ...] | list[Difference], swapped: bool = True) -> list[tuple[str, str]]:
    """(part, change) per change. swapped: the left side is the requested key, so it comes last."""
    out: list[tuple[str, str]] = []
    for each in differences:
        if each.left is None and each.right is None:
            out.append((Styled(each.name, "yellow"), "(one of the two recipes is gone)"))
            continue
        before, after = (each.right, each.left) if swapped else (each.left, each.right)
        texts = changes(each.name, before and before.value, after and after.value)
        out.append((Styled(each.name, "yellow"), texts[0]))
        out += [("", text) for text in texts[1:]]
    return out or [("", "nothing")]


def _facts(row: Listed) -> list[tuple[str, str]]:
    of = header(row)
    memory, kernels, flops = of.get("memory") or {}, of.get("kernels") or {}, of.get("flops")
    unknown = f"cannot be compiled: {of['failure']}" if "failure" in of else "depends on sizes"
    return [
        ("name", of["name"]),
        ("key", of["digest"][:KEY_DIGITS]),
        ("created", moment(of["created"])),
        ("compile time", duration(of["compile_seconds"])),
        ("file", size(row.file_bytes)),
        ("ops", ops_text(row)),
        ("kernels", ", ".join(f"{n} {engine}" for engine, n in kernels.items())),
        ("floating-point operations", unknown if flops is None else operations(flops)),
        ("workspace", size(memory["workspace_bytes"]) if "workspace_bytes" in memory else unknown),
        ("constants", size(memory.get("constant_bytes", 0))),
        ("tools", ", ".join(f"{name} {version}" for name, version in (of.get("tools") or {}).items())),
    ]
