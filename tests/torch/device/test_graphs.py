"""HPU graphs: capture and replay, graphed modules for inference and training, what cannot be captured."""

from __future__ import annotations

import copy
import gc
from typing import Any

from tests.torch.child import HAS_TORCH, get_recorder, on_device, raises

if HAS_TORCH:
    import torch

LAZY = ("lazy",)


def captured(call: Any) -> Any:
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        call()
    return g


@on_device(modes=LAZY)
def test_a_replay_computes_with_what_its_inputs_hold_and_records_nothing() -> None:
    torch.manual_seed(0)
    a, w = torch.randn(4, 3).hpu(), torch.randn(3, 3).hpu()
    g = torch.hpu.HPUGraph()
    stream = torch.hpu.Stream()
    with torch.hpu.stream(stream):
        g.capture_begin()
        b = (a @ w).relu()
        torch.hpu.synchronize()  # two programs
        c = b.sum(1) * 2
        g.capture_end()
    recorder = get_recorder()
    for _ in range(3):
        new = torch.randn(4, 3)
        a.copy_(new)
        programs, step = recorder.programs, recorder.node
        g.replay()
        assert recorder.programs == programs and recorder.node is step
        want = (new @ w.cpu()).relu()
        torch.testing.assert_close(b.cpu(), want)
        torch.testing.assert_close(c.cpu(), want.sum(1) * 2)


@on_device(modes=LAZY)
def test_memory_of_a_graph_is_given_to_nobody_and_back_when_it_is_gone() -> None:
    gc.collect()
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    x = torch.ones(1 << 20).hpu()
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        y = x + 1
        torch.hpu.synchronize()
        z = y * 3
    del y
    others = [torch.full((1 << 20,), 9.0).hpu() for _ in range(3)]
    g.replay()
    assert z.eq(6).all().item() and all(o.eq(9).all().item() for o in others)
    del x, z, others
    assert torch.hpu.memory_allocated() - before >= 12 << 20
    g.reset()
    assert torch.hpu.memory_allocated() == before
    g = captured(lambda: torch.ones(1 << 20).hpu() + 1)
    del g
    gc.collect()
    assert torch.hpu.memory_allocated() == before


@on_device(modes=LAZY)
def test_in_place_updates_go_on_at_each_replay() -> None:
    w = torch.zeros(5).hpu()
    g = captured(lambda: w.add_(1).mul_(2))
    assert w[0].item() == 2
    for want in (6, 14):
        g.replay()
        assert w.eq(want).all().item()
    dry = torch.hpu.HPUGraph()
    with torch.hpu.graph(dry, dry_run=True):
        w.add_(1)
    assert w[0].item() == 14
    dry.replay()
    assert w[0].item() == 15


@on_device(modes=LAZY)
def test_a_whole_training_step_is_one_graph() -> None:
    torch.manual_seed(1)
    on_cpu = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    there = copy.deepcopy(on_cpu).hpu()
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    sx, sy = x.hpu(), y.hpu()

    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    ours = torch.optim.SGD(there.parameters(), 0.1, momentum=0.9)
    theirs = torch.optim.SGD(on_cpu.parameters(), 0.1, momentum=0.9)
    step(there, ours, sx, sy), step(on_cpu, theirs, x, y)  # makes the momentum
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        loss = step(there, ours, sx, sy)
    step(on_cpu, theirs, x, y)
    for _ in range(4):
        x = torch.randn(6, 4)
        sx.copy_(x)
        g.replay()
        want = step(on_cpu, theirs, x, y)
        torch.testing.assert_close(loss.detach().cpu(), want.detach())
    for a, b in zip(on_cpu.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach())


@on_device(modes=LAZY)
def test_what_the_host_does_cannot_be_captured_and_leaves_all_as_it_was() -> None:
    x = torch.ones(3).hpu()
    for words, call in (
        ("reads a tensor", lambda: (x + 1).sum().item()),
        ("writes a tensor", lambda: x.copy_(torch.zeros(3))),
        ("reads a tensor", lambda: torch.linalg.svd(torch.eye(3).hpu() + x)),
        ("one at a time", lambda: captured(lambda: x + 1)),
    ):
        raises(words, lambda call=call: captured(call))
        assert not torch.hpu.is_current_stream_capturing()
        assert x.tolist() == [1, 1, 1] and (x + 1).tolist() == [2, 2, 2]
    raises("without a capture", torch.hpu.HPUGraph().replay)
    raises("without capture_begin", torch.hpu.HPUGraph().capture_end)


@on_device(modes=LAZY)
def test_a_constant_that_a_program_overwrites_is_new_at_each_replay() -> None:
    x = torch.ones(3).hpu()
    kept = []

    def body() -> None:
        c = torch.tensor([1.0, 2.0, 3.0]).to("hpu")
        kept.append(c.add_(x))

    g = captured(body)
    for _ in range(2):
        g.replay()
        assert kept[0].tolist() == [2, 3, 4]


@on_device(modes=LAZY)
def test_random_numbers_are_others_at_each_replay() -> None:
    x = torch.ones(1000).hpu()
    torch.manual_seed(5)
    want = [torch.nn.functional.dropout(x, 0.3).cpu() for _ in range(3)]
    torch.manual_seed(5)
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        y = torch.nn.functional.dropout(x, 0.3)
    for k in range(3):
        assert torch.equal(y.cpu(), want[k]), k
        g.replay()


@on_device(modes=("eager",))
def test_eager_mode_has_no_graphs_and_says_so() -> None:
    raises("PT_HPU_LAZY_MODE=1", torch.hpu.HPUGraph().capture_begin)
    model = torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(2, 2).hpu())
    raises("PT_HPU_LAZY_MODE=1", lambda: model(torch.ones(1, 2).hpu()))
    trained = torch.hpu.ModuleCacher()(model=torch.nn.Linear(2, 2).hpu())
    assert trained(torch.ones(1, 2).hpu()).requires_grad


@on_device(modes=LAZY)
def test_a_program_keeps_graphs_of_its_own() -> None:
    from habana_frameworks.torch.hpu import graphs

    known: dict[int, Any] = {}

    def call(*inputs: Any) -> Any:
        key = graphs.input_hash((inputs, {"scale": 2}))
        if key not in known:
            g = torch.hpu.HPUGraph()
            with torch.hpu.graph(g):
                outputs = inputs[0] * 2 + inputs[1]
            known[key] = graphs.CachedParams(inputs, outputs, g)
        graphs.copy_to(known[key].graph_inputs, inputs)
        known[key].graph.replay()
        return known[key].graph_outputs.cpu()

    for k in range(3):
        for size in (2, 3):
            x, y = torch.full((size,), float(k)).hpu(), torch.ones(size).hpu()
            assert call(x, y).tolist() == [2 * k + 1.0] * size
    assert len(known) == 2
    raises("another structure", lambda: graphs.copy_to([x], [x, x]), ValueError)
