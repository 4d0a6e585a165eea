"""Calls of the rows of the table that none of PyTorch's own samples reaches, by the row's name.

Samples as those of `samples`, which takes them in. A row that no sample can reach has the file of its own tests in
`ELSEWHERE`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

_SHAPE, _BOXES = (4, 6), (2, 3, 4, 5, 3)
aten = torch.ops.aten

Sample = tuple[tuple[tuple[int, ...], ...], Any]


def _scalar(name: str, number: float, kind: str = "Scalar", dtype: Any = None, last: Any = None) -> Any:
    """An overload of a tensor and a number; in place on a copy. Of numbers of another type than the tensor given."""
    options = {} if last is None else {"rounding_mode": last}

    def call(x: torch.Tensor) -> torch.Tensor:
        given = x if dtype is None else (x.detach() * 4).to(dtype)
        given = given.clone() if name.endswith("_") else given
        made: torch.Tensor = getattr(getattr(aten, name), kind)(given, number, **options)
        return made

    return call


def _padded(mode: str) -> Sample:
    return (_BOXES,), lambda x: F.pad(x, (1, 2, 1, 0, 2, 1), mode=mode)


def _enlarged(mode: str) -> Sample:
    return (_BOXES,), lambda x: F.interpolate(x, size=(7, 8, 5), mode=mode)


def _normalized(name: str, kind: str, running: bool) -> Sample:
    """A normalization over a batch in training, and the running statistics that it gives or writes: as PyTorch's meta
    kernels say in float32, of whatever type those before are."""

    def call(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
        statistics = [torch.full((3,), v, device=x.device, dtype=x.dtype) for v in (0.5, 2.0)] if running else []
        made = getattr(getattr(aten, name), kind)(x, weight, bias, *statistics, True, 0.25, 1e-5)
        return [made[0], *(each.to(x.dtype) for each in made[3:] or statistics)]

    return ((5, 3, 4), (3,), (3,)), call


SAMPLES: dict[str, Sample] = {
    "hardswish_": ((_SHAPE,), lambda x: F.hardswish(x.clone(), inplace=True)),
    "hardtanh_": ((_SHAPE,), lambda x: F.hardtanh(x.clone(), -0.5, 0.75, inplace=True)),
    "clamp_max": ((_SHAPE,), lambda x: aten.clamp_max.default(x, 0.25)),
    "clamp_max_": ((_SHAPE,), lambda x: aten.clamp_max_.default(x.clone(), 0.25)),
    **{
        f"{name}.Scalar": ((_SHAPE,), _scalar(name, 5, dtype=torch.int32))
        for op in ("bitwise_and", "bitwise_or", "bitwise_xor") for name in (op, f"{op}_")
    },
    **{
        f"{name}.Scalar": ((_SHAPE,), _scalar(name, number))
        for name, number in {
            "copysign": -2.0, "copysign_": -2.0, "fmod": 0.75, "fmod_": 0.75, "remainder_": 0.75, "sub_": 1.5,
        }.items()
    },
    **{
        f"{name}_.Scalar": ((_SHAPE,), _scalar(f"{name}_", 1, dtype=torch.int32))
        for name in ("eq", "ne", "ge", "gt", "le", "lt")
    },
    **{
        f"{name}.Scalar_mode": ((_SHAPE,), _scalar(name, 0.75, "Scalar_mode", last="floor")) for name in ("div", "div_")
    },
    "remainder.Scalar_Tensor": ((_SHAPE,), lambda x: aten.remainder.Scalar_Tensor(2.0, x.detach().abs() + 0.5)),
    "xlogy.Scalar_Other": ((_SHAPE,), _scalar("xlogy", 2.0, "Scalar_Other")),
    "xlogy_.Scalar_Other": ((_SHAPE,), _scalar("xlogy_", 2.0, "Scalar_Other")),
    "xlogy.Scalar_Self": ((_SHAPE,), lambda x: aten.xlogy.Scalar_Self(2.0, x.abs() + 0.5)),
    "special_xlog1py.other_scalar": ((_SHAPE,), _scalar("special_xlog1py", 2.0, "other_scalar")),
    "special_xlog1py.self_scalar": ((_SHAPE,), lambda x: aten.special_xlog1py.self_scalar(2.0, x.abs())),
    "isin.Tensor_Scalar": (
        (_SHAPE,), lambda x: aten.isin.Tensor_Scalar((x.detach() * 4).to(torch.int32), 2, invert=True)
    ),
    **{
        f"{name}{form}": sample
        for form in ("", "_backward")
        for name, sample in {
            "_upsample_nearest_exact3d": _enlarged("nearest-exact"), "upsample_nearest3d": _enlarged("nearest"),
            "reflection_pad3d": _padded("reflect"), "replication_pad3d": _padded("replicate"),
        }.items()
    },
    "_native_batch_norm_legit": _normalized("_native_batch_norm_legit", "default", running=True),
    "_native_batch_norm_legit.no_stats": _normalized("_native_batch_norm_legit", "no_stats", running=False),
    "_native_batch_norm_legit_functional": _normalized("_native_batch_norm_legit_functional", "default", running=True),
    **dict.fromkeys(
        ("_weight_norm_interface", "_weight_norm_interface_backward"),
        (((4, 6), (4, 1)), lambda v, g: torch._weight_norm(v, g, 0)),
    ),
    **dict.fromkeys(
        ("_thnn_fused_gru_cell", "_thnn_fused_gru_cell_backward"),
        (((3, 5), (3, 6), (18, 5), (18, 6), (18,), (18,)), torch.gru_cell),
    ),
}  # fmt: skip
ELSEWHERE = {
    f"habana_tf::{name}": file
    for file, names in {
        "record/test_random_state.py": (
            "bernoulli_", "bernoulli_by_", "cauchy_", "choices", "dropout", "exponential_", "geometric_", "log_normal_",
            "permutation", "race", "random_", "uniform_",
        ),
        "hpex/test_optimizers.py": ("fused_adam_", "fused_sgd_"),
        "dispatch/test_recurrent.py": ("lstm_layer", "lstm_layer_backward", "gru_layer", "gru_layer_backward"),
    }.items()
    for name in names
} | dict.fromkeys(("_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl"), "samples.py")  # fmt: skip
"""Random numbers, which are not the CPU's, steps of optimizers, layers and cells of networks."""
