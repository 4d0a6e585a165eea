"""torch.compile(backend="hpu_backend"): what is bound once and run again, beside PyTorch on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device, raises
from tests.torch.compiling import compiled, overloads

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

EAGER = ("eager",)


def _check(f: Callable[..., Any], *calls: Sequence[Any], **more: Any) -> None:
    """That each call gives what it gives on the CPU, results' strides and arguments' new values included."""
    run = compiled(f, **more)
    for args in calls:
        theirs = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        ours = [a.to("hpu") if isinstance(a, torch.Tensor) else a for a in args]
        want, got = f(*theirs), run(*ours)
        for w, g in zip(_list(want) + theirs, _list(got) + ours, strict=True):
            if isinstance(w, torch.Tensor):
                torch.testing.assert_close(g.cpu(), w, rtol=1e-5, atol=1e-5)
                assert g.stride() == w.stride()
            else:
                assert g == w


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@on_device(modes=EAGER)
def test_a_second_call_records_nothing() -> None:
    w = torch.randn(6, 3, device="hpu", requires_grad=True)

    def step() -> None:
        run(x, w).sum().backward()

    run = compiled(lambda x, w: F.relu(x @ w) * 2)
    x = torch.randn(4, 6, device="hpu")
    step()
    step()
    assert "mm" not in overloads(step)


@on_device(modes=EAGER)
def test_results_that_are_arguments_views_or_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * y
        return x, x.t(), z, z.t(), z[1:], (z + 1).t(), y[:, 1:3]

    _check(f, *[(torch.randn(4, 5), torch.randn(4, 5)) for _ in range(3)])


@on_device(modes=EAGER)
def test_arguments_that_are_views_at_other_places() -> None:
    def f(x: Any) -> Any:
        return (x * 2).sum(1)

    base = torch.randn(8, 6)
    run = compiled(f)
    on_device = base.to("hpu")
    for first in (0, 2, 4, 2):
        torch.testing.assert_close(run(on_device[first : first + 3]).cpu(), f(base[first : first + 3]))


@on_device(modes=EAGER)
def test_arguments_that_share_memory_in_one_call_and_not_in_another() -> None:
    run = compiled(lambda x, y: x * 2 + y)
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    a, b = x.to("hpu"), y.to("hpu")
    for p, q, want in (
        (a, b, x * 2 + y),
        (a, a, x * 3),
        (a, b, x * 2 + y),
        (a.view(4, 5), a, x * 3),
        (b, a, y * 2 + x),
    ):
        torch.testing.assert_close(run(p, q).cpu(), want)


@on_device("True", "False", modes=EAGER)
def test_arguments_that_are_written(keep: str) -> None:
    def f(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        y[1:].fill_(3)
        return x + y

    calls = [(torch.randn(4, 5), torch.randn(4, 5)) for _ in range(3)]
    _check(f, *calls, options={"keep_input_mutations": keep == "True"})


@on_device(modes=EAGER)
def test_running_statistics_are_written_in_place() -> None:
    def f(x: Any, mean: Any, variance: Any) -> Any:
        return F.batch_norm(x, mean, variance, training=True)

    _check(f, *[(torch.randn(4, 3, 5, 5), torch.zeros(3), torch.ones(3)) for _ in range(3)])


@on_device(modes=EAGER)
def test_numbers_that_change() -> None:
    calls = [(torch.randn(4, 5), 0.1 * k, k) for k in range(1, 5)]
    _check(lambda x, rate, n: x * rate + n, *calls)
    _check(lambda x, rate, n: x * rate + n, *calls, dynamic=True)


@on_device(modes=EAGER)
def test_numbers_in_tensors_of_the_cpu() -> None:
    run = compiled(lambda x, rate: x * rate)
    x = torch.randn(4, 5)
    for rate in (0.5, 0.25, 2.0, 3.0):
        torch.testing.assert_close(run(x.to("hpu"), torch.tensor(rate)).cpu(), x * rate)


@on_device(modes=EAGER)
def test_sizes_that_change() -> None:
    def f(x: Any, w: Any) -> Any:
        y = (x @ w).relu()
        return y.reshape(-1), y.sum(), y.shape[0]

    w = torch.randn(6, 3)
    _check(f, *[(torch.randn(n, 6), w) for n in (4, 5, 7, 5, 4, 9)])
    _check(f, *[(torch.randn(n, 6), w) for n in (4, 5, 7, 5, 4, 9)], dynamic=True)


@on_device(modes=EAGER)
def test_ops_without_a_program_divide_a_graph() -> None:
    from habana_tf.resolver import placements

    def f(x: Any) -> Any:
        y = x @ x.t() + 4 * torch.eye(4, device=x.device)
        return torch.linalg.cholesky(y).sum(1) * 2

    calls = [(torch.randn(4, 5),) for _ in range(3)]
    _check(f, *calls)
    assert any("cholesky" in each.op for each in placements.placements().cpu)
    run = compiled(f)
    x = calls[0][0].to("hpu")
    run(x)
    run(x)
    assert "mm" not in overloads(lambda: run(x))


@on_device(modes=EAGER)
def test_random_numbers_are_others_at_each_call() -> None:
    run = compiled(lambda x: F.dropout(x, 0.5) * 1.5)
    x = torch.ones(64, 64, device="hpu")
    made = [run(x).cpu() for _ in range(4)]
    assert all(set(y.unique().tolist()) == {0.0, 3.0} for y in made)
    assert len({tuple(y.flatten().tolist()) for y in made}) == 4


@on_device(modes=EAGER)
def test_strides_of_results_are_those_of_pytorch() -> None:
    def f(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w, padding=1)
        return y, y.permute(0, 2, 3, 1), F.max_pool2d(y, 2)

    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    _check(f, *[(x, w)] * 3)
    _check(lambda x: ((x * 2).t(), x.t().contiguous()), *[(torch.randn(4, 5),)] * 3)


@on_device(modes=EAGER)
def test_empty_arguments_and_results() -> None:
    _check(lambda x, y: (x * 2, y + 1, x[:0]), *[(torch.randn(0, 5), torch.randn(4, 5))] * 3)


@on_device(modes=EAGER)
def test_an_op_without_a_lowering_is_refused_where_the_options_say_so() -> None:
    run = compiled(lambda x: torch.linalg.cholesky(x * 2), options={"use_eager_fallback": False})
    raises("cholesky", lambda: run(torch.eye(4, device="hpu")), Exception)


@needs_torch
def test_options_of_habanas_compiler_are_a_warning() -> None:
    program = """
        import torch
        import habana_frameworks.torch.core
        run = torch.compile(lambda x: x + 1, backend="hpu_backend", options={"force_static_compile": True})
        print(run(torch.ones(2, device="hpu")).tolist())
    """
    done = python(program, imported=True)
    assert "[2.0, 2.0]" in done.stdout
    assert "the options ['force_static_compile'] change nothing here" in done.stderr


@needs_torch
def test_pytorchs_own_backend_says_what_to_write_and_still_compiles_for_the_cpu() -> None:
    program = """
        import sys
        import torch
        import habana_frameworks.torch.core
        assert "torch._dynamo" not in sys.modules
        run = torch.compile(lambda x: x + 1)
        try:
            run(torch.ones(2, device="hpu"))
        except Exception as error:
            print(error)
        print(torch.compile(lambda x: x + 2)(torch.ones(2)).tolist())
        torch.compiler.set_default_backend("hpu_backend")
        print(torch.compile(lambda x: x + 3)(torch.ones(2, device="hpu")).tolist())
    """
    said = python(program).stdout
    assert 'write torch.compile(model, backend="hpu_backend")' in said
    assert "[3.0, 3.0]" in said and "[4.0, 4.0]" in said


@needs_torch
def test_the_backend_needs_no_entry_point_of_an_installed_distribution() -> None:
    program = """
        import importlib.metadata
        importlib.metadata.entry_points = lambda **chosen: importlib.metadata.EntryPoints(())
        import torch
        import habana_frameworks.torch.core
        print(torch.compile(lambda x: x + 1, backend="hpu_backend")(torch.ones(2, device="hpu")).tolist())
    """
    assert "[2.0, 2.0]" in python(program).stdout


@on_device(modes=("lazy",))
def test_what_was_recorded_before_a_graph_is_run_before_it() -> None:
    run = compiled(lambda x: x * 2)
    for k in range(3):
        x = torch.full((4,), float(k), device="hpu") + 1
        y = run(x) + 1
        assert y.tolist() == [2.0 * (k + 1) + 1] * 4


@on_device()
def test_a_size_that_comes_again_is_not_compiled_again() -> None:
    """The last batch of an epoch is smaller."""
    from habana_tf.torch import loader

    recorder = loader.load()
    w = torch.randn(6, 3, device="hpu", requires_grad=True)

    def loss(x: Any) -> Any:
        return F.relu(x @ w).sum()

    run = loss if recorder.lazy else compiled(loss)

    def epoch() -> None:
        for n in (8, 8, 3):
            run(torch.randn(n, 6).to("hpu")).backward()
            torch.hpu.synchronize()

    epoch()
    epoch()
    before = recorder.programs
    epoch()
    assert recorder.programs == before


@on_device(modes=EAGER)
def test_arguments_that_share_memory_otherwise_are_another_call() -> None:
    run = compiled(lambda a, b, c: a * 100 + b * 10 + c)
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    p, q = x.to("hpu"), y.to("hpu")
    for given in ((p, q, p.detach()), (p, p.detach(), q), (q, p, p.detach()), (p, p.detach(), p.detach())):
        a, b, c = (t.cpu() for t in given)
        assert torch.equal(run(*given).cpu(), a * 100 + b * 10 + c)


@on_device(modes=EAGER)
def test_views_of_other_sizes_are_other_calls_of_a_divided_graph() -> None:
    """Its parts are not told the sizes that they do not compute with."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, torch.linalg.svdvals(torch.eye(2, device=x.device)).sum() + y.sum()

    run, x = compiled(f, dynamic=True), torch.arange(40.0).view(10, 4)
    there = x.to("hpu")
    for n in (3, 5, 7, 5):
        for got, want in zip(run(there[:n]), f(x[:n]), strict=True):
            torch.testing.assert_close(got.cpu(), want)


@on_device(modes=EAGER)
def test_results_that_are_parts_of_one_tensor() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y[:1], y[2:], y[1:3]

    _check(f, *[(torch.randn(4, 5),)] * 3)
