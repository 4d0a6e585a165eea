"""Calls of the table's overloads with arguments that mostly do not fit, on the device and on the CPU.

Arguments follow an overload's schema and nothing else: shapes near each other, several types, views that are strided,
expanded or of one storage. A call is right where both refuse it, or both take it and the results are the same. Run as a
program it takes the calls of one part of the rows, from a row and a call on, and prints what it is about to do, so that
who starts it knows what ended the process.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from habana_tf.torch.ops import own_ops
from habana_tf.torch.ops.table import rows
from habana_tf.torch.record.nested import tensors
from habana_tf.torch.record.overload import Overload
from tests.child import check_recipes
from tests.torch.error_inputs import moved, raised

CALLS = 24
"""Of each overload."""
_SHAPES = [(), (0,), (1,), (3,), (4,), (2, 3), (3, 2), (3, 4), (1, 3), (3, 0), (2, 3, 4), (1, 3, 4), (2, 3, 4, 4),
           (3, 3, 2, 2), (1, 2, 3, 4, 4)]  # fmt: skip
_TYPES = [torch.float32] * 6 + [torch.bfloat16, torch.int64, torch.int64, torch.int32, torch.uint8, torch.bool]
_WORDS = {"rounding_mode": [None, "floor", "trunc", "up"], "approximate": ["none", "tanh", "no"],
          "reduce": ["sum", "prod", "mean", "amax", "amin", "add", "no"]}  # fmt: skip
SKIPPED = {
    "_thnn_fused_gru_cell": "the CPU has no such kernel",
    "_thnn_fused_gru_cell_backward": "the CPU has no such kernel",
    "_thnn_fused_lstm_cell": "the CPU has no such kernel",
    "_thnn_fused_lstm_cell_backward_impl": "the CPU has no such kernel",
}
"""By overload: why it is not called."""
_OF_OTHERS = (
    "log_sigmoid_backward", "_weight_norm_interface", "_weight_norm_interface_backward", "_prelu_kernel_backward",
    "sigmoid_backward", "nll_loss_backward", "nll_loss2d_backward", "max_pool2d_with_indices_backward",
    "logit", "logit_", "logit_backward", "_softmax_backward_data", "_log_softmax_backward_data", "isin.Tensor_Tensor",
    "hardtanh_backward", "smooth_l1_loss_backward", "native_dropout_backward",
    *(f"{name}.correction" for name in ("std", "var", "std_mean", "var_mean")),
)  # fmt: skip
"""Overloads that take what others have made, or promises (`assume_unique`), where kernels trust each other; of `logit`
a bound beyond 1/2, of `std` a correction that is no number, of `hardtanh` a bound that is none (there the CPU's
vectors have 0, and what no vector is left for the gradient, which GPUs have)."""
_BY_DESIGN = ("ZeroDivisionError", '"histogram_cpu" not implemented')
"""What the CPU says to calls that are taken here: no program stops for a divisor, and cards count integers, too."""


class Calls:
    """Makes the calls of an overload, always the same."""

    def __init__(self, name: str) -> None:
        self.kernel = Overload.of(rows()[name])
        self.overload = self.kernel.stock
        self.random = random.Random(name)
        self.values = torch.Generator()

    def __iter__(self) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        for _ in range(CALLS):
            self.values.manual_seed(self.random.randrange(1 << 30))
            self.base, self.dtype = self.random.choice(_SHAPES), self.random.choice(_TYPES)
            self.made: list[torch.Tensor] = []
            args, kwargs = [], {}
            for a in self.overload._schema.arguments:
                value = self._value(str(a.type), a.name)
                if a.kwarg_only:
                    kwargs[a.name] = value
                else:
                    args.append(value)
            yield args, {k: v for k, v in kwargs.items() if v is not None}

    def _value(self, kind: str, name: str) -> Any:
        r = self.random
        if name in ("dtype", "input_dtype"):
            return r.choice((None, *_TYPES)) if kind.startswith("Optional[") else r.choice(_TYPES)
        if name in ("layout", "device", "pin_memory", "memory_format"):
            return None
        if kind.startswith("Optional["):
            return self._value(kind[9:-1], name) if r.random() < 0.5 else None
        if kind == "Tensor":
            return self._tensor(name)
        if kind.startswith("List["):
            return [self._value(kind[5:-1], name) for _ in range(r.choice((0, 1, 2, 2, 2, 3, 3)))]
        if kind in ("int", "SymInt"):
            return r.choice((-9, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 100))
        if kind == "float":
            return r.choice((-1.0, 0.0, 0.25, 0.5, 1.0))
        if kind in ("number", "Scalar"):
            return r.choice((-1, 0, 1, 2, 3, 300, 1 << 40, 0.5, -2.5, 1e300, math.nan, math.inf, True))
        if kind == "bool":
            return r.random() < 0.5
        if kind == "str":
            return r.choice(_WORDS.get(name, ["mean", "no"]))
        return None

    def _tensor(self, name: str) -> torch.Tensor:
        r = self.random
        if self.made and r.random() < 0.1:
            of = r.choice(self.made)  # of one storage, or it itself
            view = of.t() if of.dim() == 2 else of
            if r.random() < 0.5 and of.dim() and of.is_contiguous():
                view = of.flatten()[1:]
            self.made.append(view)
            return view
        shape = self.base if r.random() < 0.6 else r.choice(_SHAPES)
        index = "index" in name or "indices" in name or name == "target"
        dtype = self.dtype if r.random() < 0.8 else r.choice(_TYPES)
        if index and r.random() < 0.8:
            dtype = torch.int64
        count = math.prod(shape)
        values = torch.randint(0, 2, (count,), generator=self.values) if index or r.random() < 0.5 else (
            torch.randint(-6, 7, (count,), generator=self.values) / 2)  # fmt: skip
        t = values.to(dtype).reshape(shape)
        way = r.random()
        if way < 0.1 and t.dim() > 1:
            t = t.transpose(0, 1).contiguous().transpose(0, 1)
        elif way < 0.2 and t.dim():
            t = torch.cat([t, t])[: shape[0]]
        elif way < 0.3 and t.numel() and t.dim():
            t = t.flatten()[:1].expand(shape)
        self.made.append(t)
        return t


def _copied(value: Any) -> Any:
    return moved(value, "cpu")


def _same(want: Any, got: Any) -> str | None:
    """What differs in results."""
    for a, b in itertools.zip_longest(_flat(want), _flat(got)):
        if a is None or b is None:
            return "another number of results"
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor) or not isinstance(a, torch.Tensor):
            if a != b:
                return f"{b}, not {a}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype} of {list(b.shape)}, not {a.dtype} of {list(a.shape)}"
        tolerance = 4e-2 if torch.bfloat16 in (a.dtype,) else 2e-4
        if not torch.allclose(a.double(), b.cpu().double(), tolerance, tolerance, equal_nan=True):
            return f"{b.flatten()[:6].tolist()}, not {a.flatten()[:6].tolist()}"
    return None


def _flat(value: Any) -> list[Any]:
    return [x for v in value for x in _flat(v)] if isinstance(value, (list, tuple)) else [value]


def compare(calls: Calls, args: Any, kwargs: Any) -> tuple[str, str]:
    """(what came of it, what is wrong) of one call: "refused", "same", or how the device differs."""
    on_cpu, on_device = _copied((args, kwargs)), moved((args, kwargs))
    made: dict[str, Any] = {}

    def call(where: str, given: Any) -> Any:
        made[where] = calls.overload(*given[0], **given[1])
        return made[where]

    wanted = raised(lambda: call("cpu", on_cpu))
    _say(at="hpu")
    got = raised(lambda: call("hpu", on_device))
    if wanted is not None and got is not None:
        return "refused", ""
    if wanted is not None and any(words in str(wanted) for words in _BY_DESIGN):
        return "by design", ""
    if (
        wanted is not None
        and calls.kernel.row.mixed
        and any(t.dtype is torch.bfloat16 for t in tensors([args, kwargs]))
    ):
        return "by design", ""  # such a row takes bfloat16 beside float32
    if wanted is not None:
        return "taken here", f"the CPU raises {type(wanted).__name__}: {str(wanted)[:200]}"
    if got is not None and "negative dimension" in str(got):
        return "by design", ""  # the CPU makes a pooled tensor of no elements
    if got is not None:
        return "refused here", f"{type(got).__name__}: {str(got)[:200]}"
    if calls.kernel.row.name in _OF_OTHERS or calls.kernel.row.mixed:
        return "not compared", ""
    wrong = _same(made["cpu"], made["hpu"])
    if wrong is None and calls.kernel.writes:
        wrong = _same(list(tensors(on_cpu)), [t.cpu() for t in tensors(on_device)])
    return ("same", "") if wrong is None else ("another result", wrong)


def shown(value: Any) -> str:
    """Arguments for a person."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}{list(value.stride())}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str({k: shown(v) for k, v in value.items()}) if isinstance(value, dict) else repr(value)


def named(part: int = 0, parts: int = 1) -> list[str]:
    """The overloads of a part."""
    return [n for n in sorted(rows()) if n not in own_ops.OPS and "::" not in n and n not in SKIPPED][part::parts]


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(part: int, parts: int, row: int, first: int) -> None:
    """Makes the calls of a part, from a call of a row on."""
    import habana_frameworks.torch.core  # noqa: F401

    warnings.simplefilter("ignore")
    check_recipes()
    for k, name in list(enumerate(named(part, parts)))[row:]:
        calls = Calls(name)
        for c, (args, kwargs) in enumerate(calls):
            if k == row and c < first:
                continue
            _say(at="cpu", row=k, call=c, name=name, arguments=shown([args, kwargs]))
            outcome, wrong = compare(calls, args, kwargs)
            _say(outcome=outcome, wrong=wrong)
    _say(outcome="end")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
