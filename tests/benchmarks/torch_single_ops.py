"""Single ops of PyTorch, each called again and again, on HPU beside PyTorch's CPU, in one process and by turns.

    python tests/benchmarks/torch_single_ops.py --ops sort unique --lazy --json ops.json

Says which ops are the slowest in comparison: the least of some times in milliseconds on either device, and the CPU's
over HPU's, so more than 1 means that HPU is faster. In lazy mode a `mark_step` ends each call. A name's part chooses
ops.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

from tests.benchmarks.torch_calls import chosen, command_line, loaded, write

ROUNDS, SECONDS = 4, 0.02
"""Turns of each device, and how long each is."""

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def cases() -> list[Case]:
    """(name, function, inputs)."""
    import torch
    from torch.nn import functional

    torch.manual_seed(1)
    r, n, flat = torch.randn(256, 256), torch.randint(0, 1000, (256, 256)), torch.randn(65536)
    places, rows = torch.randint(0, 256, (256,)), torch.randint(0, 256, (256, 256))
    words, small, one = torch.randint(0, 1000, (65536,)), torch.randn(8, 8), torch.randn(())
    steps = torch.linspace(-3, 3, 1000)
    mask, weight = r > 0, torch.randn(256)
    return [
        ("add of 8 x 8", lambda x: x + 1, (small,)), ("add", lambda x: x + x, (r,)),
        ("add_", lambda x: x.add_(0), (r.clone(),)), ("view and mul", lambda x: x.view(-1) * 2, (r,)),
        ("item", lambda x: x.item(), (one,)), ("item of a sum", lambda x: x.sum().item(), (r,)),
        ("to the host", lambda x: x.to("cpu", copy=True), (r,)),
        ("contiguous transpose", lambda x: x.t().contiguous(), (r,)),
        ("softmax", lambda x: x.softmax(1), (r,)), ("log_softmax", lambda x: x.log_softmax(1), (r,)),
        ("logsumexp", lambda x: x.logsumexp(1), (r,)),
        ("layer_norm", lambda x: functional.layer_norm(x, (256,)), (r,)),
        ("sum", lambda x: x.sum(), (r,)), ("sum of rows", lambda x: x.sum(1), (r,)),
        ("sum of columns", lambda x: x.sum(0), (r,)), ("mean", lambda x: x.mean(), (r,)),
        ("sum of int64", lambda x: x.sum(), (n,)), ("sum of int64 rows", lambda x: x.sum(1), (n,)),
        ("prod of int64", lambda x: x.prod(1), (n,)), ("var", lambda x: x.var(), (r,)),
        ("var of columns", lambda x: x.var(0), (r,)), ("norm", lambda x: x.norm(), (r,)),
        ("any", lambda x: x.any(), (mask,)), ("all of rows", lambda x: x.all(1), (mask,)),
        ("argmax", lambda x: x.argmax(), (r,)), ("argmax of rows", lambda x: x.argmax(1), (r,)),
        ("max of rows", lambda x: x.max(1)[0], (r,)), ("amax of columns", lambda x: x.amax(0), (r,)),
        ("count_nonzero", lambda x: x.count_nonzero(), (r,)),
        ("cumsum", lambda x: x.cumsum(1), (r,)), ("cumsum of columns", lambda x: x.cumsum(0), (r,)),
        ("cumsum of int64", lambda x: x.cumsum(1), (n,)), ("cumsum of a vector", lambda x: x.cumsum(0), (flat,)),
        ("cumprod", lambda x: x.cumprod(1), (r,)), ("cummax", lambda x: x.cummax(1)[0], (r,)),
        ("logcumsumexp", lambda x: x.logcumsumexp(1), (r,)),
        ("sort", lambda x: x.sort(1)[0], (r,)), ("sort of a vector", lambda x: x.sort()[0], (flat,)),
        ("sort of int64", lambda x: x.sort()[0], (words,)), ("argsort", lambda x: x.argsort(1), (r,)),
        ("topk", lambda x: x.topk(10)[0], (r,)), ("topk of a vector", lambda x: x.topk(10)[0], (flat,)),
        ("median", lambda x: x.median(), (r,)), ("median of rows", lambda x: x.median(1)[0], (r,)),
        ("kthvalue", lambda x: x.kthvalue(20, 1)[0], (r,)), ("quantile", lambda x: x.quantile(0.3), (flat,)),
        ("quantile of rows", lambda x: x.quantile(0.3, 1), (r,)), ("mode", lambda x: x.mode(1)[0], (n,)),
        ("unique", lambda x: x.unique(), (words,)),
        ("unique with inverse", lambda x: torch.unique(x, return_inverse=True, return_counts=True), (words,)),
        ("unique_consecutive", lambda x: x.unique_consecutive(), (words,)),
        ("randperm", lambda x: torch.randperm(65536, device=x.device), (one,)),
        ("rand", lambda x: torch.rand(256, 256, device=x.device), (one,)),
        ("randn", lambda x: torch.randn(256, 256, device=x.device), (one,)),
        ("randint", lambda x: torch.randint(0, 100, (256, 256), device=x.device), (one,)),
        ("bernoulli", lambda x: x.bernoulli(0.4), (r,)), ("dropout", lambda x: functional.dropout(x, 0.3), (r,)),
        ("multinomial", lambda x: x.softmax(1).multinomial(1), (r,)),
        ("arange", lambda x: torch.arange(65536, device=x.device), (one,)),
        ("mm", lambda x: x @ x, (r,)), ("mm of int64", lambda x: x @ x, (n,)),
        ("mm of int32", lambda x: x @ x, (n.int(),)), ("mv of int64", lambda x: x @ x[0], (n,)),
        ("bmm of int64", lambda x: x @ x, (n.view(16, 64, 64),)), ("mm of float64", lambda x: x @ x, (r.double(),)),
        ("mm of float16", lambda x: x @ x, (r.half(),)), ("mm of 8 x 8", lambda x: x @ x, (small,)),
        ("dot of int64", lambda x: x.view(-1).dot(x.view(-1)), (n,)),
        ("nonzero", lambda x: x.nonzero(), (mask,)), ("masked_select", lambda x, y: x[y], (r, mask)),
        ("masked_fill", lambda x, y: x.masked_fill(y, 0.0), (r, mask)),
        ("where", lambda x, y: torch.where(y, x, 0.0), (r, mask)),
        ("bincount", lambda x: x.bincount(), (words,)), ("histc", lambda x: x.histc(100), (flat,)),
        ("searchsorted", lambda x, y: torch.searchsorted(x, y), (steps, flat)),
        ("bucketize", lambda x, y: torch.bucketize(y, x), (steps, flat)),
        ("isin", lambda x, y: torch.isin(x, y), (words, places)),
        ("index_select", lambda x, y: x.index_select(0, y), (r, places)),
        ("index_select of columns", lambda x, y: x.index_select(1, y), (r, places)),
        ("index", lambda x, y: x[y], (r, places)), ("gather", lambda x, y: x.gather(1, y), (r, rows)),
        ("take", lambda x, y: x.take(y), (r, rows)),
        ("index_add", lambda x, y: x.index_add(0, y, x), (r, places)),
        ("index_add_", lambda x, y, z: x.index_add_(0, y, z), (r.clone(), places, r * 1e-9)),
        ("index_copy", lambda x, y: x.index_copy(0, y, x), (r, places)),
        ("index_fill", lambda x, y: x.index_fill(0, y, 1.0), (r, places)),
        ("index_put", lambda x, y: x.index_put((y,), x), (r, places)),
        ("index_put accumulate", lambda x, y: x.index_put((y,), x, accumulate=True), (r, places)),
        ("scatter", lambda x, y: x.scatter(1, y, x), (r, rows)),
        ("scatter_add", lambda x, y: x.scatter_add(1, y, x), (r, rows)),
        ("scatter_reduce", lambda x, y: x.scatter_reduce(1, y, x, "amax"), (r, rows)),
        ("embedding", lambda x, y: functional.embedding(y, x), (r, places)),
        ("one_hot", lambda x: functional.one_hot(x, 256), (places,)),
        ("triu", lambda x: x.triu(), (r,)), ("tril", lambda x: x.tril(), (r,)), ("flip", lambda x: x.flip(1), (r,)),
        ("roll", lambda x: x.roll(3, 1), (r,)), ("cat", lambda x: torch.cat([x, x]), (r,)),
        ("stack", lambda x: torch.stack([x, x], -1), (r,)), ("diag", lambda x: x.diag(), (r,)),
        ("repeat_interleave", lambda x: x.repeat_interleave(2, 0), (r,)),
        ("pad", lambda x: functional.pad(x, (1, 1)), (r,)),
        ("exp", lambda x: x.exp(), (r,)), ("gelu", functional.gelu, (r,)), ("sigmoid", lambda x: x.sigmoid(), (r,)),
        ("pow", lambda x: x**3, (r,)), ("floor division of int64", lambda x: x // 7, (n,)),
        ("remainder of int64", lambda x: x % 7, (n,)), ("bitwise_and", lambda x: x & 7, (n,)),
        ("cast to int64", lambda x: x.long(), (r,)), ("cast to bfloat16", lambda x: x.bfloat16(), (r,)),
        ("float64", lambda x: x * 2 + 1, (r.double(),)), ("float16", lambda x: x * 2 + 1, (r.half(),)),
        ("linear", lambda x, y: functional.linear(x, x, y), (r, weight)),
        ("cross entropy", functional.cross_entropy, (r, places)),
        ("mse_loss", lambda x: functional.mse_loss(x, x.t()), (r,)),
        ("cdist", lambda x: torch.cdist(x, x), (torch.randn(256, 8),)), ("lerp", lambda x: x.lerp(x, 0.3), (r,)),
        ("equal", lambda x: torch.equal(x, x.clone()), (r,)), ("allclose", lambda x: torch.allclose(x, x + 0), (r,)),
        ("tolist", lambda x: x.tolist(), (steps,)),
        ("tril_indices", lambda x: torch.tril_indices(64, 64, device=x.device), (one,)),
        ("clip_grad_norm", lambda x: torch.nn.utils.clip_grads_with_norm_([x], 1.0, x.norm()), (r.clone(),)),
        ("conv2d", lambda x: functional.conv2d(x.view(1, 16, 64, 64), x.view(-1)[:2304].view(16, 16, 3, 3)), (r,)),
        ("max_pool2d", lambda x: functional.max_pool2d(x.view(1, 16, 64, 64), 2), (r,)),
        ("inverse", lambda x: torch.linalg.inv(x), (torch.eye(64) + 0.1 * torch.randn(64, 64),)),
        ("einsum", lambda x: torch.einsum("ij,kj->ik", x, x), (r,)),
    ]  # fmt: skip


def measure(case: Case, end: Callable[[], None]) -> dict[str, Any]:
    """The least milliseconds of a case on each device, and their ratio. end: what ends a call on HPU."""
    name, function, inputs = case
    least = {"hpu": float("inf"), "cpu": float("inf")}
    ready = {device: [x.to(device) for x in inputs] for device in least}
    ends = {"hpu": end, "cpu": lambda: None}
    for device, there in ready.items():
        for _ in range(3):
            function(*there)
            ends[device]()
    for _ in range(ROUNDS):
        for device, there in ready.items():
            until = time.perf_counter() + SECONDS
            start = 0.0
            while start < until:
                start = time.perf_counter()
                function(*there)
                ends[device]()
                least[device] = min(least[device], 1e3 * (time.perf_counter() - start))
    return {"op": name, "hpu_ms": least["hpu"], "cpu_ms": least["cpu"], "ratio": least["cpu"] / least["hpu"]}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command_line("Single ops of PyTorch on HPU beside its CPU.", "op")
    options = parser.parse_args(arguments)
    end = loaded(options)
    found = chosen(parser, options, cases())
    lines = sorted((measure(case, end) for case in found), key=lambda line: float(line["ratio"]))
    print(f"{'op':30} {'HPU ms':>9} {'CPU ms':>9} {'ratio':>6}")
    for line in lines:
        print(f"{line['op']:30} {line['hpu_ms']:9.3f} {line['cpu_ms']:9.3f} {line['ratio']:6.2f}")
    write(options, lines)


if __name__ == "__main__":
    main()
