"""hmp.convert and hmp.disable_casts: the mixed precision of scripts of before autocast."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child import python
from tests.torch.child import needs_torch

_HEAD = """
import logging
lines = []
logging.getLogger("habana_tf").addFilter(lambda r: lines.append(r) or True)
import habana_frameworks.torch.core, torch
from habana_frameworks.torch.hpex import hmp
torch.manual_seed(0)
x, w = torch.randn(4, 8), torch.randn(8, 8)
hx, hw = x.to("hpu"), w.to("hpu")
"""


@needs_torch
@pytest.mark.parametrize("lazy", ["0", "1"])
def test_level_1_casts_by_two_lists(lazy: str) -> None:
    python(
        _HEAD
        + """
hmp.convert(opt_level="O1", isVerbose=True)
linear = torch.nn.Linear(8, 3)
there = torch.nn.Linear(8, 3).to("hpu")
there.load_state_dict(linear.state_dict())
y = there(hx)
assert y.dtype is torch.bfloat16 and (hx @ hw).dtype is torch.bfloat16
assert y.relu().dtype is torch.bfloat16 and hx.relu().dtype is torch.float32  # as the first input
assert (y + 1).dtype is torch.bfloat16 and (y + hx[:, :3]).dtype is torch.float32  # the widest
loss = torch.nn.functional.cross_entropy(y, torch.tensor([0, 1, 2, 0]).to("hpu"))
assert loss.dtype is torch.float32
loss.backward()
want = torch.nn.functional.cross_entropy(linear(x), torch.tensor([0, 1, 2, 0]))
want.backward()
assert abs(loss.item() - want.item()) < 0.02
for a, b in zip(linear.parameters(), there.parameters()):
    assert b.grad.dtype is torch.float32 and torch.allclose(a.grad, b.grad.cpu(), atol=0.02)
with hmp.disable_casts():
    assert (hx @ hw).dtype is torch.float32
    torch.optim.SGD(there.parameters(), 0.1).step()
assert (hx @ hw).dtype is torch.bfloat16
with torch.no_grad():
    hw.mul_(0)
assert (hx @ hw).eq(0).all().item()  # no cast weight of before
said = " ".join(r.getMessage() for r in lines)
assert "hmp O1: in bf16 addmm" in said and "aten.linear.default runs in lower precision" in said, said
""",
        imported=True, PT_HPU_LAZY_MODE=lazy,
    )  # fmt: skip


@needs_torch
def test_level_2_keeps_products_alone_in_bf16() -> None:
    python(
        _HEAD
        + """
hmp.convert(opt_level="O2")
y = hx @ hw
assert y.dtype is torch.float32
assert torch.equal(y.cpu(), (x.bfloat16() @ w.bfloat16()).float()) or torch.allclose(
    y.cpu(), x.bfloat16().float() @ w.bfloat16().float(), rtol=2**-8, atol=2**-8)
assert not torch.equal(y.cpu(), x @ w)
try:
    hmp.convert(opt_level="O3")
    raise SystemError("no error")
except ValueError as error:
    assert "O1 and O2" in str(error)
""",
        imported=True,
    )


@needs_torch
def test_files_replace_the_lists(tmp_path: Path) -> None:
    (tmp_path / "bf16.txt").write_text("addmm\nlinear\nmul\n")
    (tmp_path / "fp32.txt").write_text("cross_entropy\nmatmul\n")
    python(
        _HEAD
        + f"""
hmp.convert(opt_level="O1", bf16_file_path="{tmp_path}/bf16.txt", fp32_file_path="{tmp_path}/fp32.txt")
assert (hx * hx).dtype is torch.bfloat16 and torch.nn.functional.linear(hx, hw).dtype is torch.bfloat16
assert (hx.bfloat16() @ hw).dtype is torch.float32
""",
        imported=True,
    )
