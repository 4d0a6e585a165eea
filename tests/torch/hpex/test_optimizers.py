"""Optimizers: what a step costs in programs, and what it comes to beside PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

CASES: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "fused adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True, weight_decay=0.1, maximize=True),
    "fused amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, fused=True, amsgrad=True, betas=(0.8, 0.9)),
    "fused adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "fused sgd": lambda p: torch.optim.SGD(p, lr=0.1, fused=True, momentum=0.9, nesterov=True, weight_decay=0.1),
    "fused plain sgd": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "loop": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
}


def _steps(make: Callable[[Any], Any], device: str) -> tuple[list[Any], list[int]]:
    """Weights after four steps, and how many programs ran in each."""
    from habana_tf.torch.record import loaded_program

    torch.manual_seed(0)
    weights = [torch.randn(*shape).to(device).requires_grad_() for shape in ((4, 5), (5,), (3, 2, 2))]
    updates = make(weights)
    ran: list[int] = []
    run = loaded_program.LoadedProgram.run

    def counted(self: Any, *given: Any) -> None:
        ran[-1] += 1
        run(self, *given)

    for k in range(4):
        for w in weights:
            w.grad = torch.randn(w.shape).to(device)
        updates.param_groups[0]["lr"] = 0.1 / (k + 1)
        if device == "hpu":
            torch.hpu.synchronize()
        ran.append(0)
        loaded_program.LoadedProgram.run = counted  # type: ignore[method-assign]
        try:
            updates.step()
            if device == "hpu":
                torch.hpu.synchronize()
        finally:
            loaded_program.LoadedProgram.run = run  # type: ignore[method-assign]
    return [w.detach().cpu() for w in weights], ran


@on_device(*CASES)
def test_weights_are_updated_as_on_the_cpu(case: str) -> None:
    (want, _), (got, _) = _steps(CASES[case], "cpu"), _steps(CASES[case], "hpu")
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6)


@on_device("sgd", "adamw", *(case for case in CASES if case.startswith("fused")))
def test_a_step_is_one_program(case: str) -> None:
    _, ran = _steps(CASES[case], "hpu")
    assert ran[2:] == [1] * 2  # the first step may make what later ones update


@on_device(modes=("eager",))
def test_ops_on_lists_are_done_before_what_follows() -> None:
    x = [torch.ones(3, device="hpu"), torch.zeros(2, device="hpu")]
    torch._foreach_add_(x, 1.5)
    assert x[0].tolist() == [2.5] * 3
    torch._foreach_mul_(x, 2)
    y = x[1] + 1
    x[1].zero_()
    assert (y.tolist(), x[0].tolist(), x[1].tolist()) == ([4.0, 4.0], [5.0] * 3, [0.0, 0.0])
    kept = [t.clone() for t in x]
    torch._foreach_zero_(x)
    assert kept[0].tolist() == [5.0] * 3 and x[0].tolist() == [0.0] * 3


def _on_lists(device: str, scale: float) -> list[torch.Tensor]:
    """Ops on lists that come again with other numbers, layouts and tensors."""
    torch.manual_seed(5)
    sizes = ((3,), (4, 5), (), (2, 3, 2))
    x, y, z = ([torch.randn(s).to(device) for s in sizes] for _ in range(3))
    kept, base = [], torch.randn(6, 8).to(device)
    for k in range(5):
        torch._foreach_mul_(x, scale + k)
        torch._foreach_mul_(y, 2)
        torch._foreach_add_(x, y, alpha=0.5 * k)
        torch._foreach_add_(x, [0.1 * k, 1.0, 2, k])
        torch._foreach_lerp_(z, x, 0.1 * (k + 1))
        torch._foreach_addcmul_(z, x, y, value=-0.3 * k)
        torch._foreach_addcdiv_(x, y, z, [0.01 * k, 0.02, 0.03, 0.04])
        torch._foreach_div_(z, torch.tensor(1.0 + k))
        root = torch._foreach_sqrt(torch._foreach_abs(x))
        torch._foreach_copy_(y, root)
        torch._foreach_pow_(root, [2.0, 0.5, 1.5, 3.0][k % 4])
        torch._foreach_add_([x[1], x[1]], 1.0)
        torch._foreach_add_([base[k], base[5 - k % 3], base[0, :3]], k)
        torch._foreach_sub_(x, [t.clone() for t in z] if k % 2 else z)
        kept += [*root, *torch._foreach_norm(x), *torch._foreach_maximum(x, z)]
        if k == 3:
            x[0], z[3] = x[0].clone(), z[3].mT.contiguous().mT
    return [*x, *y, *z, *kept, base]


@on_device()
def test_ops_on_lists_come_again_with_other_numbers() -> None:
    for scale in (0.3, 0.7):
        for got, want in zip(_on_lists("hpu", scale), _on_lists("cpu", scale), strict=True):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


@on_device(modes=("lazy",))
def test_an_op_on_lists_is_recorded_in_one_go() -> None:
    from habana_tf.torch import loader

    recorder, calls = loader.load(), []
    record, x = recorder.record, [torch.ones(n, device="hpu") for n in (2, 3, 4)]
    torch.hpu.synchronize()
    recorder.record = lambda *args: calls.append(1) or record(*args)
    for k in range(4):
        torch._foreach_mul_(x, 1.0 + k)
        torch.hpu.synchronize()
    recorder.record = record
    assert len(calls) == 3 and x[2].tolist() == [24.0] * 4


@on_device()
def test_a_wrong_op_on_lists_raises_as_on_the_cpu() -> None:
    def of(device: str) -> list[str]:
        said = []
        x = [torch.ones(2, device=device), torch.ones(3, device=device)]
        for k in range(2):
            for call in (
                lambda: torch._foreach_add_(x, x[:1]), lambda: torch._foreach_mul_(x, [1.0]),
                lambda: torch._foreach_add_(x, x[::-1]), lambda: torch._foreach_mul_(x, x[1].tolist()),
            ):  # fmt: skip
                try:
                    call()
                except Exception as why:
                    said.append(f"{type(why).__name__} {why}")
            torch._foreach_add_(x, k)
        return [*said, *(str(t.tolist()) for t in x)]

    assert of("hpu") == of("cpu")


@on_device()
def test_lists_of_tensors_that_share_elements() -> None:
    """PyTorch's CPU takes one tensor after the other, and so sees what it wrote of the next one."""

    def sgd(a: Any, b: Any) -> None:
        rest: dict[str, Any] = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.5, "dampening": 0.0}
        torch._fused_sgd_(a, b, [], nesterov=False, maximize=False, is_first_step=True, **rest)

    ops: dict[str, Callable[[Any, Any], None]] = {
        "sgd": sgd, "add": lambda a, b: torch._foreach_add_(a, b), "copy": lambda a, b: torch._foreach_copy_(a, b),
        "lerp": lambda a, b: torch._foreach_lerp_(a, b, 0.5),
    }  # fmt: skip
    places = (
        ((0, 4), (8, 12)),
        ((0, 2), (8, 10)),
        ((0, 4), (4, 8)),
        ((4, 8), (0, 12)),
        ((0, 4), (4, 6)),
        ((0, 0), (8, 9)),
    )
    for name, op in ops.items():
        cpu = [torch.arange(16.0), torch.ones(16) * 3]
        hpu = [t.to("hpu") for t in cpu]
        for first, second in places:
            for x, y in (cpu, hpu):
                op([x[k : k + 4] for k in first], [(y if k else x)[at : at + 4] for k, at in enumerate(second)])
            for got, want in zip(hpu, cpu, strict=True):
                torch.testing.assert_close(
                    got.cpu(), want, msg=lambda m, where=f"{name} {first} {second}": f"{where}: {m}"
                )
