"""What an op is told to ignore passes on no NaN and no infinity: it may be memory that was never written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.torch.child import HAS_TORCH, on_device
from tests.torch.compiling import compiled

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

NAN, INF = float("nan"), float("inf")
SUMS = {
    "addmm": ((3, 5), (3, 4), (4, 5)),
    "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "addmv": ((3,), (3, 4), (4,)),
    "addr": ((3, 5), (3,), (5,)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)),
}
"""beta * x + alpha * product: shapes of x and of what is multiplied."""


def _sums() -> Iterator[tuple[str, Callable[..., Any], list[torch.Tensor]]]:
    """Each in its three forms, of both types, with every zero."""
    for name, shapes in SUMS.items():
        for dtype in (torch.float32, torch.bfloat16):
            x, a, b = (torch.ones(shape, dtype=dtype) for shape in shapes)
            x.fill_(NAN).view(-1)[0] = INF
            for beta, alpha in ((0, 1), (0.0, 1.5), (-0.0, 1), (0, 2)):
                given: dict[str, Any] = {"beta": beta, "alpha": alpha}

                def plain(x: Any, a: Any, b: Any, name: str = name, given: Any = given) -> Any:
                    return getattr(torch, name)(x, a, b, **given)

                def in_place(x: Any, a: Any, b: Any, name: str = name, given: Any = given) -> Any:
                    return getattr(x.clone(), name + "_")(a, b, **given)

                def out(x: Any, a: Any, b: Any, name: str = name, given: Any = given) -> Any:
                    return getattr(torch, name)(x, a, b, **given, out=torch.full_like(x, NAN))

                for f in (plain, in_place, out):
                    yield f"{name} {f.__name__} {dtype} {given}", f, [x, a, b]


@on_device()
def test_what_beta_0_ignores() -> None:
    for name, f, args in _sums():
        got = f(*(a.to("hpu") for a in args)).cpu()
        torch.testing.assert_close(got, f(*args), msg=lambda m, name=name: f"{name}: {m}")
    for f in (torch.addmm, torch.baddbmm):  # a product over nothing
        parts = [(2,) * (f is torch.baddbmm) + shape for shape in ((3, 3), (3, 0), (0, 3))]
        x, a, b = (torch.full(shape, NAN, device="hpu") for shape in parts)
        assert f(x, a, b, beta=0).cpu().eq(0).all()


def _without(name: str, f: Callable[..., Any], there: str, large: int, beta: float, dtype: torch.dtype) -> Any:
    x, a, b = (torch.ones([n * large for n in shape], dtype=dtype) for shape in SUMS[name])
    a.view(-1)[0], b.view(-1)[-1] = NAN, INF
    given = [t.to(there) for t in (x, a, b)]
    return f(*given, beta=beta, alpha=0).cpu()


@on_device()
def test_what_alpha_0_ignores() -> None:
    for name in SUMS:
        for f in (
            getattr(torch, name),
            lambda x, *args, name=name, **given: getattr(x.clone(), name + "_")(*args, **given),
        ):
            for large in (1, 8):
                for beta in (0, 1, 2.5):
                    for dtype in (torch.float32, torch.bfloat16):
                        want, got = (_without(name, f, there, large, beta, dtype) for there in ("cpu", "hpu"))
                        told = f"{name} {large} {beta} {dtype}"
                        torch.testing.assert_close(got, want, equal_nan=True, msg=lambda m, told=told: f"{told}: {m}")
    for shape in ((5,), (1, 5), ()):  # a sum that is broadcast
        x, a, b = torch.ones(shape), torch.full((3, 4), NAN), torch.ones(4, 5)
        got = torch.addmm(x.to("hpu"), a.to("hpu"), b.to("hpu"), alpha=0)
        assert got.shape == (3, 5) and got.eq(1).all()


@on_device(modes=("eager",))
def test_what_beta_0_ignores_in_compiled_graphs() -> None:
    x, a, b = torch.full((3, 5), NAN, device="hpu"), torch.ones(3, 4, device="hpu"), torch.ones(4, 5, device="hpu")
    run = compiled(lambda x, a, b, beta: torch.addmm(x, a, b, beta=beta))
    for beta in (0, 0.0, 1.0, 2.0, 0.0):
        assert run(x, a, b, beta).isnan().any().item() is (beta != 0)


@on_device(modes=("lazy",))
def test_other_factors_are_numbers_at_run_time() -> None:
    from habana_tf.torch import loader

    recorder = loader.load()
    programs = recorder.programs
    for name, shapes in SUMS.items():
        x, a, b = (torch.ones(shape, device="hpu") for shape in shapes)
        for beta, alpha in ((2.0, 3.0), (0.5, 1.0), (1.0, 0.25)):
            want = getattr(torch, name)(x.cpu(), a.cpu(), b.cpu(), beta=beta, alpha=alpha)
            torch.testing.assert_close(getattr(torch, name)(x, a, b, beta=beta, alpha=alpha).cpu(), want)
    assert recorder.programs - programs <= 2 * len(SUMS)  # and what makes the ones


def _loss(kind: str, x: torch.Tensor) -> torch.Tensor:
    """Of scores among which rows 1 and 3 are ignored."""
    target = torch.tensor([0, -100, 2, -100], device=x.device)
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype, device=x.device)
    if kind == "all":
        return F.nll_loss(x, torch.full_like(target, -100), reduction="sum")
    if kind == "places":
        return F.nll_loss(x.t()[None], target[None])
    if kind == "a label":
        return F.nll_loss(x, target.where(target >= 0, 1), ignore_index=1)
    if kind == "scores":
        return F.cross_entropy(x, target)
    return F.nll_loss(x, target, weight if kind == "weighted" else None, reduction="sum" if kind == "sum" else "mean")


@on_device()
def test_rows_of_a_loss_that_are_ignored() -> None:
    rows = torch.tensor([[0.5, 1, 2], [NAN, INF, -INF], [3, 1, 2], [-INF, INF, NAN]])
    for kind in ("mean", "sum", "weighted", "places", "a label", "all", "scores"):
        for dtype in (torch.float32, torch.bfloat16):
            made = []
            for there in ("cpu", "hpu"):
                x = rows.clone().to(there, dtype).requires_grad_()
                loss = _loss(kind, x)
                loss.backward()
                assert x.grad is not None
                made.append((loss.detach().cpu(), x.grad.cpu()))
            torch.testing.assert_close(made[1], made[0], equal_nan=True, msg=lambda m, kind=kind: f"{kind}: {m}")


@on_device()
def test_gradients_of_what_was_not_chosen() -> None:
    x = torch.tensor([1.0, -1.0, 0.0, NAN])

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(x.isnan(), 0.0).clamp(0, 1) + torch.where(x > 0, x, torch.zeros_like(x))

    def grad(x: torch.Tensor) -> torch.Tensor:
        (g,) = torch.autograd.grad(chosen(x).nan_to_num().sum(), x)
        return g

    theirs, ours = x.clone().requires_grad_(), x.to("hpu").requires_grad_()
    torch.testing.assert_close(grad(ours).cpu(), grad(theirs))
    index = torch.tensor([0, 1, 1])
    for how in ("sum", "prod", "mean", "amax", "amin"):
        want = torch.full((3,), NAN).scatter_reduce(0, index, torch.ones(3), how, include_self=False)
        filled = torch.full((3,), NAN, device="hpu")
        got = filled.scatter_reduce(0, index.to("hpu"), torch.ones(3, device="hpu"), how, include_self=False)
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)
