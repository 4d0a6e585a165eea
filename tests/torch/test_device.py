"""The device `hpu`: memory, copies, views, errors, what other parts of PyTorch ask of it."""

from __future__ import annotations

import copy
import gc
import io
import re

import pytest

from tests.child import python
from tests.torch.child import HAS_TORCH, get_recorder, needs_torch, on_device, raises

if HAS_TORCH:
    import torch


@on_device()
def test_a_tensor_goes_there_and_back() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool, torch.complex64):
        x = (torch.randn(3, 5) * 4).to(dtype)
        there = x.to("hpu")
        assert there.device == torch.device("hpu:0") and there.is_hpu and there.dtype is dtype
        assert torch.equal(there.cpu(), x)
        assert torch.equal(there.t()[1:, :2].cpu(), x.t()[1:, :2])


@on_device()
def test_a_copy_to_the_host_need_not_be_waited_for() -> None:
    x = torch.arange(6.0).view(2, 3)
    there = x.to("hpu", non_blocking=True)
    assert torch.equal(there.to("cpu", non_blocking=True), x)
    assert torch.equal(there.to("cpu", torch.float64, non_blocking=True), x.double())


@on_device()
def test_as_the_default_device() -> None:
    """What the front end itself makes on the host stays there."""
    torch.set_default_device("hpu")
    try:
        x = torch.randn(3, 4)
        assert x.is_hpu and torch.hpu.get_rng_state().device.type == "cpu" and torch.randperm(5).is_hpu
        buffer = io.BytesIO()
        torch.save(x, buffer)
        buffer.seek(0)
        assert torch.equal(torch.load(buffer), x)
        assert (x % 3).is_hpu and torch.nonzero(x.abs() < 9).shape == (12, 2)
        assert torch.zeros(0, 3).cpu().device.type == "cpu"
    finally:
        torch.set_default_device(None)


@on_device()
def test_views_share_memory_whichever_writes() -> None:
    want, got = torch.arange(24.0).reshape(4, 6), torch.arange(24.0).reshape(4, 6).to("hpu")
    for x in (want, got):
        row = x[1]
        x.add_(1)
        row.mul_(2)
        x[:, 2:5].t()[0] = 7
        x.view(2, 12)[1, ::3].zero_()
        x[2:, 1:3] += x[:2, 1:3]
        x.unsqueeze(0).expand(3, 4, 6)[2].sub_(0.5)
    assert torch.equal(got.cpu(), want)


@on_device()
def test_overlapping_windows_are_written_by_the_cpu() -> None:
    want, got = torch.zeros(6), torch.zeros(6).to("hpu")
    for x in (want, got):
        x.as_strided((2, 3), (2, 1), 1).add_(torch.ones(2, 3, device=x.device))
    assert torch.equal(got.cpu(), want)


@on_device()
def test_memory_is_counted_where_tensors_have_it() -> None:
    gc.collect()
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    torch.hpu.reset_peak_memory_stats()
    x = torch.ones(1 << 20).to("hpu")
    assert torch.hpu.memory_allocated() - before == 4 << 20
    y = x + 1
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() - before == 8 << 20
    del x, y
    assert torch.hpu.memory_allocated() == before
    assert torch.hpu.max_memory_allocated() - before >= 8 << 20
    assert "GAUDI" in torch.hpu.memory_summary()


@on_device(modes=("lazy",))
def test_what_only_a_program_holds_takes_no_memory() -> None:
    x = torch.ones(1 << 20).to("hpu")
    torch.hpu.synchronize()
    torch.hpu.empty_cache()
    torch.hpu.reset_peak_memory_stats()
    before = torch.hpu.max_memory_allocated()
    for _ in range(8):
        x = x * 2
    torch.hpu.synchronize()
    assert torch.hpu.max_memory_allocated() - before <= 8 << 20  # the result, and what a workspace may take
    assert x[0].item() == 256


@on_device()
def test_a_full_card_says_so_in_pytorchs_words() -> None:
    memory = get_recorder().memory
    torch.hpu.synchronize()
    torch.hpu.empty_cache()
    before, memory.capacity = memory.capacity, memory.statistics.reserved + (8 << 20)
    try:
        kept = torch.ones(1 << 20).to("hpu")
        words = "HPU out of memory. Tried to allocate 8.00 MiB"
        raises(words, lambda: torch.ones(1 << 21).to("hpu"), torch.OutOfMemoryError)
        del kept
        torch.ones(1 << 20).to("hpu")
    finally:
        memory.capacity = before


@on_device(modes=("lazy",))
def test_a_program_that_found_the_card_full_runs_when_it_is_not() -> None:
    memory = get_recorder().memory
    torch.hpu.synchronize()
    torch.hpu.empty_cache()
    x = torch.ones(1 << 20).to("hpu")
    y, z = x + 1, x * 3
    before, memory.capacity = memory.capacity, memory.statistics.reserved + (5 << 20)
    try:
        raises("", torch.hpu.synchronize, torch.OutOfMemoryError)
        del y
    finally:
        memory.capacity = before
    assert z[5].item() == 3


@on_device()
def test_what_a_program_still_reads_is_not_given_to_others() -> None:
    x = torch.full((1000,), 3.0).to("hpu")
    y = x + 1
    del x
    other = torch.zeros(1000).to("hpu")  # of the same size: it must not have x's memory before y is computed
    assert y.eq(4).all().item() and other.eq(0).all().item()


@on_device()
def test_a_copy_from_the_host_does_not_change_what_was_recorded() -> None:
    x = torch.zeros(10).to("hpu")
    y = x + 1
    x.copy_(torch.full((10,), 5.0))
    assert y.eq(1).all().item() and x.eq(5).all().item()


@on_device()
def test_wrong_arguments_are_refused_as_on_the_cpu_and_change_nothing() -> None:
    x, y = torch.ones(2, 3).to("hpu"), torch.ones(4, 5).to("hpu")
    z = x + 1
    for wrong in (lambda: x @ y, lambda: x + y, lambda: x.add_(y)):
        with pytest.raises(RuntimeError, match=r"size|shape"):
            wrong()
    raises("Expected all tensors to be on the same device", lambda: torch.ones(2, 3).add_(x))
    raises("hpu", x.numpy, TypeError)
    assert z.eq(2).all().item() and x.eq(1).all().item()


@on_device()
def test_layouts_and_types_that_are_not_there_are_refused_by_their_names() -> None:
    x = torch.ones(2, 2).to("hpu")
    one, zero = torch.ones(2).to("hpu"), torch.zeros(2).to("hpu")
    for kind, make in (
        ("sparse_coo", lambda: x.to_sparse()),
        ("sparse_csr", lambda: x.to_sparse_csr()),
        ("sparse_bsr", lambda: x.to_sparse_bsr((1, 1))),
        ("_mkldnn", lambda: x.to_mkldnn()),
        ("quantized", lambda: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8)),
        ("quantized", lambda: torch.quantize_per_channel(x, one, zero, 0, torch.qint8)),
        ("torch.bits8", lambda: torch.empty(2, dtype=torch.bits8, device="hpu")),
    ):
        words = f"HPU has no ({re.escape(kind)} tensors|tensors of {re.escape(kind)})"
        with pytest.raises((NotImplementedError, TypeError), match=words):
            make()
    assert x.sum().item() == 4


@on_device()
def test_print_deepcopy_save_and_load() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    model = torch.nn.Linear(3, 2).to("hpu")
    assert "device='hpu:0'" in repr(x.to("hpu"))
    twin = copy.deepcopy(model)
    assert torch.equal(twin.weight.cpu(), model.weight.cpu()) and type(twin.weight) is torch.nn.Parameter
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    assert on_cpu["weight"].device.type == "cpu" and torch.equal(on_cpu["weight"], model.weight.cpu())
    file.seek(0)
    back = torch.load(file)
    assert back["weight"].device.type == "hpu" and torch.equal(back["weight"].cpu(), model.weight.cpu())


@needs_torch
def test_loading_imports_no_tensorflow() -> None:
    python(
        """
        import sys
        import habana_frameworks.torch.core as htcore
        import habana_frameworks.torch.hpu as hthpu
        import torch
        assert not any(name.split(".")[0] in ("tensorflow", "keras") for name in sys.modules)
        assert hthpu.device_count() == 1 and torch.hpu.is_available()
        assert "torch._dynamo" not in sys.modules
        htcore.mark_step()
        """
    )


def test_the_package_alone_imports_no_torch() -> None:
    python("import habana_tf, habana_tf.cli.main, sys; assert 'torch' not in sys.modules")


@needs_torch
def test_a_release_that_lacks_a_name_is_refused_with_it() -> None:
    from habana_tf.torch import private_api

    assert private_api.missing() == []

    class Older:
        _C = object()

    assert "torch._C._from_dlpack" in private_api.missing(Older)
