"""Optimizer steps against stock TensorFlow's training ops on the CPU.

Tolerance: a step is a dozen float32 operations per element, some of which cancel: 1e-5 of the value, and 1e-5 of
the size of the operands (all about 1). bfloat16 is rounded once at the end, so its oracle is the float32 kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import F32, quick
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from resources import check, check_rounded, lowered, run

from habana_tf.cluster.lowering_context import LoweringError

SCALARS = {
    "lr": 0.01, "alpha": 0.02, "beta1": 0.9, "beta2": 0.999, "beta1_power": 0.81, "beta2_power": 0.998,
    "epsilon": 1e-3, "momentum": 0.9, "rho": 0.95, "l1": 0.1, "l2": 0.2, "l2_shrinkage": 0.05, "lr_power": -0.5,
    "sign_decay": 0.7, "beta": 0.9, "logbase": 2.7,
}  # fmt: skip
POSITIVE = {"v", "vhat", "ms", "accum_update", "gradient_squared_accumulator"}

RULES: dict[str, tuple[list[str], list[str], list[dict[str, Any]]]] = {
    "GradientDescent": (["var"], ["alpha", "delta"], [{}]),
    "ProximalGradientDescent": (["var"], ["alpha", "l1", "l2", "delta"], [{}]),
    "Momentum": (["var", "accum"], ["lr", "grad", "momentum"], [{"use_nesterov": n} for n in (False, True)]),
    "KerasMomentum": (["var", "accum"], ["lr", "grad", "momentum"], [{"use_nesterov": n} for n in (False, True)]),
    "Adam": (
        ["var", "m", "v"], ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"],
        [{"use_nesterov": n} for n in (False, True)],
    ),
    "AdamWithAmsgrad": (
        ["var", "m", "v", "vhat"], ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"], [{}],
    ),
    "AdaMax": (["var", "m", "v"], ["beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"], [{}]),
    "Adagrad": (["var", "accum"], ["lr", "grad"], [{"update_slots": u} for u in (False, True)]),
    "AdagradV2": (["var", "accum"], ["lr", "epsilon", "grad"], [{"update_slots": u} for u in (False, True)]),
    "AdagradDA": (
        ["var", "gradient_accumulator", "gradient_squared_accumulator"], ["grad", "lr", "l1", "l2", "global_step"], [{}]
    ),
    "ProximalAdagrad": (["var", "accum"], ["lr", "l1", "l2", "grad"], [{}]),
    "Adadelta": (["var", "accum", "accum_update"], ["lr", "rho", "epsilon", "grad"], [{}]),
    "RMSProp": (["var", "ms", "mom"], ["lr", "rho", "momentum", "epsilon", "grad"], [{}]),
    "CenteredRMSProp": (["var", "mg", "ms", "mom"], ["lr", "rho", "momentum", "epsilon", "grad"], [{}]),
    "Ftrl": (
        ["var", "accum", "linear"], ["grad", "lr", "l1", "l2", "lr_power"],
        [{"multiply_linear_by_lr": m} for m in (False, True)],
    ),
    "FtrlV2": (
        ["var", "accum", "linear"], ["grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"],
        [{"multiply_linear_by_lr": m} for m in (False, True)],
    ),
    "AddSign": (["var", "m"], ["lr", "alpha", "sign_decay", "beta", "grad"], [{}]),
    "PowerSign": (["var", "m"], ["lr", "logbase", "sign_decay", "beta", "grad"], [{}]),
}  # fmt: skip
SPARSE = [
    "ProximalGradientDescent", "Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "AdagradDA", "ProximalAdagrad",
    "Adadelta", "RMSProp", "CenteredRMSProp", "Ftrl", "FtrlV2",
]  # fmt: skip
ACCUMULATES_SQUARES = {"Adagrad", "AdagradV2", "ProximalAdagrad", "Adadelta", "Ftrl", "FtrlV2"}


def operands(rule: str, shape: Any, grad_shape: Any, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    slots, names, _ = RULES[rule]
    generator = np.random.default_rng(seed)

    def value(name: str, shape: Any) -> Any:
        x = generator.normal(size=shape).astype(F32)
        positive = name in POSITIVE or name == "accum" and rule in ACCUMULATES_SQUARES
        return np.abs(x) + F32.type(1.5 if rule == "CenteredRMSProp" else 0.1) if positive else x

    variables = {n: value(n, shape) for n in slots}
    if rule == "CenteredRMSProp":
        variables["mg"] *= F32.type(0.1)  # the mean square is never below the square of the mean
    inputs = {}
    for n in names:
        if n in ("grad", "delta"):
            inputs[n] = value(n, grad_shape)
        else:
            inputs[n] = np.array(7, np.int64) if n == "global_step" else np.array(SCALARS[n], F32)
    return variables, inputs


@pytest.mark.parametrize("rule", RULES)
@settings(quick, max_examples=4)
@given(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), st.integers(0, 99))
def test_dense(rule: str, shape: Any, seed: int) -> None:
    variables, inputs = operands(rule, shape, shape, seed)
    for attrs in RULES[rule][2]:
        check(f"ResourceApply{rule}", variables, inputs, rtol=1e-5, atol=1e-5, **attrs)


@pytest.mark.parametrize("rule", RULES)
def test_dense_bfloat16(rule: str) -> None:
    variables, inputs = operands(rule, (5, 7), (5, 7), 3)
    for attrs in RULES[rule][2]:
        check_rounded(f"ResourceApply{rule}", variables, inputs, atol=1e-5, **attrs)


@pytest.mark.parametrize("rule", SPARSE)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse(rule: str, index: Any) -> None:
    for rows in ([3, 0, 4], [2], []):
        variables, inputs = operands(rule, (5, 3), (len(rows), 3), 5)
        if "delta" in inputs:
            inputs["grad"] = inputs.pop("delta")
        inputs["indices"] = np.array(rows, index)
        for attrs in RULES[rule][2]:
            check(f"ResourceSparseApply{rule}", variables, inputs, rtol=1e-5, atol=1e-5, **attrs)


def test_a_nan_gradient_shows() -> None:
    variables, inputs = operands("Adam", (3,), (3,), 0)
    inputs["grad"][1] = np.nan
    for var, _, _ in run("ResourceApplyAdam", variables, inputs):
        np.testing.assert_array_equal(np.isnan(var), [False, True, False])


@pytest.mark.parametrize("rule", RULES)
def test_shapes_that_do_not_fit_the_variable_are_refused(rule: str) -> None:
    slots, names, _ = RULES[rule]
    gradient = next(n for n in names if n in ("grad", "delta"))
    scalar = next(n for n in names if n != gradient)
    for name, shape in [(n, s) for n in (*slots[1:], gradient) for s in ((1, 3), (3,), ())] + [(scalar, (1,))]:
        variables, inputs = operands(rule, (2, 3), (2, 3), 0)
        given = variables if name in variables else inputs
        given[name] = np.ones(shape, F32)
        with pytest.raises(LoweringError, match=f"ResourceApply{rule} .* on shapes .*{name} must "):
            lowered(f"ResourceApply{rule}", variables, inputs, {}, shaped=False)


@pytest.mark.parametrize("rule", SPARSE)
def test_rows_that_do_not_fit_the_indices_are_refused(rule: str) -> None:
    for shape, index in (((1, 3), (2,)), ((2, 1), (2,)), ((3,), (2,)), ((2, 3), (2, 1)), ((3,), ())):
        variables, inputs = operands(rule, (5, 3), shape, 5)
        if "delta" in inputs:
            inputs["grad"] = inputs.pop("delta")
        inputs["indices"] = np.zeros(index, np.int32)
        with pytest.raises(LoweringError, match="grad must have a row" if len(index) == 1 else "must be a vector"):
            lowered(f"ResourceSparseApply{rule}", variables, inputs, {}, shaped=False)
