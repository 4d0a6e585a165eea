"""nn.LSTM and nn.GRU on the device beside the CPU's, and in how many ops it is recorded."""

from __future__ import annotations

from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch import nn


def _pair(dtype: Any = None, **options: Any) -> tuple[Any, Any, Any]:
    """A module of the CPU, the same on the device, and an input of the CPU."""
    torch.manual_seed(3)
    made = nn.LSTM(5, 6, num_layers=2, **options).to(dtype or torch.float32)
    there = nn.LSTM(5, 6, num_layers=2, **options).to(dtype or torch.float32)
    there.load_state_dict(made.state_dict())
    return made, there.to("hpu"), torch.randn(4, 3, 5, dtype=dtype or torch.float32)


def _close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


@on_device()
def test_outputs_states_and_gradients() -> None:
    here, there, x = _pair(bidirectional=True)
    y, (h, c) = here(x)
    z, (hz, cz) = there(x.to("hpu"))
    for a, b in ((z, y), (hz, h), (cz, c)):
        _close(a, b)
    (y.sum() + (h * c).sum()).backward()
    (z.sum() + (hz * cz).sum()).backward()
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        _close(a.grad, b.grad)


@on_device("no_grad", "inference_mode")
def test_without_gradients(kind: str) -> None:
    here, there, x = _pair(batch_first=True)
    with getattr(torch, kind)():
        _close(there(x.to("hpu"))[0], here(x)[0])


@on_device()
def test_projections_and_sequences_of_different_lengths_go_step_by_step() -> None:
    here, there, x = _pair(proj_size=4)
    _close(there(x.to("hpu"))[0], here(x)[0])
    here, there, x = _pair()
    pack = nn.utils.rnn.pack_padded_sequence
    _close(there(pack(x.to("hpu"), [4, 2, 1]))[0].data, here(pack(x, [4, 2, 1]))[0].data)


@on_device()
def test_a_type_without_programs_is_computed_by_the_cpu() -> None:
    here, there, x = _pair(torch.float64)
    y, z = here(x)[0], there(x.to("hpu"))[0]
    _close(z, y)
    y.sum().backward()
    z.sum().backward()
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        _close(a.grad, b.grad)


@on_device()
def test_states_without_an_own_gradient_of_the_input() -> None:
    """Gradients of the first states alone."""
    here, there, x = _pair()
    for module, device in ((here, "cpu"), (there, "hpu")):
        h, c = (torch.full((2, 3, 6), 0.5, device=device, requires_grad=True) for _ in range(2))
        module.requires_grad_(False)
        _, (_, last) = module(x.to(device), (h, c))
        module.found = torch.autograd.grad(last.sum(), (h, c))
    for a, b in zip(there.found, here.found, strict=True):
        _close(a, b)


@on_device("float32", "float64")
def test_a_gru_and_its_gradients(name: str) -> None:
    dtype = getattr(torch, name)
    x, found = torch.randn(4, 3, 5, dtype=dtype, generator=torch.Generator().manual_seed(4)), []
    for device in ("cpu", "hpu"):
        torch.manual_seed(3)
        module = nn.GRU(5, 6, num_layers=2, bidirectional=True).to(dtype).to(device)
        h = torch.full((4, 3, 6), 0.5, dtype=dtype, device=device, requires_grad=True)
        y, last = module(x.to(device), h)
        (y.sum() + (last * last).sum()).backward()
        found.append([y.detach(), last.detach(), h.grad, *(w.grad for w in module.parameters())])
    for a, b in zip(found[1], found[0], strict=True):
        _close(a, b)


@on_device(modes=("lazy",))
def test_a_longer_sequence_takes_no_more_ops() -> None:
    from habana_tf.torch.device import load

    counts = []
    for kind, steps in ((nn.LSTM, 3), (nn.LSTM, 30), (nn.GRU, 3), (nn.GRU, 30)):
        module, x = kind(5, 6).to("hpu"), torch.randn(steps, 2, 5).to("hpu")
        recorder = load().recorder
        recorder.flush()
        module(x)[0].sum().backward()
        counts.append(recorder._step.index)
        recorder.flush()
    assert counts[0] == counts[1] < 40 and counts[2] == counts[3] < 40
