"""Each op beside float64 and the CPU: where a NaN begins, what overflows its type, what differs."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np

import habana_tf
from tests.torch.child import HAS_TORCH, on_device
from tests.torch.record.test_out_of_range import shown

if HAS_TORCH:
    import torch
    from torch import nn


class Net(nn.Module if HAS_TORCH else object):  # type: ignore[misc]
    """Its logarithm is NaN where the product is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)

    def forward(self, x: Any) -> Any:
        return torch.log(self.first(x)) + 1


@on_device()
def test_the_op_where_a_nan_begins_has_its_layer_and_line() -> None:
    net = Net().to("hpu")
    nn.init.constant_(net.first.weight, -1.0)
    report = habana_tf.op_by_op(lambda: net(torch.ones(2, 4, device="hpu")).sum().backward())
    first = report.first_not_finite
    assert first is not None and first.op == "aten.log.default" and first.layer == "Net"
    assert first.line == f"{shown(__file__)}:{Net.forward.__code__.co_firstlineno + 1}"
    after = [op for op in report.ops if not op.was_finite]
    assert after and all(not op.finite for op in after if op.op == "aten.add.Tensor")
    assert report.first_overflow is None, "float64 has no logarithm of it either"
    assert report.first_different is None and "first with a NaN or an infinity: aten.log.default" in str(report)
    gradient = next(op for op in report.ops if op.layer.startswith("backward/Net"))
    assert gradient.error is not None


@on_device()
def test_what_overflows_its_type_is_no_number_where_float64_has_one() -> None:
    x = torch.full((3,), 3e38, device="hpu", dtype=torch.bfloat16)
    report = habana_tf.op_by_op(lambda t: (t.float() * 0.1, t * 2), x)
    (found,) = (op for op in report.ops if op.overflow)
    assert report.first_overflow is found and found.op == "aten.mul.Tensor" and found.dtype == "bfloat16"
    assert found.error == found.cpu_error == math.inf and found.largest == 0 and not found.differs
    assert torch.isinf(report.result[1]).all() and not torch.isinf(report.result[0]).any()


@on_device()
def test_errors_are_those_against_float64_of_one_op_and_writes_count() -> None:
    a, b = np.random.default_rng(3).normal(size=(2, 32, 32)).astype(np.float32)
    x, y = torch.from_numpy(a).to("hpu"), torch.from_numpy(b).to("hpu")
    report = habana_tf.op_by_op(lambda: (x @ y).add_(1).cpu())
    product, added = (op for op in report.ops if op.op in ("aten.mm.default", "aten.add_.Tensor"))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    got = (report.result - 1).double().numpy()
    assert product.error is not None and 0 < product.error < 1e-5
    assert abs(got - exact).max() / abs(exact).max() < product.error + 1e-6
    assert added.shape == (32, 32) and added.error is not None and added.error < 1e-7
    assert not any(op.differs for op in report.ops)


@on_device()
def test_an_op_that_is_unlike_the_cpus_is_found() -> None:
    from habana_tf.torch import op_by_op

    called = op_by_op._called

    def wrong(func: Any, given: Any) -> Any:
        made = called(func, given)
        return [t * 1.5 for t in made] if "exp" in str(func) and made is not None else made

    x = torch.ones(4, device="hpu")
    with mock.patch.object(op_by_op, "_called", wrong):
        report = habana_tf.op_by_op(lambda: (x * 2).exp().tanh())
    assert report.first_different is not None and report.first_different.op == "aten.exp.default"
    assert [op.op for op in report.ops if op.differs] == ["aten.exp.default"]
    assert "1 unlike the CPU's" in report.summary()
    assert report.to_dict()[1]["differs"] is True


@on_device(modes=("eager",))
def test_random_numbers_and_views_are_left_alone() -> None:
    x = torch.ones(4, 4, device="hpu")
    report = habana_tf.op_by_op(lambda: torch.dropout(x.t()[0], 0.5, True) + torch.rand(4, device="hpu"))
    assert [op.op for op in report.ops if "bernoulli" in op.op or op.op.startswith("aten.t.")] == []
    assert any(op.op == "aten.add.Tensor" for op in report.ops)
