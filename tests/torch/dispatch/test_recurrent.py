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
    from habana_tf.torch.loader import load

    counts = []
    for kind, steps in ((nn.LSTM, 3), (nn.LSTM, 30), (nn.GRU, 3), (nn.GRU, 30)):
        module, x = kind(5, 6).to("hpu"), torch.randn(steps, 2, 5).to("hpu")
        recorder = load()
        recorder.flush()
        module(x)[0].sum().backward()
        counts.append(recorder.node.index)
        recorder.flush()
    assert counts[0] == counts[1] < 40 and counts[2] == counts[3] < 40


KINDS = "LSTM", "GRU"
OPTIONS: tuple[dict[str, Any], ...]
OPTIONS = {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}


def _both(compute: Any, rtol: float = 1e-5) -> None:
    """Compares what a function of a device comes to on the CPU and on the device."""
    for got, want in zip(compute("hpu"), compute("cpu"), strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=rtol)


def _made(kind: str, options: dict[str, Any], device: str) -> tuple[Any, Any]:
    """A module, and an input that wants its gradient."""
    torch.manual_seed(5)
    module, x = getattr(nn, kind)(3, 4, **options), torch.randn(3, 2, 3)
    return module.to(device), x.to(device).requires_grad_()


def _loss(y: Any, states: Any) -> Any:
    return y.pow(2).sum() + sum(s.pow(3).sum() for s in (states if isinstance(states, tuple) else (states,)))


@on_device(*KINDS)
def test_second_and_third_derivatives(kind: str) -> None:
    from habana_tf.torch.loader import load

    def second(device: str, options: dict[str, Any]) -> Any:
        module, x = _made(kind, options, device)
        of = [x, *module.parameters()]
        grads = torch.autograd.grad(_loss(*module(x)), of, create_graph=True)
        sum(g.pow(2).sum() for g in grads).backward()
        return [*grads, *(t.grad for t in of)]

    def third(device: str) -> Any:
        module, x = _made(kind, {}, device)
        (g,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(h.pow(2).sum(), [x, *module.parameters()], allow_unused=True)[:3]

    for options in OPTIONS:
        _both(lambda device, options=options: second(device, options), 1e-4)
    if not load().lazy:
        _both(third, 1e-4)


@on_device(*KINDS)
def test_second_derivatives_where_a_state_depends_on_the_weights_and_where_some_need_none(kind: str) -> None:
    def compute(device: str) -> Any:
        module, x = _made(kind, {}, device)
        _, states = module(x)
        y, _ = module(x * 2, states)
        of = [x, *module.parameters()]
        grads = torch.autograd.grad(y.sum(), of, create_graph=True)
        sum(g.pow(2).sum() for g in grads).backward()
        made = [*grads, *(t.grad for t in of)]
        x = x.detach()
        module.weight_ih_l0.requires_grad_(False)
        module.bias_ih_l0.requires_grad_(False)
        module.bias_hh_l0.requires_grad_(False)
        (g,) = torch.autograd.grad(module(x)[0].sum(), module.weight_hh_l0, create_graph=True)
        return [*made, g, *torch.autograd.grad(g.pow(2).sum(), module.weight_hh_l0)]

    _both(compute, 1e-4)


@on_device(*KINDS)
def test_transformations_of_functions(kind: str) -> None:
    def compute(device: str) -> Any:
        module, x = _made(kind, {}, device)
        x, given = x.detach(), {name: p.detach() for name, p in module.named_parameters()}

        def of(parameters: Any, x: Any) -> Any:
            return torch.func.functional_call(module, parameters, (x,))[0]

        def loss(parameters: Any, x: Any) -> Any:
            return of(parameters, x).pow(2).sum()

        made = list(torch.func.grad(loss)(given, x).values())
        made.append(torch.func.jacrev(of, 1)(given, x))
        made.append(torch.func.grad(lambda x: torch.func.grad(loss, 1)(given, x).pow(2).sum())(x))
        many = torch.stack([x, x * 2, x - 1])
        if kind == "LSTM" or device == "hpu":  # the CPU's GRU writes in place what has no batch
            made += torch.func.vmap(torch.func.grad(loss), (None, 0))(given, many).values()
        else:
            each = [torch.func.grad(loss)(given, one) for one in many]
            made += [torch.stack([g[name] for g in each]) for name in given]
        return made

    _both(compute, 1e-4)


@on_device(*KINDS)
def test_forward_derivatives_and_batches_of_gradients(kind: str) -> None:
    def forwards(device: str) -> Any:
        module, x = _made(kind, {}, device)
        x = x.detach()
        if kind == "LSTM" and device == "cpu":  # has none there
            jacobian = torch.autograd.functional.jacobian(lambda x: module(x)[0], x)
            return [torch.einsum("abcdef,def->abc", jacobian, x * 2)]
        return [torch.func.jvp(lambda x: module(x)[0], (x,), (x * 2,))[1]]

    def batch(device: str) -> Any:
        module, x = _made(kind, {}, device)
        y = module(x)[0]
        grads = torch.stack([torch.ones_like(y), y.detach()])
        return torch.autograd.grad(y, (x, module.weight_hh_l0), grads, is_grads_batched=True)

    _both(forwards)
    _both(batch)
    zero = torch._efficientzerotensor((2, 3), device="cpu")  # what forward derivatives begin with has no memory
    assert zero.to("hpu").tolist() == torch._efficientzerotensor((2, 3), device="hpu").tolist() == [[0.0] * 3] * 2


LENGTHS = (9, 14, 10, 17, 24, 11, 3, 40, 13)


def _compiled() -> int:
    from habana_tf.cache import stats

    return stats().counts().compiled


@on_device("LSTM", "GRU")
def test_lengths_have_one_recipe(kind: str) -> None:
    """But for the first one: one of steps, of which others differ in their numbers only."""
    import habana_frameworks.torch.core as htcore

    for options in ({}, {"batch_first": True}, {"bidirectional": True, "num_layers": 2}):
        torch.manual_seed(3)
        here = getattr(nn, kind)(7, 6, **options)
        there = getattr(nn, kind)(7, 6, **options)
        there.load_state_dict(here.state_dict())
        there.to("hpu")
        counts = []
        for n in LENGTHS:
            x = torch.randn((3, n, 7) if options.get("batch_first") else (n, 3, 7))
            made = []
            for module, given in ((there, x.to("hpu")), (here, x)):
                module.zero_grad()
                y, last = module(given.requires_grad_())
                y.square().sum().backward()
                htcore.mark_step()
                made.append([y, *last, given.grad, *(p.grad for p in module.parameters())])
            counts.append(_compiled())
            for got, want in zip(*made, strict=True):
                torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
        assert counts[-1] == counts[2], (options, counts)
