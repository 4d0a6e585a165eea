"""The rules for where a lowering belongs hold for every lowering that there is, and CONTRIBUTING knows every module."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from habana_tf.tensorflow.lowering.table import FAMILIES, rows
from tests.missing_ops.families import RULES, module_of
from tests.missing_ops.missing import families

CONTRIBUTING = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def test_every_row_is_where_the_rules_say() -> None:
    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None and spec.submodule_search_locations
    of = families(spec.submodule_search_locations[0])
    astray = {
        op: (row.lower.__module__.rsplit(".", 1)[1], said)
        for op, row in rows().items()
        if op in of and row.lower.__module__ != f"habana_tf.tensorflow.lowering.{(said := module_of(op, of[op]))}"
    }
    assert not astray, f"op: (where it is, where the rules say): {astray}"


def test_every_module_has_a_rule() -> None:
    assert not set(FAMILIES) - {module for _, module in RULES}


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="not in a source tree")
def test_every_module_and_its_ops_are_in_contributing() -> None:
    lines = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", CONTRIBUTING.read_text(), re.MULTILINE)
    assert sorted(module for module, _ in lines) == sorted(FAMILIES)
    for module, examples in lines:
        names = re.findall(r"`(\w+)`", examples)
        assert names, module
        for op in names:
            assert rows()[op].lower.__module__ == f"habana_tf.tensorflow.lowering.{module}", (module, op)
