"""The memory of signatures: what counts as a change, what is said, and what the report shows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import numpy as np
import pytest

from habana_tf.cluster.signature import Signature
from habana_tf.resolver import paced_log, recompilations
from habana_tf.resolver.recompilations import History, Met, history, record, record_one_op

NAMES = ("image", "label", "dims")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    recompilations.reset()
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
    yield
    recompilations.reset()


def signature(batch: int, size: int = 8, dims: int | None = None) -> Signature:
    values = [None, None, None if dims is None else np.array([dims, 10], np.int32)]
    return Signature.of([(batch, size, size, 1), (batch,), (2,)], values)


def meet(known: History, met: Signature, recipe: str = "compiled", seconds: float = 0.25) -> tuple[str, ...]:
    changed = known.changes(met)
    record(known, Met(met, changed, recipe, seconds))
    return tuple(map(str, changed))


def test_changes_name_the_input_and_the_axis() -> None:
    known = history("key", "step", 5, NAMES)
    assert meet(known, signature(64, dims=64)) == ()
    assert meet(known, signature(29, dims=29)) == (
        "input 'image' axis 0: 64 -> 29", "input 'label' axis 0: 64 -> 29", "input 'dims' value 0: 64 -> 29",
    )  # fmt: skip


def test_changes_are_from_the_nearest_earlier_signature() -> None:
    known = history("key", "step", 5, NAMES)
    meet(known, signature(64, 8))
    meet(known, signature(32, 9))
    assert meet(known, signature(64, 9)) == (
        "input 'image' axis 0: 32 -> 64", "input 'label' axis 0: 32 -> 64",
    )  # fmt: skip


def test_another_rank_is_a_change_of_its_own() -> None:
    known = history("key", "step", 5, NAMES[:2])
    meet(known, Signature.of([(4,), (3,)], [None, None]))
    assert meet(known, Signature.of([(4,), (3, 1)], [None, None])) == ("input 'label': the rank changed",)


def test_long_values_are_one_slot() -> None:
    known = history("key", "step", 5, NAMES[:1])
    meet(known, Signature.of([(100,)], [np.arange(100)]))
    assert meet(known, Signature.of([(100,)], [np.arange(100) + 1])) == ("input 'image': the value changed",)


def test_a_recompilation_is_said_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    paced_log.sum_up()
    monkeypatch.setattr(paced_log, "_next", 0.0)
    known = history("key", "step", 5, NAMES)
    with caplog.at_level(logging.INFO, logger="habana_tf"):
        meet(known, signature(64))
        meet(known, signature(29))
        meet(known, signature(29))
        meet(known, signature(30), "cache")
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == (
        "step met a new shape, input 'image' axis 0: 64 -> 29 and 1 more: compiled a recipe for this shape in 250 ms"
    )


def test_of_many_signatures_counts_and_the_last_are_kept() -> None:
    known = history("key", "step", 5, NAMES)
    for n in range(1, 1001):
        meet(known, signature(n), "compiled" if n < 3 else "known")
    meet(known, signature(1000))
    assert [m.signature.numbers[0] for m in known.met] == list(range(1001 - recompilations.MOST_MET, 1001))
    report = recompilations.recompilation_report()
    earlier = 1000 - recompilations.MOST_MET
    assert report.compiled == 2 and report.clusters[0].earlier == earlier
    (found,) = json.loads(report.to_json())["clusters"]
    assert (found["recipes"], found["earlier"]) == ({"compiled": 2, "known": 998}, earlier)
    assert len(found["signatures"]) == recompilations.MOST_MET
    text = str(report)
    assert f"{earlier} before these" in text and "2 compiled, 998 known" in text and "first seen" not in text


def test_the_clusters_met_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompilations, "MOST_CLUSTERS", 3)
    for name in ("a", "b", "c", "a", "d"):
        meet(history(name, name, 5, NAMES), signature(len(name)))
    assert [c.name for c in recompilations.recompilation_report().clusters] == ["c", "a", "d"]


def test_the_report_is_a_table_and_json() -> None:
    known = history("key", "step", 5, NAMES)
    meet(known, signature(64))
    record(known, Met(signature(29), known.changes(signature(29)), "compiled", 0.5, (("s0", 29),)))
    record(known, Met(signature(7), known.changes(signature(7)), "known", 0.001, (("s0", 7),)))
    for recipe in ("compiled", "known", "known"):
        record_one_op("AddV2", recipe)
    report = recompilations.recompilation_report()
    assert report.compiled == 2
    data = json.loads(report.to_json())
    assert data["one_op"] == {"AddV2": {"compiled": 1, "known": 2}}
    first, second, third = data["clusters"][0]["signatures"]
    assert first["changed"] == [] and first["recipe"] == "compiled"
    assert second["changed"][0] == {"input": "image", "where": "", "axis": 0, "value": False, "from": 64, "to": 29}
    assert (second["ms"], second["range"], third["recipe"]) == (500.0, {"s0": 29}, "known")
    text = str(report)
    assert "'image' axis 0: 64 -> 29" in text and "s0 = 7" in text and "1 compiled, 2 known" in text
