"""Every row of the op table is compared with TensorFlow by a test of this folder, as far as their sources tell.

An op is named by an attribute (`raw.AddV2`), by a string ("AddV2"), or by an f-string with strings of the same file in
its gaps (f"UnsortedSegment{kind}", kind one of "Sum", "Prod", ...). Docstrings and comments name nothing.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from habana_tf.tensorflow.lowering.table import rows

HERE = Path(__file__).parent
ABOUT_THE_TABLE = {"test_coverage.py", "test_catalog.py", Path(__file__).name}
"""Files with lists of ops that they do not compute."""

UNNAMED = {"Const": "every number and array in a callable that the harness compares is one"}
"""Rows that no test names, each with the reason."""


def named(source: str, ops: set[str]) -> set[str]:
    """Those of `ops` that a file names."""
    tree = ast.parse(source)
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words, patterns = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
            if node.attr.startswith("xla_"):  # XLA's ops are called by functions of their own
                words.add("".join(part.capitalize() for part in node.attr.split("_")))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            words.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"(\w+)" for p in node.values]
            patterns.append(re.compile("".join(parts)))
    found = ops & words
    for pattern in patterns:
        found |= {op for op in ops if (match := pattern.fullmatch(op)) and words.issuperset(match.groups())}
    return found


def test_every_row_is_named_by_a_test() -> None:
    ops = set(rows())
    found = {op for path in HERE.glob("*.py") if path.name not in ABOUT_THE_TABLE
             for op in named(path.read_text(), ops)}  # fmt: skip
    assert ops - found <= set(UNNAMED)


def test_what_names_an_op() -> None:
    ops = {"Add", "Sub", "SegmentSum", "SegmentMax"}
    assert named("raw.Add(x)", ops) == {"Add"}
    assert named('"""Add"""\n# Add\ncheck("Sub")', ops) == {"Sub"}
    assert named('[f"Segment{k}" for k in ("Sum",)]', ops) == {"SegmentSum"}
