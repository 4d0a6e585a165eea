from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.graph import pipeline
from tests.tensorflow.graph.harness import Item, build, v1


def dumps(level: str | None, where: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def make() -> None:
        tf.tanh(tf.abs(v1.placeholder(tf.float32, (2,), "x")))

    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", str(where))
    if level is None:
        monkeypatch.delenv("HBN_TF_GRAPH_DUMP", raising=False)
    else:
        monkeypatch.setenv("HBN_TF_GRAPH_DUMP", level)
    assert pipeline.optimize(build(make).SerializeToString(), Item()) is not None
    return sorted(p.name for p in where.iterdir()) if where.exists() else []


def test_numbered_dumps_of_every_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dumps("2", tmp_path / "new", monkeypatch)
    phases = [n.split("_")[-1].removesuffix(".pbtxt") for n in names]
    assert phases == ["placed", *(name for name, _ in pipeline.PHASES)]
    last = text_format.Parse((tmp_path / "new" / names[-1]).read_text(), graph_pb2.GraphDef())
    assert any(n.op == "HpuLaunch" for n in last.node)


def test_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dumps("0", tmp_path / "none", monkeypatch) == []
    assert len(dumps(None, tmp_path / "one", monkeypatch)) == 1


def test_a_dump_that_fails_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", str(tmp_path / "file" / "below"))
    monkeypatch.setenv("HBN_TF_GRAPH_DUMP", "2")
    graph = build(lambda: tf.tanh(tf.abs(v1.placeholder(tf.float32, (2,), "x"))))
    assert pipeline.optimize(graph.SerializeToString(), Item()) is not None
