"""Names of Habana's package for PyTorch: what they change where a card changes something, that the rest is there."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch


@needs_torch
def test_parts_are_there_after_one_import() -> None:
    program = """
        import habana_frameworks.torch as ht
        import torch
        assert ht.torch is torch and ht.torch.hpu is torch.hpu
        assert ht.utils.internal.is_lazy() is False
        assert ht.core.hpu.HPUGraph is torch.hpu.HPUGraph and ht.distributed.hccl.initialize_distributed_hpu
        assert ht.utils.experimental._get_device_type().name == "synDeviceGaudi2"
        print("all there")
    """
    assert python(program).stdout.split("\n")[0] == "all there"


@on_device()
def test_switches_change_what_they_name_and_others_nothing() -> None:
    hpu = torch.hpu
    switches = "inference_mode quantization matmul3d_2d_reshape optim_output_sif".split()
    for name in switches:
        assert getattr(hpu, f"enable_{name}")() is None and getattr(hpu, f"disable_{name}")() is None
    hpu.enable_const_section_serialization("/does/not/exist", True, True)
    hpu.disable_const_section_serialization()
    assert not os.path.exists("/does/not/exist")
    hpu.disable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is False
    hpu.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is True
    with pytest.warns(FutureWarning, match="use_deterministic_algorithms"):
        hpu.setDeterministic(True)
    with pytest.warns(FutureWarning):
        assert hpu.getDeterministic() is True
    assert hpu.recompute_sdp_enabled() is True
    with hpu.sdp_kernel(enable_recompute=False):
        assert hpu.recompute_sdp_enabled() is False
    assert hpu.recompute_sdp_enabled() is True
    assert hpu.get_arch_list() == ["GAUDI2"] and hpu.get_gencode_flags() == "" and hpu.is_bf16_supported()
    assert hpu.memory_usage() == hpu.memory_allocated() and 0 <= hpu.utilization() <= 100
    assert hpu.metric_global("graph_compilation").name() == "graph_compilation"


@on_device()
def test_a_device_is_named_with_its_number() -> None:
    found = torch.hpu._get_device_index
    assert [found("hpu:1"), found(torch.device("hpu:2")), found(3), found(None, True)] == [1, 2, 3, 0]
    assert found("cpu", allow_cpu=True) == -1
    for wrong in ("cpu", None, "hpu"):
        with pytest.raises(ValueError):
            found(wrong)


@on_device()
def test_the_default_generator_is_the_devices_state() -> None:
    (own,) = torch.hpu.random.default_generators
    x = torch.empty(100, device="hpu")
    assert own.manual_seed(5) is own and own.initial_seed() == 5
    drawn = x.uniform_(generator=own).cpu()
    state = own.get_state()
    torch.hpu.manual_seed(5)
    assert torch.equal(x.uniform_().cpu(), drawn)
    following = x.uniform_().cpu()
    own.set_state(state)
    assert torch.equal(x.uniform_(generator=own).cpu(), following)
    assert torch.equal(torch.hpu.get_rng_state(), own.get_state())
    own.manual_seed(5)
    one, other = own.clone_state(), own.clone_state()
    assert torch.equal(x.uniform_(generator=one).cpu(), x.uniform_(generator=other).cpu())


@on_device(modes=("lazy",))
def test_settings_are_read_and_written_by_functions() -> None:
    from habana_frameworks.torch.internal import bridge_config
    from habana_tf.settings.program import TF_ENABLE_DYNAMIC_SHAPES

    assert bridge_config.get_pt_hpu_lazy_mode() == 1
    assert bridge_config.get_pt_hpu_queue_synlaunches() is True and bridge_config.get_pt_compile_only_mode() is False
    assert bridge_config.get_pt_hpu_pool_strategy() == 4 and bridge_config.get_pt_compilation_stats_path() == ""
    with bridge_config.env_setting("PT_ENABLE_INT64_SUPPORT", True):
        assert bridge_config.get_pt_enable_int64_support() is True
        with bridge_config.env_setting("PT_ENABLE_INT64_SUPPORT", False):
            assert bridge_config.get_pt_enable_int64_support() is False
    assert bridge_config.get_pt_enable_int64_support() is False and "PT_ENABLE_INT64_SUPPORT" not in os.environ
    with bridge_config.env_setting("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False):
        assert not TF_ENABLE_DYNAMIC_SHAPES.get()
    assert bridge_config.get_pt_hpu_enable_refine_dynamic_shapes() is TF_ENABLE_DYNAMIC_SHAPES.get() is True
    with pytest.raises(ValueError, match="PATH"), bridge_config.env_setting("PATH", ""):
        pass
    with pytest.raises(AttributeError):
        bridge_config.get_something()


@needs_torch
def test_lazy_mode_runs_after_so_many_ops() -> None:
    program = """
        import torch, habana_frameworks.torch as ht
        from habana_tf.torch.loader import load
        x = torch.ones(4).to("hpu")
        before = load().programs
        for k in range(10):
            x = x * 1.5 + 0.5
        ht.core.mark_step()
        print(load().programs - before, float(x.sum()))
    """
    few = python(program, PT_HPU_LAZY_MODE="1", PT_HPU_MAX_COMPOUND_OP_SIZE="5").stdout.split()
    one = python(program, PT_HPU_LAZY_MODE="1").stdout.split()
    assert one[0] == "1" and 1 < int(few[0]) <= 4
    assert few[1] == one[1]


@on_device(modes=("eager",))
def test_flags_of_the_backend_are_its_options() -> None:
    from habana_frameworks.torch.dynamo.compile_backend import config

    configuration_flags = config.configuration_flags
    assert configuration_flags["use_eager_fallback"] is True and config.use_boxed_input is True
    config.use_eager_fallback = False
    try:
        assert configuration_flags["use_eager_fallback"] is False
        x = torch.tensor([1.0, 0.0, 2.0]).to("hpu")
        called = torch.compile(lambda t: torch.linalg.eigvals(t[None] * t[:, None]).real + 1, backend="hpu_backend")
        with pytest.raises(Exception, match="use_eager_fallback is False"):
            called(x)
    finally:
        configuration_flags["use_eager_fallback"] = True
    assert config.use_eager_fallback is True


def _net() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()))


def _net_is_called(net: Any, x: Any) -> Any:
    return net(x)


@on_device()
def test_modules_that_compile_anew_are_named_with_the_size_that_changed() -> None:
    tmp_path = Path(tempfile.mkdtemp())
    from habana_frameworks.torch.utils.experimental import detect_recompilation_auto_model
    from habana_frameworks.torch.utils.internal import is_lazy

    net = _net().to("hpu")
    watched = detect_recompilation_auto_model(net, mdlname="Net", waittime=0.1, csv_out=str(tmp_path / "out"))
    assert watched is net
    usual, other = (4, 6) if is_lazy() else (10, 14)
    for size in (usual, usual, other, usual, usual):
        got = _net_is_called(net, torch.ones(size, 8).to("hpu"))
        assert got.shape == (size, 4)
    logs = net.raw_logs()
    assert {line.split(",")[0] for line in logs} == {"step 0", "step 2"}
    assert any(line.startswith("step 2, Net/1/0: 1 new program") for line in logs)
    line = _net_is_called.__code__.co_firstlineno + 1
    new = next(text for text in logs if text.startswith("step 2, Net/0"))
    assert f"test_names.py:{line}" in new and "addmm" in new, new
    net.analyse_dynamicity()
    with open(tmp_path / "out_1.csv") as file:
        rows = list(csv.DictReader(file))
    of_step = [row for row in rows if row["Step"] == "2"]
    assert [row["Recompiling modules"] for row in of_step if "outside" not in row["Recompiling modules"]] == [
        "Net/0", "Net/1/0", "Net/1/1"
    ]  # fmt: skip
    assert all(row["New in"] == "True" and "new shapes" in row["Comment"] for row in of_step if row["Class"])
    assert rows[0]["Class"] == "torch.nn.modules.linear.Linear" and rows[0]["Location"].endswith("linear.py")
    with open(tmp_path / "out_2.csv") as file:
        assert next(csv.reader(file)) == ["Module name", "Recompile count"]
    with pytest.raises(ValueError, match="watched"):
        detect_recompilation_auto_model(net)


@on_device(modes=("eager",))
def test_shapes_of_batches_are_counted() -> None:
    from habana_frameworks.torch.utils.experimental import const_shape_dataloader, data_dynamicity
    from habana_frameworks.torch.utils.experimental.detect_recompilation import get_shape

    batches = [{"x": torch.ones(2, k % 3), "y": [torch.ones(1), "name"]} for k in range(7)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        counts = data_dynamicity(batches)
    assert sorted(counts.values()) == [2, 2, 3] and "3 shapes in 7 batches" in said.getvalue()
    assert get_shape(batches[1]) == (("x", (2, 1)), ("y", ((1,), "name")))
    assert [b["x"].shape[1] for b in const_shape_dataloader(batches, 2)] == [0, 0]
    assert [b["x"].shape[1] for b in const_shape_dataloader(batches, 9)] == [0, 0, 0]
    with pytest.raises(ValueError):
        const_shape_dataloader([], 2)


@on_device()
def test_addresses_scales_and_marks() -> None:
    from habana_frameworks.torch import core
    from habana_frameworks.torch.hpex.kernels import Fp8Ops
    from habana_frameworks.torch.utils import debug, experimental, internal, lib_utils

    x = torch.arange(12.0).reshape(3, 4).to("hpu")
    y = x + 1
    debug._bridge_cleanup()
    assert torch.hpu.current_stream().query()
    assert experimental._data_ptr(x[1]) == experimental._data_ptr(x) + 16 != experimental._data_ptr(y)
    assert experimental._data_ptr(x[:0]) == experimental._data_ptr(torch.ones(3)) == 0
    assert experimental._is_fp16_supported() is True and experimental._compute_stream() == 0
    experimental._set_scale_attributes(True, 10)
    experimental._set_is_dynamic_quantization(True)
    assert experimental._get_scale_attribute_hash_id() == 10
    model = _net().to("hpu")
    core.quantization._mark_params_as_const(model)
    core.quantization._check_params_as_const(model)
    assert not isinstance(model[0].weight, core.weight_sharing.HabanaParameterWrapper)
    assert os.path.exists(os.path.join(lib_utils.get_include_dir(), "habana_kernel.h"))
    assert os.path.isdir(lib_utils.get_lib_dir())
    called: list[int] = []
    internal.lazy_only(called.append)(1)
    assert called == [1] * internal.is_lazy()
    from habana_frameworks.torch.core.quantizer import habana_quantizer

    with pytest.raises(RuntimeError, match="FP8Config"):
        habana_quantizer()
    made, _ = Fp8Ops.cast_to_fp8_v2(x, torch.tensor(0.5).to("hpu"), False, False, torch.float8_e4m3fn)
    assert made.dtype is torch.float8_e4m3fn and torch.equal(made.float().cpu(), x.cpu() * 0.5)
