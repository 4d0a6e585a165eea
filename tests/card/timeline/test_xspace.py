"""An XSpace made of a part, read back by TensorFlow's messages."""

from __future__ import annotations

from habana_tf.card.timeline import xspace
from tests.card.timeline.messages import names, plane, stats
from tests.card.timeline.messages import xspace as read
from tests.card.timeline.parts import MS, part

PS = 1000
"""Picoseconds in a nanosecond."""


def test_the_host_s_plane_has_calls_in_launches() -> None:
    of = plane(read(xspace.space(part(monotonic=7 * MS), 10**12, 2**30)), xspace.HPU_PLANE)
    (line,) = of.lines
    assert line.timestamp_ns == 10**18 + MS  # the time of day when recording began
    assert names(of, line) == [
        "compiled step", "launch step", "net/dense/MatMul", "net/dense/Relu", "MEMCPYHtoD", "launch step"]  # fmt: skip
    spans = [(e.offset_ps // PS // 1000, e.duration_ps // PS // 1000) for e in line.events]
    assert spans == [(0, 1000), (1000, 1000), (1000, 600), (1600, 400), (2000, 1), (3000, 1000)]
    found = [stats(of, e) for e in line.events]
    assert found[2]["tf_op"] == "net/dense/MatMul:MatMul" and found[2]["flops"] == 76800
    assert found[3]["tf_op"] == "net/dense/Relu:Relu" and found[3]["engine"] == "TPC"
    assert [f.get("correlation_id") for f in found] == [None, 1, 1, 1, None, 2]
    assert found[4]["bytes"] == 4096
    caps = {of.stat_metadata[s.metadata_id].name: s for s in of.stats}
    assert caps["memory_bandwidth"].int64_value == 10**12 and caps["memory_size"].int64_value == 2**30


def test_the_card_s_plane_has_engines_in_its_own_clock() -> None:
    of = plane(read(xspace.space(part(), 1, 1)), xspace.CARD_PLANE)
    lines = {line.name: line for line in of.lines}
    assert list(lines) == ["launches", "MME", "TPC", "DMA to the card", "bundles"]
    spans = {name: [(e.offset_ps, e.duration_ps) for e in line.events] for name, line in lines.items()}
    us = 10**6
    assert spans == {
        "launches": [(0, 3 * us), (3 * us, 3 * us)],
        "MME": [(0, 2 * us), (3 * us, 2 * us)],
        "TPC": [(2 * us, us), (5 * us, us)],
        "DMA to the card": [(0, 128_000)],
        "bundles": [(0, 3 * us), (3 * us, 3 * us)],
    }
    assert names(of, lines["TPC"]) == ["net/dense/Relu"] * 2
    found = stats(of, lines["TPC"].events[0])
    assert (found["bound by"], found["bundle"], found["flops"]) == ("launch", "net/dense/MatMul", 1280)


def test_launches_are_given_to_tensorflow_s_threads() -> None:
    of = plane(read(xspace.space(part(), 1, 1)), xspace.HOST_PLANE)
    (line,) = of.lines
    assert line.id == 5000 + 2**40 and names(of, line) == ["launch step"] * 2
    assert [stats(of, e)["correlation_id"] for e in line.events] == [1, 2]
    (line,) = plane(read(xspace.space(part(), 1, 1, wide=False)), xspace.HOST_PLANE).lines
    assert line.id == 5000
