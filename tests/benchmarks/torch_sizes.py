"""Calls of PyTorch whose sizes and places change at every call, on HPU beside PyTorch's CPU.

    python tests/benchmarks/torch_sizes.py --cases cache LSTM --lazy --json sizes.json

Each case is called with `--calls` sizes, one after the other, and then with the same sizes again. Says how many recipes
were compiled, and milliseconds: of the first call, of one with a size that was never met (the median of the first
walk's second half), of one with a size that was met (the median of the second walk), and of the CPU's in the second
walk. In lazy mode a `mark_step` ends each call. A name's part chooses cases.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

from tests.benchmarks.torch_calls import chosen, command_line, loaded, write

CALLS = 48

Call = Callable[[int], Any]
Case = tuple[str, Callable[[str], Call]]
"""A name, and what makes the calls of a device: each takes its number."""


def cases() -> list[Case]:
    """What changes: a place, a length, a size of images, an amount."""
    import torch
    from torch import nn
    from torch.nn import functional

    def on(*shape: int, call: Callable[[Any, int], Any]) -> Callable[[str], Call]:
        """Calls on one tensor of that shape."""

        def make(device: str) -> Call:
            x = torch.linspace(-2, 2, int(torch.tensor(shape).prod())).view(shape).to(device)
            return lambda i: call(x, i)

        return make

    def of(shape: Callable[[int], tuple[int, ...]], call: Callable[[Any, int], Any]) -> Callable[[str], Call]:
        """Calls on a tensor whose shape follows from their number."""

        def make(device: str) -> Call:
            return lambda i: call(torch.ones(shape(i), device=device), i)

        return make

    def with_module(module: Callable[[], Any], shape: Callable[[int], tuple[int, ...]]) -> Callable[[str], Call]:
        """Calls of a module on such tensors."""

        def make(device: str) -> Call:
            there = module().to(device)

            def call(i: int) -> Any:
                with torch.no_grad():
                    return there(torch.ones(shape(i), device=device))

            return call

        return make

    def write(x: Any, where: Any, value: Any) -> None:
        x[where] = value

    def growing_cache(device: str) -> Call:
        new, kept = torch.ones(2, 1, 4, 16, device=device), {"k": torch.ones(2, 0, 4, 16, device=device)}

        def call(i: int) -> Any:
            k = torch.cat([kept["k"] if i else kept["k"][:, :0], new], 1)
            kept["k"] = k
            q, keys = new.transpose(1, 2), k.transpose(1, 2)
            return functional.scaled_dot_product_attention(q, keys, keys).transpose(1, 2).reshape(2, 1, 64)

        return call

    def index(x: Any, i: int) -> Any:
        return (torch.arange(x.numel(), device=x.device) % (i + 1)).view(x.shape)

    def rows(i: int) -> tuple[int, ...]:
        return i + 3, 17

    def image(i: int) -> tuple[int, ...]:
        return 2, 8, 16 + i, 16 + 7 * i % 23

    def length(i: int) -> tuple[int, ...]:
        return 3 + i, 4, 16

    return [
        ("row written", on(CALLS, 64, call=lambda z, i: write(z, i % CALLS, z[0]))),
        ("number written", on(CALLS, 64, call=lambda z, i: write(z, i % CALLS, 2.0))),
        ("row added to", on(CALLS, 64, call=lambda z, i: z[i % CALLS].add_(1))),
        ("place of a cache", on(4, CALLS, 32, call=lambda z, i: z[:, i % CALLS].copy_(z[:, 0]))),
        ("growing rows", on(CALLS, CALLS + 1, call=lambda z, i: z[i % CALLS, : i % CALLS + 1].add_(1))),
        ("growing cache", growing_cache),
        ("growing cat", of(rows, lambda x, i: torch.cat([x, x[:2]]))),
        ("scatter", of(rows, lambda x, i: x.scatter(0, index(x, i), x))),
        ("scatter of a number", of(rows, lambda x, i: x.scatter_(1, index(x, 3), 2.0))),
        ("gather", of(rows, lambda x, i: x.gather(0, index(x, i)))),
        ("scatter_reduce", of(rows, lambda x, i: x.scatter_reduce(0, index(x, i), x, "amax"))),
        ("conv2d", with_module(lambda: nn.Conv2d(8, 8, 3, padding=1), image)),
        ("LSTM", with_module(lambda: nn.LSTM(16, 16), length)), ("GRU", with_module(lambda: nn.GRU(16, 16), length)),
        ("bilinear", of(image, lambda x, i: functional.interpolate(x, scale_factor=2.0, mode="bilinear"))),
        ("bilinear to a size", on(
            2, 3, 16, 16, call=lambda x, i: functional.interpolate(x, (17 + i, 40 - i % 20), mode="bilinear"))),
        ("top k", on(8, 64, call=lambda x, i: x.topk(i + 1, 1)[0])),
        ("pad", on(8, 64, call=lambda x, i: functional.pad(x, (i + 1, 3 * i % 7 + 1)))),
        ("product with itself", of(rows, lambda x, i: x @ x.T)), ("softmax", of(rows, lambda x, i: x.softmax(0))),
    ]  # fmt: skip


def measure(case: Case, calls: int, end: Callable[[], None]) -> dict[str, Any]:
    """The figures of a case. end: what ends a call on HPU."""
    from habana_tf.cache import stats

    name, make = case
    times: dict[str, list[float]] = {}
    compiled = 0
    for device, ends in (("cpu", lambda: None), ("hpu", end)):
        call = make(device)
        ends()
        before, found = stats().counts().compiled, []
        for i in (*range(calls), *range(calls)):
            start = time.perf_counter()
            made = call(i)  # kept, or lazy mode has nothing to compute
            ends()
            del made
            found.append(1e3 * (time.perf_counter() - start))
        times[device], compiled = found, stats().counts().compiled - before
    first, new, again = times["hpu"][0], times["hpu"][calls // 2 : calls], times["hpu"][calls:]
    middle = statistics.median
    return {"case": name, "recipes": compiled, "first_ms": first, "new_ms": middle(new), "met_ms": middle(again),
            "walk_ms": sum(times["hpu"][:calls]), "cpu_ms": middle(times["cpu"][calls:])}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command_line("Calls of PyTorch with sizes that change, on HPU beside its CPU.", "case")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"sizes that a case is called with; default: {CALLS}")
    options = parser.parse_args(arguments)
    end = loaded(options)
    found = chosen(parser, options, cases())
    print(f"{'case':20} {'recipes':>7} {'first ms':>9} {'new ms':>8} {'met ms':>8} {'walk ms':>8} {'CPU ms':>8}")
    lines = []
    for case in found:
        lines.append(line := measure(case, options.calls, end))
        print(
            f"{line['case']:20} {line['recipes']:7} {line['first_ms']:9.1f} {line['new_ms']:8.3f} {line['met_ms']:8.3f}"
            f" {line['walk_ms']:8.0f} {line['cpu_ms']:8.3f}",
            flush=True,
        )
    write(options, lines)


if __name__ == "__main__":
    main()
