"""8-bit floats beside bfloat16, both on HPU, in one process and by turns: products, a decode step, a training step.

    python tests/benchmarks/torch_float8.py --cases "1 row" decode --json float8.json
    python tests/benchmarks/torch_float8.py --cases training --lazy

Says milliseconds of processor time of either, the median and quartiles of their ratio over pairs, below 1 where 8 bits
are faster, and the bytes of the weights. One thread computes unless `--threads` says otherwise. A turn of a product
takes several weights one after the other, more than a cache holds, and a pair is a turn of each, in an order that turns
around. In lazy mode a `mark_step` ends each call. Each size has recipes of its own, or a case would depend on those
before it.

    product   of rows that are in 8 bits already, by torch.ops.hpu.fp8_gemm_v2
    decode    one token's way through four layers (norms, attention on 512 cached tokens, gated feed-forward), where
              what goes into a product is cast to 8 bits before it
    training  forward and backward pass of four linear layers of the transformer engine, with the format HYBRID

[in, out] and [out, in] say which axis of a weight comes first; torch.nn.Linear has [out, in].
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

from tests.benchmarks.torch_calls import chosen, command_line, loaded, write

WIDTH, PAIRS = 4096, 7
ROWS = (1, 2, 4, 8, 16, 64, 512)
ROTATED, COPIES = 128 << 20, 8
"""Bytes of weights that a turn reads in 8 bits, unless that would be more weights."""
LAYERS, CACHED, HEADS = 4, 512, 16
ORDERS = {"[in, out]": False, "[out, in]": True}
"""Whether the weight is turned over."""

Turn = Callable[[], Any]
Case = tuple[str, Callable[[str], tuple[Turn, int]]]
"""A name, and what makes the turn of a type, with the bytes of its weights."""


def cases(width: int) -> list[Case]:
    """width: of products. That of layers is half of it."""
    found: list[Case] = []
    for columns in (width, width * 43 // 16):
        for order, turned in ORDERS.items():
            for rows in ROWS:
                name = f"product of {rows} row{'s' * (rows > 1)}, {width} x {columns} {order}"
                found.append((name, _product(rows, width, columns, turned)))
    for order, turned in ORDERS.items():
        for rows in (1, 4):
            name = f"decode of {rows} sequence{'s' * (rows > 1)}, {width // 2} {order}"
            found.append((name, _decode(rows, width // 2, turned)))
    return [*found, (f"training of {width // 8} rows, {width // 2}", _training(width // 8, width // 2))]


def _product(rows: int, width: int, columns: int, turned: bool) -> Callable[[str], tuple[Turn, int]]:
    def make(kind: str) -> tuple[Turn, int]:
        import torch

        shape = (columns, width) if turned else (width, columns)
        count = min(COPIES, -(-ROTATED // (width * columns)))
        weights = [_in(kind, torch.randn(shape, device="hpu", dtype=torch.bfloat16)) for _ in range(count)]
        x = _in(kind, torch.randn(rows, width, device="hpu", dtype=torch.bfloat16))
        return lambda: [_times(x, w, turned) for w in weights], sum(w.nbytes for w in weights)

    return make


def _decode(rows: int, width: int, turned: bool) -> Callable[[str], tuple[Turn, int]]:
    def make(kind: str) -> tuple[Turn, int]:
        import torch
        from torch.nn import functional

        def weight(inputs: int, outputs: int) -> Any:
            w = torch.randn(inputs, outputs, device="hpu", dtype=torch.bfloat16) * inputs**-0.5
            return _in(kind, w.t().contiguous() if turned else w)

        inner, head = width * 11 // 4, width // HEADS
        layers = [
            ([weight(width, width) for _ in range(4)], [weight(width, inner) for _ in range(2)], weight(inner, width))
            for _ in range(LAYERS)
        ]
        kept = [torch.randn(2, rows, HEADS, CACHED, head, device="hpu", dtype=torch.bfloat16) for _ in range(LAYERS)]
        token = torch.randn(rows, width, device="hpu", dtype=torch.bfloat16)

        def norm(x: Any) -> Any:
            return _in(kind, functional.rms_norm(x, (width,)))

        def turn() -> Any:
            x = token
            for (square, wide, last), cache in zip(layers, kept, strict=True):
                seen = norm(x)
                q, k, v = (_times(seen, w, turned).view(rows, HEADS, 1, head) for w in square[:3])
                cache[0, :, :, -1:], cache[1, :, :, -1:] = k, v
                attended = functional.scaled_dot_product_attention(q, cache[0], cache[1]).reshape(rows, width)
                x = x + _times(_in(kind, attended), square[3], turned)
                seen = norm(x)
                gate, up = (_times(seen, w, turned) for w in wide)
                x = x + _times(_in(kind, functional.silu(gate) * up), last, turned)
            return x

        return turn, sum(w.nbytes for square, wide, last in layers for w in (*square, *wide, last))

    return make


def _training(rows: int, width: int) -> Callable[[str], tuple[Turn, int]]:
    def make(kind: str) -> tuple[Turn, int]:
        import torch

        import habana_frameworks.torch.core as htcore
        import habana_frameworks.torch.hpex.experimental.transformer_engine as te

        layers = [te.Linear(width, width, params_dtype=torch.bfloat16) for _ in range(LAYERS)]
        recipe = te.recipe.DelayedScaling(fp8_format=te.recipe.Format.HYBRID)
        x = torch.randn(rows, width, device="hpu", dtype=torch.bfloat16, requires_grad=True)

        def turn() -> None:
            made = x
            with te.fp8_autocast(enabled=kind == "fp8", fp8_recipe=recipe):
                for layer in layers:
                    made = layer(made)
            made.float().square().mean().backward()
            htcore.mark_step()
            for tensor in (x, *(p for layer in layers for p in layer.parameters())):
                tensor.grad = None

        return turn, sum(layer.weight.nbytes for layer in layers)

    return make


def _in(kind: str, x: Any) -> Any:
    """bf16 as it is, or in 8 bits."""
    import torch

    return torch.ops.hpu.cast_to_fp8_v2(x, 1.0, False, False, torch.float8_e4m3fn)[0] if kind == "fp8" else x


def _times(x: Any, w: Any, turned: bool) -> Any:
    """x @ w in bf16."""
    import torch

    if x.dtype is torch.bfloat16:
        return x @ (w.t() if turned else w)
    return torch.ops.hpu.fp8_gemm_v2(x, False, w, turned, None, torch.bfloat16, 1.0, 1.0)


def measure(case: Case, pairs: int, end: Callable[[], None]) -> dict[str, Any]:
    """The figures of a case. end: what ends a call on HPU."""
    import torch

    name, make = case
    made = {kind: make(kind) for kind in ("fp8", "bf16")}
    spent: dict[str, list[float]] = {kind: [] for kind in made}
    for pair in range(-2, pairs):  # the first two are not counted: they compile
        for kind in list(made)[:: -1 if pair % 2 else 1]:
            start = time.process_time()
            kept = made[kind][0]()  # or lazy mode has nothing to compute
            end()
            torch.hpu.synchronize()
            spent[kind].append(1e3 * (time.process_time() - start))
            del kept
    times = {kind: found[2:] for kind, found in spent.items()}
    ratios = [a / b for a, b in zip(times["fp8"], times["bf16"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if pairs > 1 else ratios * 3
    return {"case": name, **{f"{kind}_ms": statistics.median(found) for kind, found in times.items()}, "ratio": middle,
            "quartiles": [low, high], **{f"{kind}_bytes": nbytes for kind, (_, nbytes) in made.items()}}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command_line("8-bit floats beside bfloat16 on HPU.", "case")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"of weights, a multiple of 64; default: {WIDTH}")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"turns of each; default: {PAIRS}")
    parser.set_defaults(threads=1)
    options = parser.parse_args(arguments)
    found = chosen(parser, options, cases(options.width))
    os.environ["TF_ENABLE_DYNAMIC_SHAPES"] = "0"
    end = loaded(options)
    lines = []
    print(f"{'case':48} {'fp8 ms':>9} {'bf16 ms':>9} {'ratio':>6} {'quartiles':>13} {'weights':>8}")
    for case in found:
        lines.append(line := measure(case, options.pairs, end))
        low, high = line["quartiles"]
        print(
            f"{line['case']:48} {line['fp8_ms']:9.2f} {line['bf16_ms']:9.2f} {line['ratio']:6.2f} {low:5.2f} to"
            f" {high:4.2f} {line['fp8_bytes'] / line['bf16_bytes']:8.2f}",
            flush=True,
        )
    write(options, lines)


if __name__ == "__main__":
    main()
