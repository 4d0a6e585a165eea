"""The record of the runtime, without TensorFlow: what is in it, when, and that it costs memory only while it is on."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest

from habana_tf._native import _bridge
from habana_tf.card.timeline.record import EventKind, Record, TimelineRecording


def program(name: str) -> _bridge.Program:
    """A program of no kernels, which an empty function interprets."""
    return _bridge.make_interpreted(name, [], [], lambda inputs, outputs, states: None)


def launch(made: _bridge.Program, times: int) -> None:
    for _ in range(times):
        _bridge.run_program(made, [])


def launches(record: Record) -> int:
    return len(record.events(EventKind.LAUNCH))


def test_launches_are_recorded_while_somebody_does_and_only_then() -> None:
    made = program("here")
    launch(made, 3)
    recording = TimelineRecording()
    before = time.monotonic_ns()
    launch(made, 5)
    after = time.monotonic_ns()
    record = recording.read()
    recording.stop()
    launch(made, 7)
    found = record.events(EventKind.LAUNCH)
    assert len(found) == 5 and record.dropped == 0
    assert all(before <= e.start <= e.end <= after for e in found)
    assert {record.programs[e.subject] for e in found} == {"here"}
    assert {e.subject for e in found} == {_bridge.program_number(made)}
    again = TimelineRecording()
    assert launches(again.read()) == 0
    again.stop()


def test_a_recording_reads_from_its_own_beginning() -> None:
    made = program("here")
    outer = TimelineRecording()
    launch(made, 2)
    inner = TimelineRecording()
    launch(made, 3)
    assert launches(inner.read()) == 3
    inner.stop()
    launch(made, 4)
    assert launches(outer.read()) == 9
    outer.stop()
    with pytest.raises(ValueError, match="call read\\(\\) before stop"):
        outer.read()
    outer.stop()  # changes nothing


def test_each_thread_has_its_own_events_in_order() -> None:
    made = [program(f"of thread {k}") for k in range(4)]
    recording = TimelineRecording()
    threads = [threading.Thread(target=launch, args=(each, 5000)) for each in made]
    for each in threads:
        each.start()
    seen = [launches(recording.read()) for _ in range(20)]  # while they write
    for each in threads:
        each.join(60)
    record = recording.read()
    recording.stop()
    assert seen == sorted(seen)
    assert sorted(len(t.events) for t in record.threads) == [5000] * 4  # more than a chunk each
    for each in record.threads:
        assert len({e.subject for e in each.events}) == 1
        assert all(a.end <= b.start for a, b in itertools.pairwise(each.events))


def test_what_does_not_fit_is_counted() -> None:
    made = program("many")
    recording = TimelineRecording()
    total = 512 * 2048 + 3000  # kMostChunks * kChunkEvents and some
    launch(made, total)
    record = recording.read()
    recording.stop()
    assert launches(record) + record.dropped == total
    assert record.dropped > 0
    again = TimelineRecording()
    launch(made, 2)
    assert (launches(again.read()), again.read().dropped) == (2, 0)
    again.stop()


def test_calls_are_in_their_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from habana_tf.compiler.compile import compile_program
    from habana_tf.compiler.recipe import bind
    from habana_tf.hardware.cpu import target
    from tests.cli.recipes.conftest import OUT, WIDTH, layer

    recipe: Any = compile_program(layer(64), "step", target())
    bound = bind(recipe, [], None, target())
    recording = TimelineRecording()
    inputs = [np.ones((64, WIDTH), np.float32), np.ones((WIDTH, OUT), np.float32)]
    for _ in range(3):
        _bridge.run_program(bound, inputs)
    record = recording.read()
    recording.stop()
    (thread,) = record.threads
    outer = [e for e in thread.events if e.kind == EventKind.LAUNCH]
    calls = [e for e in thread.events if e.kind == EventKind.KERNEL_CALL]
    assert len(outer) == 3 and len(recipe.calls) > 1
    for e in outer:
        mine = [c for c in calls if e.start <= c.start and c.end <= e.end]
        assert [c.detail for c in mine] == list(range(len(recipe.calls))) and e.detail == len(recipe.calls)
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))
