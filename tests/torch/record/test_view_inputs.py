"""Views of what is on the device already begin anywhere: where is an address and in no program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

    from habana_tf.torch import loader
    from habana_tf.torch.record.view_inputs import part

TIMES = 7


def _programs() -> int:
    return loader.load().programs


READS: dict[str, Callable[[Any, Any, int], Any]] = {
    "row": lambda x, w, i: x[i] @ w,
    "rows": lambda x, w, i: x[2 * i : 2 * i + 3].sum(0) + 1,
    "transposed": lambda x, w, i: w @ x[i].t(),
    "odd range": lambda x, w, i: x.view(-1)[3 * i + 1 : 3 * i + 211].view(21, 10).exp().sum(1),
    "of rows": lambda x, w, i: x[i : i + 4, :-1] * x[i : i + 4, 1:],
    "columns of a row": lambda x, w, i: x[i, :, 1:4].t() * 2,
    "element": lambda x, w, i: x[i, 2, 3] * w,
    "broadcast": lambda x, w, i: x[i, 3].expand(4, 5) + x[i, 4],
    "twice": lambda x, w, i: x[i] * x[i] + x[i + 1],
    "split": lambda x, w, i: torch.stack([part.square() for part in x.split(5)[i].unbind(0)[:2]]),
    "convolution": lambda x, w, i: torch.conv1d(x[i : i + 1], x[3 * i + 1 : 3 * i + 3, :, 1:4]),
}


@on_device(*READS)
def test_one_program_for_all_offsets(name: str) -> None:
    x, w = torch.randn(40, 7, 5), torch.randn(5, 5)
    hx, hw = x.to("hpu"), w.to("hpu")
    before, first = _programs(), 0
    for i in range(TIMES):
        got = READS[name](hx, hw, i).cpu()
        torch.testing.assert_close(got, READS[name](x, w, i), rtol=1e-5, atol=1e-5)
        first = first or _programs() - before
    assert _programs() == before + first


KERNELS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "product": (lambda a, b: a @ b, [(130, 97), (97, 70)]),
    "large product": (lambda a, b: a @ b.t(), [(256, 256), (256, 256)]),
    "products": (lambda a, b: a @ b, [(6, 33, 65), (6, 65, 31)]),
    "product with a vector": (lambda a, b: a @ b, [(177, 133), (133,)]),
    "convolution": (lambda x, w, b: torch.conv2d(x, w, b, padding=1), [(2, 8, 14, 14), (16, 8, 3, 3), (16,)]),
    "normalization": (lambda x, w, b: torch.layer_norm(x, (130,), w, b), [(17, 130), (130,), (130,)]),
    "softmax": (lambda x: x.softmax(1), [(23, 157)]),
    "larger than the caches": (lambda a, b: a + b, [(1600, 2001), (1600, 2001)]),
    "sums": (lambda a: (a.sum(0), a.cumsum(1)), [(300, 61)]),
    "transposition": (lambda a: a.permute(2, 0, 1).contiguous() * 2, [(51, 37, 33)]),
    "order": (lambda a: a.sort(1), [(50, 101)]),
}


@on_device(*KERNELS, modes=("lazy",))
def test_kernels_read_what_is_aligned_to_its_elements_only(name: str) -> None:
    """As they read what begins with a line, to the last bit."""
    call, shapes = KERNELS[name]
    for dtype in (torch.float32, torch.bfloat16):
        given = [torch.randn(shape).to(dtype) for shape in shapes]
        aligned = call(*(t.to("hpu") for t in given))
        for first in (1, 7, 13):
            here = []
            for k, t in enumerate(given):
                around = torch.cat([torch.zeros(first + k), t.float().flatten(), torch.zeros(5)]).to(dtype).to("hpu")
                here.append(around[first + k : first + k + t.numel()].view(t.shape))
                assert here[-1].data_ptr() % 64
            made = call(*here)
            for got, want in zip(made if isinstance(made, tuple) else [made],
                                 aligned if isinstance(made, tuple) else [aligned], strict=True):  # fmt: skip
                assert torch.equal(got.cpu(), want.cpu()), (dtype, first)


@on_device("bfloat16", "int32", "uint8", "bool", "int64")
def test_elements_of_every_size_at_every_offset(kind: str) -> None:
    x = torch.randint(0, 2, (301,)).to(getattr(torch, kind))
    h = x.to("hpu")
    for i in range(70):
        assert torch.equal((h[i : i + 201] == h[i + 99]).cpu(), x[i : i + 201] == x[i + 99]), i


@on_device()
def test_what_was_read_is_from_before_the_writes_that_follow() -> None:
    def run(x: Any, i: int) -> list[Any]:
        made = [x[i] + 1]
        x[i : i + 2].mul_(2)
        made.append(x[i] * 3)
        x[4:].add_(x[:4])
        made.append(x[5 + i].sum())
        if i == 1:
            x.zero_()
        made.append(x[3] - 1)
        x[:] = x[7] + 1
        return [*made, x]

    for i in range(3):
        x = torch.randn(8, 3, 5)
        h = x.to("hpu")
        for got, want in zip(run(h, i), run(x, i), strict=True):
            torch.testing.assert_close(got.cpu(), want)


@on_device()
def test_storage_that_is_read_in_part_and_whole_and_written_over() -> None:
    """As a packed weight, of which parts are read, and which is updated at the same addresses."""
    w, x = torch.randn(3 * 65, 65), torch.randn(4, 65)
    h, hx = w.to("hpu"), x.to("hpu")
    recorder = loader.load()
    for _ in range(3):
        with recorder.recorded():
            first, second, third = h.split(65)
            made = (hx @ first) @ second.t() + third.sum(0)
            h.mul_(0.5).add_(h.mean(1, keepdim=True))
        first, second, third = w.split(65)
        torch.testing.assert_close(made.cpu(), (x @ first) @ second.t() + third.sum(0), rtol=1e-4, atol=1e-3)
        w.mul_(0.5).add_(w.mean(1, keepdim=True))
        torch.testing.assert_close(h.cpu(), w, rtol=1e-5, atol=1e-4)


@on_device()
def test_an_op_that_is_refused_has_read_nothing() -> None:
    """Its parts are no inputs of what is recorded further on."""
    x = torch.randn(6, 4)
    h = x.to("hpu")
    made = [h[1] + 1, h[2].double() * 2, torch.linalg.svdvals(h[1:5]), h[2] + h[1]]
    want = [x[1] + 1, x[2].double() * 2, torch.linalg.svdvals(x[1:5]), x[2] + x[1]]
    for got, value in zip(made, want, strict=True):
        torch.testing.assert_close(got.cpu(), value)
    h.zero_()
    assert not h.cpu().any()


@on_device()
def test_tensors_that_die_before_their_parts_are_read() -> None:
    x = torch.randn(300, 300)
    made = []
    for i in range(4):
        h = (x + i).to("hpu")
        made.append(h[i + 1] * 2)
        del h
        torch.empty(300, 300, device="hpu").fill_(7)
    for i, got in enumerate(made):
        torch.testing.assert_close(got.cpu(), (x[i + 1] + i) * 2)


@on_device()
def test_minibatches_of_data_on_the_device_train_with_the_programs_of_the_first() -> None:
    torch.manual_seed(0)
    data, labels = torch.randn(96, 6), torch.randint(0, 3, (96,))
    models = [torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    recorder, counts = loader.load(), []
    losses: list[list[float]] = [[], []]
    for k, where in enumerate(("cpu", "hpu")):
        x, y, model = data.to(where), labels.to(where), models[k].to(where)
        updates = torch.optim.SGD(model.parameters(), lr=0.5)
        for i in range(6):
            batch = slice(i * 16, (i + 1) * 16)
            updates.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            recorder.flush()
            updates.step()
            losses[k].append(loss.item())
            counts.append(recorder.programs)
    assert len(set(counts[-5:])) == 1
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-5)


@on_device(modes=("eager",))
def test_a_compiled_function_takes_batches_of_any_place() -> None:
    """Its program, bound to the first one's memory, runs on others', of storages of other sizes too."""
    w = torch.randn(5, 4, requires_grad=True)
    weights = w.detach().to("hpu").requires_grad_()
    run = torch.compile(lambda x: (x.view(-1, 5) @ weights).tanh().sum(), backend="hpu_backend")
    for count in (30, 31):
        x = torch.randn(count, 2, 5)
        data, before = x.to("hpu"), -1
        for i in (4, 0, 7, 1, 26):
            loss = run(data[i : i + 4])
            loss.backward()
            want = (x[i : i + 4].view(-1, 5) @ w).tanh().sum()
            want.backward()
            torch.testing.assert_close(loss.cpu(), want)
            torch.testing.assert_close(weights.grad.cpu(), w.grad, rtol=1e-4, atol=1e-5)
            weights.grad = w.grad = None
            assert before in (-1, loader.load().programs)
            before = loader.load().programs


@on_device(modes=("eager",))
def test_a_compiled_function_that_reads_parts_and_gives_views_of_its_argument() -> None:
    def f(x: Any) -> Any:
        return x[1:, :-1] * 2 + x[:-1, 1:], x[2:].t()

    run, x = torch.compile(f, backend="hpu_backend"), torch.randn(12, 6)
    data = x.to("hpu")
    for i in (3, 0, 8):
        for part in (slice(i, i + 4), (slice(i, i + 4), slice(1, 5))):
            for got, want in zip(run(data[part]), f(x[part]), strict=True):
                torch.testing.assert_close(got.cpu(), want)


@on_device(modes=("eager",))
def test_a_compiled_function_that_writes_a_batch() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        x.add_(1)
        return y

    run, x = torch.compile(f, backend="hpu_backend"), torch.randn(12, 6)
    data = x.to("hpu")
    for i in (0, 5, 2):
        torch.testing.assert_close(run(data[i : i + 3]).cpu(), f(x[i : i + 3]))
        torch.testing.assert_close(data.cpu(), x)


@on_device(modes=("lazy",))
def test_a_graph_replays_parts_of_what_is_there_then() -> None:
    data = torch.randn(9, 5).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        made = data[3:5] * 2 + data[7]
        data.mul_(0.5)
    for _ in range(2):
        new = torch.randn(9, 5)
        data.copy_(new)
        graph.replay()
        torch.testing.assert_close(made.cpu(), new[3:5] * 2 + new[7])
        torch.testing.assert_close(data.cpu(), new * 0.5)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "geometry, want",
    [
        (((2, 6), (6, 1), 7), (7, (2, 6), None)),
        (((6, 2), (1, 6), 7), (7, (2, 6), ((6, 2), (1, 6), 0))),
        (((3, 2), (6, 1), 7), (6, (3, 6), ((3, 2), (6, 1), 1))),
        (((4, 3), (6, 1), 1), None),  # of all rows
        (((2, 3), (2, 1), 0), None),  # overlaps
        (((2, 3), (12, 2), 13), None),  # from the third row's, to past the end
        (((4, 6), (6, 1), 0), None),
        (((3, 6), (0, 1), 6), (6, (6, 1), ((3, 6), (0, 1), 0))),
    ],
)
def test_the_part_of_24_elements_that_a_view_reads(geometry: Any, want: Any) -> None:
    assert part(24, geometry) == want
