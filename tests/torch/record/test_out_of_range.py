"""Values that PyTorch's CPU refuses: said once, with op, index, size and line, or raised as PyTorch does."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device
from tests.value_checks import setting, told

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

_sizes = itertools.count(11)
"""No two tests have a program in common, which would have been told of before."""

Case = tuple[Callable[..., Any], list[Any], list[Any]]


def shown(file: str) -> str:
    """A file as reports call it."""
    return file.removeprefix(os.path.join(os.getcwd(), ""))


def _rows(rows: int, device: str) -> Any:
    return torch.arange(float(rows * 2), device=device).reshape(rows, 2)


def cases(n: int) -> dict[str, Case]:
    """By name: an op of values, some that it takes, and some that the CPU refuses. n: rows of the table, another number
    for another program."""
    r = lambda x: _rows(n, x.device.type)
    classes = torch.zeros(n, dtype=torch.int64).tolist()
    return {
        "brackets": (lambda i: r(i)[i], [0, -n], [0, -n - 4]),
        "brackets, too large": (lambda i: r(i)[i], [0, n - 1], [0, n + 3]),
        "brackets of the second axis": (lambda i: r(i)[:, i], [0, -2], [0, -3]),
        "brackets that are written": (lambda i: r(i).index_put((i,), r(i)[:2]), [0, -n], [1, -n - 1]),
        "take": (lambda i: r(i).take(i), [0, -2 * n], [0, -2 * n - 1]),
        "index_fill": (lambda i: r(i).index_fill(0, i, 1.0), [0, -n], [0, -n - 1]),
        "index_select": (lambda i: r(i).index_select(0, i), [0, 1], [0, -1]),
        "index_add": (lambda i: r(i).index_add(0, i, r(i)[:2]), [0, 1], [0, n]),
        "index_copy": (lambda i: r(i).index_copy(0, i, r(i)[:2]), [0, 1], [0, n]),
        "gather": (lambda i: r(i).gather(1, i.reshape(2, 1)), [0, 1], [0, 2]),
        "scatter": (lambda i: r(i).scatter(0, i.reshape(2, 1), 1.0), [0, 1], [0, -1]),
        "embedding": (lambda i: F.embedding(i, r(i)), [0, 1], [0, n]),
        "cross_entropy": (lambda i: F.cross_entropy(r(i), i), classes, [*classes[:-1], 2]),
        "binary_cross_entropy": (lambda p: F.binary_cross_entropy(p, p * 0), [0.5] * n, [1.5] * n),
        "its target": (lambda p: F.binary_cross_entropy(p * 0, p), [0.5] * n, [-0.5] * n),
        "bernoulli": (lambda p: p.bernoulli(), [0.5] * n, [float("nan")] * n),
        "multinomial": (lambda p: p.multinomial(1), [0.5] * n, [0.5, float("nan")] * n),
        "multinomial of zeros": (lambda p: p.multinomial(2), [0.5] * n, [0.0] * n),
        "multinomial with replacement": (lambda p: p.multinomial(3, True), [0.5] * n, [-0.5] * n),
    }


def _raised(call: Callable[[], Any]) -> Exception | None:
    try:
        call().cpu()
    except Exception as why:
        return why
    return None


@on_device(*(cases(5) if HAS_TORCH else ()))
def test_a_value_that_the_cpu_refuses(name: str) -> None:
    for value in ("warn", "error", "off"):
        n = next(_sizes)
        op, right, wrong = cases(n)[name]
        wanted = _raised(lambda op=op, wrong=wrong: op(torch.tensor(wrong)))
        assert wanted is not None
        with setting(value), told() as texts:
            op(torch.tensor(right, device="hpu")).cpu()
            assert not texts
            found = [_raised(lambda op=op, wrong=wrong: op(torch.tensor(wrong, device="hpu"))) for _ in range(2)]
        refused = "index" not in str(wanted) and "Target" not in str(wanted)
        if value == "error" or refused and value == "warn":
            assert [type(f) for f in found] == [type(wanted)] * 2, (wanted, found)
            words = re.split(r"\.  \(Could| \(encountering| for dimension", str(wanted))[0]  # brackets move axes first
            assert words in str(found[0]) and "test_out_of_range.py:" in str(found[0])
        else:
            assert found == [None, None]
            assert len(texts) == (value == "warn")
        if value == "warn" and "index " in str(wanted) and not str(wanted).startswith("index out of range"):
            number = next(w for w in str(wanted).replace(":", " ").split() if w.lstrip("-").isdigit())
            assert f" {number} " in texts[0] and "test_out_of_range.py:" in texts[0], (wanted, texts)
        torch.hpu.synchronize()


@on_device(modes=("lazy",))
def test_the_layer_and_the_line_of_an_index() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(17, 3)

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.words(i * 1) + 1

    net = Net().to("hpu")
    with told() as texts:
        net(torch.tensor([3, 21], device="hpu")).cpu()
    line = Net.forward.__code__.co_firstlineno + 1
    assert len(texts) == 1
    assert f"of Net/words, called at {shown(__file__)}:{line}: index out of range in self: 21 of 17" in texts[0], texts


@on_device(modes=("lazy",))
def test_a_program_that_raised_is_no_part_of_the_next() -> None:
    x = torch.arange(6.0, device="hpu")
    with setting("error"):
        assert isinstance(_raised(lambda: x[torch.tensor([9], device="hpu")] + 1), IndexError)
        assert x[torch.tensor([5], device="hpu")].add(1).tolist() == [6.0]
