"""Graphs of a training step: which become one program, and what they compute beside PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.torch.child import HAS_TORCH, on_device
from tests.torch.compiling import compiled, launches, overloads

if HAS_TORCH:
    import torch

EAGER = ("eager",)


def _trained(
    model: Any, loss: Callable[[Any, Any], Any], batches: Sequence[Any], between: Callable[[Any], None]
) -> Any:
    """Losses and weights of a few steps. between: what is done with the loss before its gradient."""
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x in batches:
        optimizer.zero_grad()
        made = loss(model, x)
        between(made)
        made.backward()
        optimizer.step()
        losses.append(made.detach())
    return [t.cpu() for t in (*losses, *model.parameters())]


def _picture_model() -> Any:
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.Flatten(),
        nn.Linear(16, 2),
    )  # fmt: skip


@on_device("nothing", "read", "eager ops", modes=EAGER)
def test_a_training_step_beside_pytorch(between: str) -> None:
    """Forward and backward are one program, with what is done between them, unless the host reads in between."""
    what = {"nothing": lambda t: None, "read": lambda t: t.item(), "eager ops": lambda t: None}[between]
    batches = [torch.randn(5, 3, 8, 8) for _ in range(4)]

    def square(model: Any, x: Any) -> Any:
        return model(x).square().mean()

    want = _trained(_picture_model(), square, batches, what)
    model = _picture_model().to("hpu")
    if between == "eager ops":  # the loss is not in the graph
        run, ours = square, torch.compile(model, backend="hpu_backend")
    else:
        run, ours = compiled(square), model
    for given, expected in zip(
        _trained(ours, run, [x.to("hpu") for x in batches], what), want, strict=True
    ):  # fmt: skip
        torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)

    def step() -> None:
        made = run(ours, batches[0].to("hpu"))
        what(made)
        made.backward()
        model.zero_grad()

    step()

    def forward_and_backward() -> None:
        made = run(ours, batches[0].to("hpu"))
        what(made)
        made.backward()

    count = launches(forward_and_backward)
    assert count == (3 if between == "read" else 1)


@on_device(modes=EAGER)
def test_memory_that_changes_between_a_graph_and_its_gradient() -> None:
    """What the forward graph has read is what it was; what is saved for the gradient may be no argument."""
    run = compiled(lambda x, y: (x * 2).sin() * y.sum())
    for change in (lambda t: t.add_(1), lambda t: t.copy_(torch.ones(4)), lambda t: None):
        x = torch.linspace(0, 1, 4, requires_grad=True)
        y = torch.arange(4.0)
        theirs = (x * 2).sin() * y.sum()
        theirs.sum().backward()
        a, b = x.detach().to("hpu").requires_grad_(), y.to("hpu")
        made = run(a, b)
        change(b)
        made.sum().backward()
        torch.testing.assert_close(made.cpu(), theirs)
        torch.testing.assert_close(a.grad.cpu(), x.grad)


@on_device(modes=EAGER)
def test_graphs_without_gradients_do_not_wait() -> None:
    """The same graph again is another step: no program grows, none is compiled for each number of calls."""
    from habana_tf.torch import loader

    recorder = loader.load()
    w = torch.randn(6, 3, device="hpu", requires_grad=True)
    run = compiled(lambda x: (x @ w).relu().sum())
    x = torch.randn(4, 6)
    kept = [run(x.to("hpu")) for _ in range(3)]
    torch.hpu.synchronize()
    before = recorder.programs
    kept += [run(x.to("hpu")) for _ in range(5)]
    torch.hpu.synchronize()
    assert recorder.programs == before
    for t in kept:
        torch.testing.assert_close(t.cpu(), (x @ w.cpu()).relu().sum())


@on_device(modes=EAGER)
def test_gradients_of_several_graphs_are_one_program() -> None:
    """A graph break: forward, op, forward, and back."""

    def f(x: Any, w: Any, v: Any) -> Any:
        y = (x @ w).tanh()
        torch._dynamo.graph_break()
        return (y @ v).square().sum()

    run = compiled(f)
    cpu = [torch.randn(4, 6), torch.randn(6, 5), torch.randn(5, 3)]
    theirs = [t.clone().requires_grad_() for t in cpu]
    f(*theirs).backward()
    ours = [t.to("hpu").requires_grad_() for t in cpu]

    def step() -> None:
        for t in ours:
            t.grad = None
        run(*ours).backward()

    for _ in range(3):
        step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)
    assert launches(step) == 1


@on_device(modes=EAGER)
def test_minibatches_of_data_on_the_device_share_a_training_program() -> None:
    from habana_tf.torch import loader

    recorder = loader.load()
    data = torch.randn(32, 6)
    w = torch.randn(6, 3)
    there, ours = data.to("hpu"), w.to("hpu").requires_grad_()
    run = compiled(lambda x, w: (x @ w).tanh().sum())
    programs = []
    for first in (0, 4, 8, 20, 12):
        ours.grad = None
        run(there[first : first + 4], ours).backward()
        theirs = w.clone().requires_grad_()
        (data[first : first + 4] @ theirs).tanh().sum().backward()
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)
        programs.append(recorder.programs)
    assert len(set(programs[1:])) == 1


@on_device(modes=EAGER)
def test_gradients_add_up_over_steps() -> None:
    w = torch.randn(6, 3)
    ours, theirs = w.to("hpu").requires_grad_(), w.clone().requires_grad_()
    run = compiled(lambda x, w: (x @ w).sigmoid().sum())
    for n in range(4):
        x = torch.randn(4, 6)
        run(x.to("hpu"), ours).backward()
        (x @ theirs).sigmoid().sum().backward()
        if n % 2:
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)


@on_device("lstm", "gru", modes=EAGER)
def test_recurrent_layers_are_parts_of_graphs(kind: str) -> None:
    from torch import nn

    torch.manual_seed(5)
    make = nn.LSTM if kind == "lstm" else nn.GRU
    for options in ({}, {"num_layers": 2, "bidirectional": True, "batch_first": True}):
        theirs = make(5, 4, **options)
        ours = make(5, 4, **options)
        ours.load_state_dict(theirs.state_dict())
        ours = ours.to("hpu")
        run = compiled(lambda model, x: model(x)[0].square().sum())
        x = torch.randn(7, 3, 5)
        for _ in range(2):
            theirs.zero_grad()
            ours.zero_grad()
            want = theirs(x)[0].square().sum()
            want.backward()
            got = run(ours, x.to("hpu"))
            got.backward()
            torch.testing.assert_close(got.cpu(), want)
            for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
        recorded = overloads(lambda run=run, ours=ours, x=x: run(ours, x.to("hpu")))
        assert not recorded, recorded


@on_device(modes=EAGER)
def test_a_step_has_run_when_its_backward_pass_is_over() -> None:
    from habana_tf.torch import loader

    recorder = loader.load()
    w = torch.randn(6, 3, device="hpu", requires_grad=True)
    run = compiled(lambda x, w: (x @ w).tanh())
    for _ in range(3):
        loss = run(torch.randn(4, 6).to("hpu"), w).sum()
        assert recorder.waiting
        loss.backward()
        assert not recorder.waiting


@on_device(modes=EAGER)
def test_graphs_are_one_program_in_a_new_tree_of_recordings_too() -> None:
    from habana_tf.torch import loader
    from habana_tf.torch.record import recorder as recording

    recorder, most = loader.load(), recording.MOST_NODES
    w = torch.randn(6, 3)
    ours = w.to("hpu").requires_grad_()
    run = compiled(lambda x, w: (x @ w).tanh().sum())
    x = torch.randn(4, 6)
    theirs = w.clone().requires_grad_()
    (x @ theirs).tanh().sum().backward()

    def step() -> None:
        ours.grad = None
        run(x.to("hpu"), ours).backward()

    for _ in range(12):
        root = recorder.root
        recording.MOST_NODES = 0
        try:
            step()
        finally:
            recording.MOST_NODES = most
        assert recorder.root is not root
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)
    step()
    assert launches(step) == 1
