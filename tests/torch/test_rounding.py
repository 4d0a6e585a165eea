"""bf16 in a program of several ops: each op's result is rounded, whether a tensor holds it or not.

Numbers that are added here are exact in bf16: others the CPU rounds before it adds them, but not before it multiplies.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.torch.child import HAS_TORCH, on_device
from tests.torch.compiling import compiled

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

    Kept = list[torch.Tensor]
    BF16 = torch.bfloat16


def _note(kept: Kept | None, x: torch.Tensor) -> torch.Tensor:
    """x, which is kept until the program has run, or is not."""
    if kept is not None:
        kept.append(x)
    return x


def _halves(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    """A number as the sum of three of bf16."""
    high = _note(kept, x.bfloat16())
    middle = _note(kept, (x - high).bfloat16())
    low = _note(kept, (x - high.float() - middle.float()).bfloat16())
    return torch.stack([high.float(), middle.float(), low.float()])


def _straight_through(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    return x + (_note(kept, x.to(BF16)).to(torch.float32) - x).detach()


def _into(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    return _note(kept, torch.empty_like(x, dtype=BF16).copy_(x)).float()


def _into_part(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    whole = torch.zeros(2, *x.shape, dtype=BF16, device=x.device)
    whole[1] = x
    return _note(kept, whole).float() - x


def _in_place(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    y = _note(kept, x.bfloat16())
    return y.mul_(1.7).add_(0.3125).float()


def _chain(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    y = _note(kept, x.bfloat16() * 2.1)
    z = _note(kept, y + 0.375)
    return (z / 3).float()


def _order(x: torch.Tensor, kept: Kept | None) -> torch.Tensor:
    y = _note(kept, x.bfloat16() * 1.01)
    return torch.cat([y.sort(stable=True)[1], y.topk(1)[1], y.argmax().view(1), y.argmin().view(1), (y == x).long()])


if HAS_TORCH:
    CASES: dict[str, Callable[[torch.Tensor, Kept | None], torch.Tensor]] = {
        "cast": lambda x, kept: _note(kept, x.bfloat16()).float(),
        "compared": lambda x, kept: _note(kept, x.bfloat16()) == x,
        "subtracted": lambda x, kept: _note(kept, x.bfloat16()) - x,
        "halves": _halves,
        "straight through": _straight_through,
        "copy": _into,
        "part": _into_part,
        "in place": _in_place,
        "chain": _chain,
        "order": _order,
        "sum": lambda x, kept: _note(kept, x.bfloat16().view(-1, 16).sum(1)).float(),
        "as type": lambda x, kept: _note(kept, x.type(BF16)).type_as(x),
        "view of bits": lambda x, kept: _note(kept, x.bfloat16()).view(torch.int16).int(),
        "chosen": lambda x, kept: torch.where(x > 0, _note(kept, x.bfloat16()), 0.0).float(),
        "joined": lambda x, kept: torch.cat([_note(kept, x.bfloat16()), x.bfloat16() * 3]).float(),
        "cumulated": lambda x, kept: _note(kept, x.bfloat16() * 1.3).float().cumsum(0),
        "rounded": lambda x, kept: (_note(kept, x.bfloat16() * 37.3) - 0.4375).round().float(),
        "softmax": lambda x, kept: _note(kept, F.relu(x.bfloat16() * 2.3)).float().view(16, -1).softmax(1),
        "by an integer": lambda x, kept: _note(kept, x[8:].bfloat16() * 100).int(),
        "type of sums": lambda x, kept: _note(kept, x.bfloat16()).view(16, -1).sum(0, dtype=torch.float32),
    }  # fmt: skip


def _given() -> torch.Tensor:
    g = torch.Generator().manual_seed(3)
    special = torch.tensor([0.8747287, 3.14159, 1.00390625, 1.01171875, -0.0, 3.3895314e38, float("inf"), 2.5])
    return torch.cat([special, torch.randn(248, generator=g)])


def _check(name: str, got: torch.Tensor, want: torch.Tensor) -> None:
    tolerance = 1e-6 if name in ("cumulated", "softmax", "type of sums") else 0.0  # sums in another order
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: name + m)


@on_device()
def test_values_are_those_of_the_cpu_whether_a_tensor_is_kept_or_not() -> None:
    x = _given()
    there = x.to("hpu")
    for name, f in CASES.items():
        want = f(x, None)
        _check(name, f(there, None), want)
        kept: Kept = []
        _check(name, f(there, kept), want)


@on_device(modes=("eager",))
def test_so_are_those_of_compiled_graphs() -> None:
    x = _given()
    there = x.to("hpu")
    for name, f in CASES.items():
        _check(name, compiled(lambda x, f=f: f(x, None))(there), f(x, None))


@on_device(modes=("lazy",))
def test_what_autocast_casts_is_rounded_too() -> None:
    """A product's result, from which something in fp32 is computed."""
    x, w, bias = torch.randn(5, 7).to("hpu"), torch.randn(3, 7).to("hpu"), torch.randn(3).to("hpu")
    with torch.autocast("hpu", BF16):
        given = F.linear(x, w, bias).float()
        powers = F.linear(x, w, bias) ** 2  # autocast takes powers in fp32
    assert torch.equal(given.cpu(), given.cpu().bfloat16().float())
    assert torch.equal(powers.cpu(), given.cpu() ** 2)


@on_device(modes=("lazy",))
def test_gradients_in_bf16_are_of_rounded_results() -> None:
    """Where tanh is rounded to 1, it has no slope."""

    def grad(x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        y = (x.bfloat16() * 1.3).tanh()
        (g,) = torch.autograd.grad((y.float() * y).sum(), x)
        return g

    x = _given()[8:]
    torch.testing.assert_close(grad(x.to("hpu")).cpu(), grad(x), rtol=0, atol=0)
