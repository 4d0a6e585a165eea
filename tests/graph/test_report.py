from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import tensorflow as tf

from habana_tf.graph import pipeline, report
from habana_tf.graph.reasons import Reason
from tests.graph.harness import Item, build, v1


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    report.reset()
    yield
    report.reset()


def make() -> None:
    x = v1.placeholder(tf.float32, (2,), "x")
    v1.py_func(lambda a: a, [tf.tanh(tf.abs(x)) + 1.0], tf.float32, name="seen")
    tf.tanh(x, name="pinned")


def test_one_line_and_one_record_per_graph(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("habana_tf")
    propagate, logger.propagate = logger.propagate, True
    try:
        with caplog.at_level(logging.INFO, logger="habana_tf"):
            data = pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
            assert data is not None and pipeline.optimize(data, Item()) is None
    finally:
        logger.propagate = propagate
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("graph of")]
    assert len(lines) == 1
    assert lines[0].startswith("graph of 7 nodes: 5 on HPU, 3 of them in 1 cluster; on the CPU: ")
    assert "PyFunc x1" in lines[0] and "Tanh x1 (placed on the CPU" in lines[0]
    assert len(report.placement_report().graphs) == 1


def test_the_report_is_a_table_and_json() -> None:
    for _ in range(2):
        pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
    got = report.placement_report()
    data = json.loads(got.to_json())
    assert [g["in_launches"] for g in data["graphs"]] == [3, 3]
    assert data["graphs"][0]["launches"][0]["ops"] == {"Abs": 1, "AddV2": 1, "Tanh": 1}
    reasons = {(r["op"], r["reason"], r["device"]): r["count"] for r in data["refused"]}
    assert reasons == {("Tanh", "PLACED_ON_CPU", "CPU"): 2, ("PyFunc", "SIDE_EFFECT", "CPU"): 2}
    text = str(got)
    assert "HPU placement" in text and data["graphs"][0]["launches"][0]["name"] in text and "PyFunc" in text


def test_the_last_graphs_are_kept_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_GRAPHS", 3)
    for n in range(10):
        report.remember(report.GraphRecord(n, n, n, (), {("Tanh", Reason.PLACED_ON_CPU, True): n}, 0.0))
    got = report.placement_report()
    assert [g.nodes for g in got.graphs] == [7, 8, 9] and got.earlier == 7
    data = json.loads(got.to_json())
    assert data["earlier"] == 7 and [(r["op"], r["count"]) for r in data["refused"]] == [("Tanh", 45)]
    assert "the last graphs of 10" in str(got)
    report.reset()
    assert report.placement_report() == report.PlacementReport(eager=report.placement_report().eager)


def test_a_line_names_a_few_ops_and_clusters_and_counts_the_rest() -> None:
    refused = {(f"Op{k}", Reason.NO_ROW, True): 9 - k for k in range(9)}
    record = report.GraphRecord(20, 5, 5, (), refused, 0.0)
    assert record.line().endswith("Op3 x6 (HPU has no such op) and 5 more ops")
    pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
    (graph,) = report.placement_report().graphs
    many = report.GraphRecord(20, 5, 5, graph.launches * 600, refused, 0.0)
    assert "and 596 more" in " ".join(str(report.PlacementReport.of([many])).split())
    assert len(json.loads(report.PlacementReport.of([many]).to_json())["graphs"][0]["launches"]) == 600


def test_host_work_under_the_cards_name_is_the_cpus() -> None:
    def unique() -> None:
        y, _ = tf.unique(v1.placeholder(tf.int64, (None,), "i"), name="unique")
        tf.sqrt(tf.cast(y, tf.float32) + 1.0, name="on_hpu")

    pipeline.optimize(build(unique).SerializeToString(), Item())
    (graph,) = report.placement_report().graphs
    assert graph.refused == {("Unique", Reason.NO_ROW, True): 1}
    assert (graph.nodes, graph.on_hpu, graph.in_launches) == (6, 5, 3)
    assert graph.line().endswith("; on the CPU: Unique x1 (HPU has no such op)")
    assert report.refused_rows(graph.refused)[0]["device"] == "CPU"
