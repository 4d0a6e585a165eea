"""The list has what TensorFlow computes and HPU does not, most used first, each with where it belongs."""

from __future__ import annotations

import pytest
import tensorflow as tf

from habana_tf.tensorflow.lowering.table import FAMILIES, rows
from tests.missing_ops import __main__ as command
from tests.missing_ops import missing


@pytest.fixture(scope="module")
def listed() -> dict[str, missing.Missing]:
    return {each.op: each for each in missing.missing()}


def test_what_is_listed_runs_on_the_cpu_and_has_no_row(listed: dict[str, missing.Missing]) -> None:
    assert not listed.keys() & rows().keys()
    assert all(hasattr(tf.raw_ops, op) for op in listed)
    assert listed["Svd"].family == "linalg" and listed["Svd"].module == "linalg"
    assert listed["Betainc"].real_card == "not known"
    assert listed["CombinedNonMaxSuppression"].real_card == "HPU"
    assert listed["Betainc"].module == "special" and not listed["Betainc"].new_module
    assert all(each.new_module == (each.module is not None and each.module not in FAMILIES) for each in listed.values())


@pytest.mark.parametrize(
    "op",
    ["StringUpper", "LookupTableFindV2", "ReadFile", "FFT", "ReadVariableOp", "While", "Assign", "BatchCholesky"],
)
def test_what_has_no_place_on_a_card_is_not_listed(op: str, listed: dict[str, missing.Missing]) -> None:
    """Strings, tables, files, complex numbers; what every device has; references; what is outdated."""
    assert op not in listed


def test_the_most_used_come_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"Svd": (0, 2), "Betainc": (3, 0), "Qr": (0, 1)}
    counted = {"uses": counts, "networks": 9, "cases": 99, "keras": "2.15.0"}
    for module in (missing, command):
        monkeypatch.setattr(module, "uses", lambda: counted)
    listed = command.chosen(missing.missing(), ())
    assert [each.op for each in listed if each.networks + each.cases] == ["Betainc", "Svd", "Qr"]
    assert listed[0].op == "Betainc" and (listed[0].networks, listed[0].cases) == (3, 0)
    families = [each.family for each in listed]
    assert list(dict.fromkeys(families))[:2] == ["math", "linalg"], "by their most used op"
    assert all(families.index(f) + families.count(f) == len(families) - families[::-1].index(f) for f in families)
    command.main(())
    text = capsys.readouterr().out
    assert "of 9 networks and of 99 layers" in text
    assert text.index("Betainc") < text.index("Svd") < text.index("Cholesky")


def test_names_and_families_choose(listed: dict[str, missing.Missing]) -> None:
    found = command.chosen(list(listed.values()), ("linalg", "betainc"))
    assert {each.family for each in found} == {"linalg", "math"}
    assert [each.op for each in found if each.family == "math"] == ["Betainc"]


def test_the_counts_are_of_ops() -> None:
    data = missing.uses()
    assert data["uses"]["MatMul"][0] >= 20 and data["uses"]["Conv2D"][0] >= 15
    assert all(n <= data["networks"] and m <= data["cases"] for n, m in data["uses"].values())
