"""`habana-tf recipes show`: everything about one recipe."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError, moment, painted, print_json, print_table
from habana_tf.cli.recipes import contents
from habana_tf.cli.recipes.common import (
    action,
    add_recipe,
    entry_of,
    header,
    only_match,
    opened,
    ops_text,
    plain,
    rows_of,
    tensors,
)
from habana_tf.cli.recipes.predicted import NOTE, as_json, predictions
from habana_tf.reports.bar import bar
from habana_tf.reports.layer_names import layer
from habana_tf.reports.table import Styled, printable
from habana_tf.reports.units import BYTES, OPERATIONS, Units, alike, briefly, counted, duration, few, operations, size

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.cache.listing import Listed
    from habana_tf.card.clock.predicted import LaunchPrediction
_SHOWN_APART = {"name", "digest", "key", "created", "compile_seconds", "sections", "parts", "ops", "inputs", "outputs",
                "kernels", "flops", "framework", "scopes", "takes", "work", "failure", "signature"}  # fmt: skip
_NAMES = 3
ENGINES = {"MME": "magenta", "TPC": "green"}


def declare(parser: argparse.ArgumentParser) -> None:
    action(
        parser,
        _show,
        "show                          what took longest to compile",
        "show cluster_2cb107ca5327",
        "show 8c6e --ops",
        "show 432c --sizes 64          a recipe for a range of sizes, looked at for one",
    )
    add_recipe(
        parser, nargs="?", help="its name, or the first digits of its key; the one that took longest if not given"
    )
    parser.add_argument("--ops", action="store_true", help="also a line for each op of the cluster")
    parser.add_argument("--quick", action="store_true", help="without predictions, which import TensorFlow")
    parser.add_argument("--sizes", metavar="N", type=whole(1, 2**62), nargs="+", default=[],
                        help="values for the sizes that a recipe leaves open (s0, s1, ...)")  # fmt: skip


def _longest(rows: list[Listed], root: str) -> Listed:
    """The recipe that took longest to compile: mostly a training step."""
    if not rows:
        raise CommandError(f"no recipe is in {root}", 1)
    return max(rows, key=lambda row: (header(row)["compile_seconds"], header(row)["digest"]))


def _show(arguments: argparse.Namespace) -> int:
    reader = opened(arguments)
    good, _ = rows_of(reader)
    row = _longest(good, reader.root) if arguments.recipe is None else only_match(good, arguments.recipe, reader.root)
    entry = entry_of(reader, row)
    plan = None if not arguments.sizes and contents.symbols(entry) else contents.plan(entry, arguments.sizes)
    times, why = ({}, "") if arguments.quick else predictions(entry, arguments.sizes)
    if arguments.json:
        print_json(
            {
                **row.to_json(),
                "section_bytes": {name: len(data) for name, data in entry.sections.items()},
                "kernels": contents.kernels(entry),
                "ops": [asdict(op) for op in contents.ops(entry)],
                "plan": None if plan is None else asdict(plan),
                "predicted": as_json(times),
                "not_predicted": why,
            }
        )
        return 0
    _print_facts(row, entry)
    _print_kernels(entry)
    _print_predictions(times, why)
    _print_plan(entry, plan)
    if arguments.ops:
        _print_ops(entry)
    _print_sections(entry)
    print()
    print_table(["part of the key", "value"], [(part.name, _wrappable(plain(part.value))) for part in entry.key.parts])
    return 0


def _wrappable(text: str) -> str:
    """A list of hundreds of features without blanks, with some."""
    return text if " " in text else text.replace(",", ", ")


def _print_facts(row: Listed, entry: Entry) -> None:
    of = header(row)
    flops = of.get("flops")
    facts = [
        ("name", Styled(entry.name, "cyan")),
        ("key", entry.digest),
        ("file", row.path),
        ("size", f"{size(row.file_bytes)}, digest verified" + (", signed" if "signature" in of else "")),
        ("created", moment(of["created"])),
        ("last use", moment(row.last_used)),
        ("compile time", duration(entry.compile_seconds)),
        ("program of", of.get("framework", "TensorFlow")),
        ("cannot be compiled", Styled(entry.failure or "", "red")),
        ("ops in scope", ", ".join(f"{name} ({count})" for name, count in (of.get("scopes") or {}).items())),
        ("ops", ops_text(row)),
        ("inputs", tensors(of, "inputs")),
        ("outputs", tensors(of, "outputs")),
        ("floating-point operations", "" if flops is None else operations(flops)),
        *((name, plain(value)) for name, value in of.items() if name not in _SHOWN_APART),
    ]
    print_table(["", ""], [(name, text) for name, text in facts if text])


def _print_kernels(entry: Entry) -> None:
    kernels, ops = contents.kernels(entry), contents.ops(entry)
    if not kernels:
        return
    flops, nbytes = _column([k["flops"] for k in kernels], OPERATIONS), _column([k["bytes"] for k in kernels], BYTES)
    least = [k["at_least_seconds"] for k in kernels]
    whole = None if None in least else sum(least)
    times = ["-"] * (len(least) + 1) if whole is None else briefly([*least, whole])
    lines = []
    for number, kernel in enumerate(kernels):
        names = list(dict.fromkeys(layer(ops[k].name) for k in kernel["ops"]))
        lines.append(
            [
                str(number),
                Styled(kernel["engine"], ENGINES[kernel["engine"]]),
                kernel["does"],
                "[" + ",".join(map(str, kernel["shape"])) + "]",
                counted(kernel["fused"]),
                flops[number],
                nbytes[number],
                times[number],
                f"{least[number] / whole:.1%}" if whole else "-",
                few(names, _NAMES),
            ]
        )
    lines.append(["all", "", "", "", "", flops[-1], nbytes[-1], times[-1], "100.0%" if whole else "-", ""])
    print()
    columns = [">kernel", "engine", "does", "over", "fused", ">flops", ">bytes", ">at least", ">share", "layers"]
    print_table(columns, lines)
    from habana_tf.hardware.chips import chip
    from habana_tf.hardware.roofline import said

    print(printable(said(chip())))


def _column(numbers: list[Any], units: Units) -> list[str]:
    """Numbers in one unit and their sum below them; what depends on sizes as it is, and then no sum."""
    if not all(isinstance(n, int) for n in numbers):
        return [*map(str, numbers), "-"]
    return alike([*numbers, sum(numbers)], units)


def _print_predictions(times: dict[str, LaunchPrediction], why: str) -> None:
    if why:
        print(f"\nnot predicted: {printable(why)}")
    if not times:
        return
    columns = ([p.seconds or 0.0 for p in times.values()], [p.matrix for p in times.values()],
               [p.vector for p in times.values()])  # fmt: skip
    cells = zip(times.items(), *map(briefly, columns), strict=True)
    rows = [[chip, whole, matrix, vector, str(p.units), p.bound] for (chip, p), whole, matrix, vector in cells]
    print()
    print_table(["chip", ">predicted", ">MME", ">TPC", ">units", "bound by"], rows)
    print(NOTE)


def _print_plan(entry: Entry, plan: contents.MemoryPlan | None) -> None:
    if plan is None:
        if open_sizes := contents.symbols(entry):
            names = ", ".join(f"s{k}" for k in range(open_sizes))
            print(f"\nmemory plan: depends on {names}; pass --sizes to see it")
        return
    print(f"\nworkspace {size(plan.total)}, at most {size(plan.peak)} alive at once, in {plan.launches} kernel calls:")
    print(f"  {painted(bar(plan.alive()), 'blue')}")


def _print_ops(entry: Entry) -> None:
    lines = [
        [str(k), op.type, ", ".join(map(str, op.kernels)) or "-", op.name] for k, op in enumerate(contents.ops(entry))
    ]
    print()
    print_table([">op", "type", "kernels", "name"], lines)


def _print_sections(entry: Entry) -> None:
    stored = {section["name"]: section["stored"] for section in entry.header["sections"]}
    names = [*entry.sections]
    lengths, on_disk = alike([*map(len, entry.sections.values())], BYTES), alike([stored[n] for n in names], BYTES)
    rows = list(zip(names, lengths, on_disk, strict=True))
    print()
    print_table(["section", ">size", ">on disk"], rows)
