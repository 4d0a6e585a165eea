"""torch.hpu.Stream and torch.hpu.Event: order, waiting, times."""

from __future__ import annotations

from tests.torch.child import HAS_TORCH, on_device, raises

if HAS_TORCH:
    import torch


@on_device()
def test_streams_are_chosen_for_a_while() -> None:
    default, other = torch.hpu.default_stream(), torch.hpu.Stream()
    assert torch.hpu.current_stream() == default != other and len({default, other, torch.hpu.Stream()}) == 3
    with torch.hpu.stream(other):
        assert torch.hpu.current_stream() == other
        with torch.hpu.stream(None):
            assert torch.hpu.current_stream() == other
        with default:
            assert torch.hpu.current_stream() == default
    assert torch.hpu.current_stream() == default and other.device == torch.device("hpu:0")


@on_device()
def test_work_is_done_after_waiting() -> None:
    x = torch.ones(4).hpu()
    stream = torch.hpu.Stream()
    with torch.hpu.stream(stream):
        y = x + 1
    torch.hpu.current_stream().wait_stream(stream)
    z = y * 2
    stream.synchronize()
    z.record_stream(stream)
    assert isinstance(stream, torch.Stream) and stream.stream_id == stream.hpu_stream
    assert stream.query() and z.tolist() == [4, 4, 4, 4]


@on_device(modes=("lazy",))
def test_a_stream_knows_what_only_was_recorded() -> None:
    stream = torch.hpu.current_stream()
    stream.synchronize()
    x = torch.ones(4).hpu() + 1
    assert not stream.query()
    event = stream.record_event()
    assert stream.query() and event.query() and x[0].item() == 2


@on_device()
def test_events_measure_the_time_between_them() -> None:
    first, second = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    raises("must be recorded", lambda: first.elapsed_time(second))
    first.record()
    torch.ones(64, 64).hpu() @ torch.ones(64, 64).hpu()
    second.record(torch.hpu.Stream())
    second.synchronize()
    assert first.elapsed_time(second) > 0 > second.elapsed_time(first)
    raises("enable_timing", lambda: first.elapsed_time(torch.hpu.Event()), ValueError)
