"""The table of docs/special-values.md: every row of the op table by kinds of special value.

    make docs-values

writes that part of the page anew, after comparing every op with stock TensorFlow (a minute or two of processor time).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

if __name__ == "__main__":
    import os

    os.environ["TESTS_THOROUGH"] = "1"
    sys.path.append(str(Path(__file__).parents[3]))

from special_values import EXTREMES, KINDS, data_types, examples, outcome
from tensorflow.python.framework import op_def_registry

from habana_tf.tensorflow.lowering.table import rows

PAGE = Path(__file__).parents[3] / "docs" / "special-values.md"
TITLE = "## Every op"
COLUMNS = (*KINDS, EXTREMES)

UNTRIED = {
    **dict.fromkeys(
        ("BatchMatrixDiag", "BatchMatrixDiagPart", "BatchMatrixSetDiag"), "TensorFlow's kernels refuse them by now"
    ),
    "AccumulateNV2": "TensorFlow has no kernel for it: it becomes `AddN`, which is tried",
    "Multinomial": "it draws from a state that counts on; `StatelessMultinomial`, of the same lowering, is tried",
    "SegmentSumV2": "TensorFlow's CPU has no kernel for it; `SegmentSum`, of the same lowering, is tried",
}
"""Rows that take floats and are not tried, each with the reason."""

Profile = tuple[str, ...]
"""A mark per column: "=" as TensorFlow, "≠" not, "-" takes no such values."""


def known() -> list[str]:
    """The rows that this release of TensorFlow has."""
    return [op for op in rows() if op_def_registry.get(op) is not None]


def tried() -> list[str]:
    """The rows that take floats, or numbers of a type that may be one."""
    return [op for op in known() if op not in UNTRIED and data_types(rows()[op])]


def profile(op: str) -> Profile:
    made = examples(rows()[op])
    return tuple(outcome(rows()[op], kind, made).mark for kind in COLUMNS)


def markdown(profiles: Mapping[str, Profile]) -> str:
    """The part of the page: ops with the same profile share a line, the most of them first."""
    groups: dict[Profile, list[str]] = {}
    for op, found in sorted(profiles.items()):
        groups.setdefault(found, []).append(op)
    lines = [
        TITLE,
        "",
        "`=`: what TensorFlow's CPU kernel gives, in every place. `≠`: not in every place, see above. `-`: there is",
        "no place for such values, or TensorFlow refuses them.",
        "",
        "| " + " | ".join((*COLUMNS, "ops")) + " |",
        "|" + "---|" * (len(COLUMNS) + 1),
    ]
    for found, ops in sorted(groups.items(), key=lambda group: ("≠" in group[0], -len(group[1]), group[1])):
        lines.append("| " + " | ".join((*found, _listed(ops))) + " |")
    lines += ["", "Not tried:", ""]
    reasons: dict[str, list[str]] = {}
    for op, reason in UNTRIED.items():
        reasons.setdefault(reason, []).append(op)
    lines += [f"- {_listed(ops)}: {reason}" for reason, ops in reasons.items()]
    without = sorted(op for op in known() if op not in profiles and op not in UNTRIED)
    lines += [f"- {_listed(without)}: they take no numbers but shapes, positions, seeds and states"]
    return "\n".join(lines) + "\n"


def _listed(ops: list[str]) -> str:
    return ", ".join(f"`{op}`" for op in ops)


def documented() -> dict[str, Profile]:
    """The profiles that the page has."""
    found = {}
    for line in _part().splitlines():
        *marks, ops = line.strip("| ").split(" | ")
        if line.startswith("| ") and len(marks) == len(COLUMNS) and ops.startswith("`"):
            found.update({op: tuple(marks) for op in re.findall(r"`(\w+)`", ops)})
    return found


def reasons() -> dict[str, set[str]]:
    """Kinds of values by op for which the page says why they differ."""
    out: dict[str, set[str]] = {}
    for ops, kinds, _ in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", PAGE.read_text().split(TITLE)[0], re.M):
        for op in re.findall(r"`(\w+)`", ops):
            out.setdefault(op, set()).update(kinds.split(", "))
    return out


def _part() -> str:
    """The part of the page that is generated; it is the last."""
    return PAGE.read_text()[PAGE.read_text().index(TITLE) :]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    before = PAGE.read_text().split(TITLE)[0]
    PAGE.write_text(before + markdown({op: profile(op) for op in tried()}))
