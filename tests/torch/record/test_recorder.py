"""What is recorded is what was called: entries that tell calls apart, several views of a storage, full memory."""

from __future__ import annotations

import gc
import random
from typing import Any

from tests.torch.child import HAS_TORCH, get_recorder, on_device

if HAS_TORCH:
    import torch
    from torch.utils.checkpoint import checkpoint


@on_device()
def test_a_boolean_is_another_number_than_one() -> None:
    want = torch.tensor([True, False])
    for number in (True, 1, 1.0, True):
        for fn in (torch.mul, torch.add):
            got = fn(want.to("hpu"), number).cpu()
            assert got.dtype is fn(want, number).dtype and torch.equal(got, fn(want, number))


@on_device()
def test_a_negative_zero_is_another_number_than_zero() -> None:
    for number in (0.0, -0.0, 0.0):
        got = torch.nn.functional.pad(torch.ones(2).to("hpu"), (1, 1), value=number).cpu()
        assert torch.equal(torch.signbit(got), torch.signbit(torch.tensor([number, 1, 1, number])))


if HAS_TORCH:
    from torch.nn import functional as F

    NUMBERS = {
        "pow": lambda x, n: x**n,
        "threshold": lambda x, n: F.threshold(x, n / 4, n),
        "elu": F.elu,
        "celu": F.celu,
        "hardtanh": lambda x, n: F.hardtanh(x, -n / 4, n / 2),
        "softplus": lambda x, n: F.softplus(x, n, 1.0),
        "hardshrink": lambda x, n: F.hardshrink(x, n / 4),
        "softshrink": lambda x, n: F.softshrink(x, n / 4),
        "smooth_l1_loss": lambda x, n: F.smooth_l1_loss(x, x.flip(0), beta=n),
        "huber_loss": lambda x, n: F.huber_loss(x, x.flip(0), delta=n),
        "pad": lambda x, n: F.pad(x, (1, 2), value=n),
        "index_add": lambda x, n: x.index_add(0, torch.tensor([1, 1], device=x.device), x[:2] * 2, alpha=n),
        "clamp": lambda x, n: x.clamp(-n / 4, n / 2),
        "masked_fill": lambda x, n: x.masked_fill(x > 0.5, n),
    }


@on_device(modes=("lazy",))
def test_numbers_that_change_with_each_step_are_the_same_program() -> None:
    """With the gradient, whose formula has the number too; in float32 and bfloat16."""
    recorder = get_recorder()
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.linspace(0.1, 1.3, 12).reshape(3, 4).to(dtype)
        for name, call in NUMBERS.items():
            programs = []
            for number in (1.3, 0.7, 1.9, 2.6):
                met = []
                for each in (x.clone(), x.to("hpu")):
                    result = call(each.requires_grad_(), number)
                    result.float().square().sum().backward()
                    met.append([result.detach().cpu(), each.grad.cpu()])
                error = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {"rtol": 2e-5, "atol": 2e-5}
                torch.testing.assert_close(met[1], met[0], **error, msg=lambda text, name=name: f"{name}: {text}")
                programs.append(recorder.programs)
            assert programs[-1] == programs[0], (name, programs)


@on_device()
def test_a_momentum_that_changes_with_each_batch_is_the_same_program() -> None:
    """As of BatchNorm(momentum=None), which averages over all batches."""
    recorder, x = get_recorder(), torch.randn(8, 3)
    layers = [torch.nn.BatchNorm1d(3, momentum=None) for _ in range(2)]
    layers[1].to("hpu")
    programs = []
    for _ in range(5):
        want, got = layers[0](x), layers[1](x.to("hpu"))
        torch.testing.assert_close(got.cpu(), want)
        assert layers[0].running_var is not None and layers[1].running_var is not None
        torch.testing.assert_close(layers[1].running_var.cpu(), layers[0].running_var)
        programs.append(recorder.programs)
    assert programs[-1] == programs[1]


@on_device()
def test_the_same_nan_records_nothing_new() -> None:
    recorder, x = get_recorder(), torch.ones(3).to("hpu")

    def step() -> None:
        torch.nn.functional.pad(x, (0, 1), value=float("nan")).cpu()

    step()
    before = recorder._nodes
    for _ in range(3):
        step()
    assert recorder._nodes == before


@on_device()
def test_a_result_that_does_not_fit_leaves_what_was_recorded() -> None:
    recorder, x = get_recorder(), torch.ones(1000).to("hpu")
    z = torch.ones(3).to("hpu") * 2
    capacity, recorder.memory.capacity = recorder.memory.capacity, 1 << 20
    try:
        for _ in range(2):
            try:
                x.expand(1000, 1000) + 1
            except torch.OutOfMemoryError:
                continue
            raise AssertionError("4 MB fit in 1 MiB")
    finally:
        recorder.memory.capacity = capacity
    assert (x + z[0]).cpu().eq(3).all() and z.cpu().eq(2).all()


@on_device()
def test_memory_that_a_waiting_program_reads_is_kept_when_it_runs_short() -> None:
    """A tensor in a cycle is gone when garbage is collected to make room."""
    memory = get_recorder().memory

    class Cycle:
        pass

    for writes in (False, True):
        gc.collect()
        cycle: Any = Cycle()
        cycle.itself, cycle.x = cycle, torch.full((1 << 19,), 3.0).to("hpu")
        y = cycle.x + 1
        torch.zeros(1 << 22).to("hpu")  # is kept for the next of its size
        del cycle
        capacity, memory.capacity = memory.capacity, memory.statistics.reserved
        try:
            if writes:
                torch.zeros(1 << 19).to("hpu")
            got = y.cpu()
        finally:
            memory.capacity = capacity
        assert got.eq(4).all()


@on_device()
def test_all_views_of_a_storage_are_written() -> None:
    def moved(device: str) -> torch.Tensor:
        flat = torch.arange(10.0).to(device)
        weights = [torch.nn.Parameter(flat[a:b]) for a, b in ((0, 4), (4, 8), (8, 10))]
        for w in weights:
            w.grad = torch.ones_like(w)
        for optimizer in (torch.optim.Adam(weights, lr=0.1, fused=True), torch.optim.SGD(weights, lr=0.1, fused=True)):
            optimizer.step()
        return flat.cpu()

    torch.testing.assert_close(moved("hpu"), moved("cpu"))


@on_device()
def test_memory_is_viewed_as_another_type() -> None:
    def viewed(device: str) -> list[torch.Tensor]:
        x = torch.arange(8.0).to(device) + 1
        bits = x.view(torch.int32)
        bits.add_(1 << 23)
        first = x.view(torch.uint8)[:4].clone()
        return [(x * 3).cpu(), first.cpu(), bits.view(torch.float32).cpu(), x.view(torch.int16).cpu()]

    for got, want in zip(viewed("hpu"), viewed("cpu"), strict=True):
        assert got.dtype is want.dtype and torch.equal(got, want)


@on_device()
def test_another_size_of_the_same_memory() -> None:
    def resized(device: str) -> list[torch.Tensor]:
        x = torch.arange(12.0).to(device)
        other = x.view(3, 4)
        x.resize_(2, 3)
        other[0, 0] = 99.0
        small = x.clone()
        x.resize_(12)
        images = torch.arange(24.0).to(device).resize_(1, 2, 3, 4, memory_format=torch.channels_last)
        assert images.is_contiguous(memory_format=torch.channels_last)
        part = torch.arange(6.0).to(device)[2:].resize_(8)[:4]
        return [t.cpu() for t in (small, x, images, part)]

    for got, want in zip(resized("hpu"), resized("cpu"), strict=True):
        assert torch.equal(got, want)


@on_device()
def test_what_is_computed_again_drops_the_same() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 8)).to("hpu")

    def gradient(again: bool, **how: bool) -> torch.Tensor:
        torch.manual_seed(3)
        x = torch.ones(4, 8).to("hpu").requires_grad_()
        y = checkpoint(layers, x, **how) if again else layers(x)
        y.sum().backward()
        assert x.grad is not None
        return x.grad.cpu()

    for reentrant in (False, True):
        assert torch.equal(gradient(True, use_reentrant=reentrant), gradient(False))


@on_device()
def test_pages_that_are_kept_go_back_to_a_host_that_runs_short() -> None:
    from habana_tf.torch.memory import storage

    memory, bridge = get_recorder().memory, storage._bridge
    torch.zeros(1 << 23).to("hpu")  # is kept for the next of its size
    torch.zeros(1).to("hpu")
    kept, real = memory.statistics.reserved, bridge.host_memory
    assert kept >= 1 << 25
    bridge.host_memory = lambda: (1 << 40, 1 << 30 if memory.statistics.reserved < kept else 1 << 20)
    try:
        assert torch.ones(3 << 22).to("hpu").sum().item() == 3 << 22
    finally:
        bridge.host_memory = real


@on_device()
def test_one_reason_for_all_views_that_no_program_reads() -> None:
    """A reason with their shapes would be told, and remembered, for each shape."""
    from habana_tf.resolver import placements

    def reasons() -> set[str]:
        return {each.reason for each in placements.placements().cpu if each.op == "aten.mul.Tensor"}

    before = reasons()
    for n in (5, 7, 9):
        x = torch.arange(float(n))
        want = x.as_strided((n - 2, 3), (1, 1)) * x[:3]
        assert torch.equal((x.to("hpu").as_strided((n - 2, 3), (1, 1)) * x[:3].to("hpu")).cpu(), want)
    assert len(reasons() - before) <= 1


def _changed(tensors: list[Any], choice: random.Random) -> None:
    """One op in place on a view of one of the tensors, or a new tensor of them in the place of one."""
    a, b, k = choice.choice(tensors), choice.choice(tensors), choice.randrange(10)
    in_place = (
        lambda: a.mul_(1.5), lambda: a[1:3].add_(1), lambda: a[:, 1:].copy_(b[:, :-1].clone()), lambda: a[::2].neg_(),
        lambda: a.diagonal().add_(b.diagonal().clone() * 0.5), lambda: a.unflatten(0, (2, 2)).select(1, 1).fill_(k),
        lambda: a.t()[0].sub_(b.t()[1].clone()),
    )  # fmt: skip
    if k < len(in_place):
        in_place[k]()
    else:
        made = (a.t().contiguous().t(), torch.where(a > b, a, b), torch.cat([a[2:], b[:2]]))
        tensors[choice.randrange(len(tensors))] = made[k - len(in_place)]


@on_device()
def test_any_mixture_of_views_and_writes_is_as_on_the_cpu() -> None:
    start = [torch.linspace(-1, 1, 16).view(4, 4), torch.linspace(2, -1, 16).view(4, 4), torch.ones(4, 4)]
    for seed in range(20):
        want, got = [t.clone() for t in start], [t.to("hpu") for t in start]
        for tensors in (want, got):
            choice = random.Random(seed)
            for _ in range(15):
                _changed(tensors, choice)
        for k, (x, y) in enumerate(zip(want, got, strict=True)):
            torch.testing.assert_close(y.cpu(), x, msg=f"seed {seed}, tensor {k}")
