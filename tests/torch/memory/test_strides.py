"""How results lie in memory: as the CPU's, where arguments have channels last or permuted axes; those of graphs too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

Case = tuple[Callable[..., Any], tuple[tuple[tuple[int, ...], str], ...]]
"""A function, and the shapes of its arguments with how they lie: row by row, channels last, or with axes permuted."""
LAST, ROWS, PERMUTED = "channels last", "row by row", "permuted"
IMAGE = (2, 3, 6, 5)
CONVOLUTIONS: dict[str, Case] = {
    "conv2d": (lambda x, w: F.conv2d(x, w), ((IMAGE, LAST), ((4, 3, 3, 3), ROWS))),
    "filter": (lambda x, w: F.conv2d(x, w), ((IMAGE, ROWS), ((4, 3, 3, 3), LAST))),
    "both in rows": (lambda x, w: F.conv2d(x, w), ((IMAGE, ROWS), ((4, 3, 3, 3), ROWS))),
    "bias": (lambda x, w, b: F.conv2d(x, w, b), ((IMAGE, LAST), ((4, 3, 3, 3), ROWS), ((4,), ROWS))),
    "groups": (lambda x, w: F.conv2d(x, w, groups=3), ((IMAGE, LAST), ((6, 1, 3, 3), ROWS))),
    "1 x 1": (lambda x, w: F.conv2d(x, w), ((IMAGE, LAST), ((4, 3, 1, 1), ROWS))),
    "one image": (lambda x, w: F.conv2d(x, w), (((1, 3, 6, 5), LAST), ((4, 3, 3, 3), ROWS))),
    "one channel": (lambda x, w: F.conv2d(x, w), (((2, 1, 6, 5), LAST), ((4, 1, 3, 3), ROWS))),
    "one channel in rows": (lambda x, w: F.conv2d(x, w), (((2, 1, 6, 5), ROWS), ((4, 1, 3, 3), ROWS))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w), ((IMAGE, LAST), ((3, 4, 3, 3), ROWS))),
    "conv3d": (lambda x, w: F.conv3d(x, w), (((2, 3, 4, 5, 6), LAST), ((4, 3, 2, 2, 2), ROWS))),
    "permuted": (lambda x, w: F.conv2d(x, w), (((5, 6, 3, 2), PERMUTED), ((4, 3, 3, 3), ROWS))),
}
VOLUME, CHANNELS = (2, 3, 4, 5, 6), (2, 4, 6, 4)
OTHERS: dict[str, Case] = {
    "pad": (lambda x: F.pad(x, (1, 1, 2, 0)), ((IMAGE, LAST),)),
    "pad permuted": (lambda x: F.pad(x, (1, 1)), ((IMAGE, PERMUTED),)),
    "reflect": (lambda x: F.pad(x, (1, 1, 2, 0), mode="reflect"), ((IMAGE, LAST),)),
    "replicate": (lambda x: F.pad(x, (1, 1, 2, 0), mode="replicate"), ((IMAGE, LAST),)),
    "circular": (lambda x: F.pad(x, (1, 1, 2, 0), mode="circular"), ((IMAGE, LAST),)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), ((IMAGE, LAST),)),
    "max pool": (lambda x: F.max_pool2d(x, 2, return_indices=True), ((IMAGE, LAST),)),
    "average pool": (lambda x: F.avg_pool2d(x, 2), ((IMAGE, LAST),)),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 2), ((IMAGE, LAST),)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), ((IMAGE, LAST),)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ((IMAGE, LAST),)),
    "relu": (lambda x: F.relu(x), ((IMAGE, LAST),)),
    "softmax": (lambda x: F.softmax(x, 1), ((IMAGE, PERMUTED),)),
    "cat": (lambda x: torch.cat([x, x], 1), ((IMAGE, LAST),)),
    "add": (lambda x, y: x + y, ((IMAGE, LAST), (IMAGE, ROWS))),
    "multiply": (lambda x: x * 2.5, ((IMAGE, PERMUTED),)),
    "where": (lambda x: torch.where(x > 0, x, 0), ((IMAGE, PERMUTED),)),
    "roll": (lambda x: x.roll(1, 1), ((IMAGE, LAST),)),
    "shuffled channels": (lambda x: F.channel_shuffle(x, 2), ((CHANNELS, LAST),)),
    "reflect volumes": (lambda x: F.pad(x, (1, 1, 1, 0, 2, 1), mode="reflect"), ((VOLUME, LAST),)),
    "replicate volumes": (lambda x: F.pad(x, (1, 1, 1, 0, 2, 1), mode="replicate"), ((VOLUME, LAST),)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), ((VOLUME, LAST),)),
    "nearest volumes": (lambda x: F.interpolate(x, scale_factor=2), ((VOLUME, LAST),)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), ((IMAGE, LAST),)),
    "nearest-exact": (lambda x: F.interpolate(x, size=(7, 7), mode="nearest-exact"), ((IMAGE, LAST),)),
    "to more places": (lambda x: F.pixel_shuffle(x, 2), ((CHANNELS, LAST),)),
    "to more channels": (lambda x: F.pixel_unshuffle(x, 2), ((CHANNELS, LAST),)),
    "glu": (lambda x: F.glu(x, 1), ((CHANNELS, LAST),)),
    "glu of the last axis": (lambda x: F.glu(x), ((CHANNELS, LAST),)),
    "glu permuted": (lambda x: F.glu(x), ((CHANNELS, PERMUTED),)),
    "mse": (lambda x, y: F.mse_loss(x, y), ((IMAGE, LAST), (IMAGE, LAST))),
    "mse of rows and not": (lambda x, y: F.mse_loss(x, y, reduction="none"), ((IMAGE, ROWS), (IMAGE, LAST))),
    "mse permuted": (lambda x, y: F.mse_loss(x, y), ((IMAGE, PERMUTED), (IMAGE, PERMUTED))),
    "smooth l1": (lambda x, y: F.smooth_l1_loss(x, y), ((IMAGE, LAST), (IMAGE, LAST))),
    "huber": (lambda x, y: F.huber_loss(x, y, reduction="sum"), ((IMAGE, LAST), (IMAGE, LAST))),
    "l1": (lambda x, y: F.l1_loss(x, y), ((IMAGE, LAST), (IMAGE, LAST))),
    "sum": (lambda x: x.sum(1), ((IMAGE, PERMUTED),)),
    "product": (lambda x, y: x @ y, (((3, 4), PERMUTED), ((3, 5), ROWS))),
}


IN_TRACES_ROW_BY_ROW = (
    "glu", "glu of the last axis", "mse", "mse of rows and not", "mse permuted", "smooth l1", "huber",
    "to more places", "to more channels",
)  # fmt: skip
"""Whose gradients PyTorch's traces, which decide it in compiled graphs, have in another order than its CPU."""


def _argument(shape: tuple[int, ...], lies: str) -> Any:
    x = torch.randn(shape)
    if lies == LAST:
        return x.to(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return x.permute(*reversed(range(len(shape)))) if lies == PERMUTED else x


def _there(t: Any) -> Any:
    """A copy on the device with the same strides."""
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="hpu").copy_(t)


def _results(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    """What a function gives, and the gradients of its arguments."""
    args = [a.detach().requires_grad_() for a in args]
    made = function(*args)
    made = list(made) if isinstance(made, (tuple, list)) else [made]
    given = [y for y in made if y.requires_grad]
    return made + list(torch.autograd.grad(given, args, [torch.ones_like(y) for y in given]))


def _compare(case: Case, make: Callable[[Any], Any] = lambda function: function, gradients: bool = True) -> None:
    function, arguments = case
    torch.manual_seed(0)
    args = [_argument(*a) for a in arguments]
    wanted = _results(function, args)
    called = make(function)
    for _ in range(2):
        found = _results(called, [_there(a) for a in args])
        for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
            if gradients or k < len(wanted) - len(args):
                # the stride of an axis of one element says nothing, and differs between kernels of the CPU
                strides = [[s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] for t in (got, want)]
                assert strides[0] == strides[1], (k, got.stride(), want.stride())
            torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@on_device(*CONVOLUTIONS)
def test_results_and_gradients_of_convolutions_lie_as_the_cpus(name: str) -> None:
    _compare(CONVOLUTIONS[name])


@on_device(*OTHERS)
def test_results_and_gradients_lie_as_the_cpus(name: str) -> None:
    _compare(OTHERS[name])


@on_device("conv2d", "filter", "one channel", *OTHERS, modes=("eager",))
def test_results_of_compiled_graphs_lie_as_the_cpus(name: str) -> None:
    torch._dynamo.reset()
    case, gradients = {**CONVOLUTIONS, **OTHERS}[name], name not in IN_TRACES_ROW_BY_ROW
    _compare(case, lambda f: torch.compile(f, backend="hpu_backend"), gradients)


@on_device("bilinear", "bicubic", "nearest", "nearest-exact", modes=("eager",))
def test_resizing_is_one_op_of_a_compiled_graph_of_any_size(mode: str) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("hpu_backend")
    functions = [
        lambda x: F.interpolate(x * 2, scale_factor=2, mode=mode).relu(),
        lambda x: F.interpolate(x * 2, size=(9, 7), mode=mode).relu(),
        lambda x: F.interpolate(x * 2, scale_factor=(1.5, 2.25), mode=mode).relu(),
    ]
    for k, f in enumerate(functions, 1):
        run = torch.compile(f, backend=counter)
        for batch, height in ((2, 6), (3, 6), (4, 6), (5, 6)):
            x = torch.randn(batch, 3, height, 5)
            for got, want in zip(_results(run, [_there(x)]), _results(f, [x]), strict=True):
                torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
        assert counter.frame_count <= 2 * k


def _heads(order: str, lengths: tuple[int, int, int] = (5, 5, 4)) -> list[Any]:
    """Query, keys and values [2 examples, 3 heads, positions, numbers] of which the query lies in another order."""
    positions, seen, width = lengths
    if order == "of one product":
        return [
            t.view(2, positions, 3, width).transpose(1, 2) for t in torch.randn(2, positions, 9 * width).chunk(3, -1)
        ]
    q, k, v = torch.randn(2, 3, positions, width), torch.randn(2, 3, seen, width), torch.randn(2, 3, seen, width)
    turned = {
        "by position": (0, 2, 1, 3),
        "by head": (1, 0, 2, 3),
        "by number": (0, 1, 3, 2),
        "row by row": (0, 1, 2, 3),
    }
    axes = turned[order]
    return [q.permute(axes).contiguous().permute([axes.index(a) for a in range(4)]), k, v]


@on_device("row by row", "by position", "by head", "by number", "of one product")
def test_attention_lies_as_its_query(order: str) -> None:
    masks: list[dict[str, Any]] = [
        {}, {"is_causal": True}, {"attn_mask": torch.ones(5, 5).bool()}, {"attn_mask": torch.zeros(2, 1, 5, 5)},
        {"attn_mask": torch.zeros(3, 5, 5)},
    ]  # fmt: skip
    for mask in masks:
        args = _heads(order)
        want = F.scaled_dot_product_attention(*args, **mask)
        there = {k: m.to("hpu") if isinstance(m, torch.Tensor) else m for k, m in mask.items()}
        for call in (
            F.scaled_dot_product_attention,
            torch.compile(F.scaled_dot_product_attention, backend="hpu_backend"),
        ):
            got = call(*map(_there, args), **there)
            assert got.stride() == want.stride(), (mask, got.stride(), want.stride())
            torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@on_device(modes=("eager",))
def test_as_strided_after_a_graph_break_reads_what_it_reads_on_the_cpu() -> None:
    def function(x: Any) -> Any:
        y = x.relu() + 1
        torch._dynamo.graph_break()
        return y.as_strided((6, 4), (3, 2), 1) * 2

    for lies in (LAST, PERMUTED):
        x = _argument(IMAGE, lies)
        found = torch.compile(function, backend="hpu_backend")(_there(x))
        torch.testing.assert_close(found.cpu(), function(x))


@on_device()
def test_strides_of_axes_of_one_element_are_those_of_this_call() -> None:
    """A result follows them, whatever a call of the same shapes before it had."""

    def results(device: str) -> list[tuple[int, ...]]:
        found = []
        bias = torch.ones(3, 1, 1, device=device)
        for strides in ((3, 1, 3, 3), (3, 1, 1, 1), (3, 1, 3, 3)):
            x = torch.ones(30, device=device).as_strided((10, 3, 1, 1), strides)
            part = torch.ones(60, device=device).as_strided((10, 3, 1, 1), strides, 30)
            made = (x + bias, bias + x, x * 5, x.clone(), part * 5, torch.stack([x, x]), (x * 2.5).add_(bias))
            found += [t.stride() for t in made]
        return found

    assert results("hpu") == results("cpu")
