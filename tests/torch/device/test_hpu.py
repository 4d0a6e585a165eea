"""torch.hpu, and what PyTorch's own modules ask of the device: memory, names, files, pinned memory, accelerator."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
from pathlib import Path

from tests.child import machine, python
from tests.torch.child import HAS_TORCH, needs_torch, on_device, raises

if HAS_TORCH:
    import numpy as np
    import torch


@on_device()
def test_there_is_one_device_and_it_has_the_chips_properties() -> None:
    from habana_tf.hardware.chips import chip

    assert torch.hpu.is_available() and torch.hpu.device_count() == 1 and torch.hpu.current_device() == 0
    assert torch.hpu.get_device_name(0) == torch.hpu.get_device_name("hpu:0") == chip().device_type
    properties = torch.hpu.get_device_properties("hpu")
    assert properties.name == chip().device_type and properties.total_memory == chip().hbm_bytes
    torch.hpu.set_device(0)
    torch.hpu.set_device("hpu")
    with torch.hpu.device(0), torch.hpu.device_of(torch.ones(2).hpu()):
        assert torch.hpu.current_device() == 0
    raises("invalid device ordinal 5", lambda: torch.hpu.set_device(5))
    raises("invalid device ordinal 5", lambda: torch.empty(2, device="hpu:5"))
    raises("invalid device ordinal 5", lambda: torch.ones(2).to("hpu:5"))
    raises("Expected a hpu device", lambda: torch.hpu.memory_allocated("cpu"), ValueError)
    assert torch.get_device_module("hpu") is torch.hpu and torch.hpu.is_bf16_supported()


@on_device()
def test_memory_is_told_alike_by_all_names() -> None:
    torch.hpu.synchronize()
    kept = torch.ones(1 << 20).hpu()
    stats = torch.hpu.memory.memory_stats()
    assert stats["InUse"] == torch.hpu.memory_allocated() == torch.accelerator.memory_allocated() >= 4 << 20
    assert stats["MaxInUse"] == torch.hpu.max_memory_allocated() and stats["Reserved"] == torch.hpu.memory_reserved()
    free, total = torch.hpu.mem_get_info()
    assert total == stats["Limit"] and free == total - stats["Reserved"]
    del kept
    torch.hpu.empty_cache()
    assert torch.hpu.memory_reserved() <= stats["Reserved"] - (4 << 20)
    torch.hpu.reset_peak_memory_stats()
    assert torch.hpu.max_memory_allocated() == torch.hpu.memory_allocated() < stats["InUse"]


@on_device()
def test_ways_to_the_device_and_from_it() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for there in (x.hpu(), x.to("hpu", non_blocking=True), x.to("hpu:0"), x.to(torch.device("hpu", 0)), x.to(device=0)):
        assert there.is_hpu and torch.equal(there.cpu(), x)
        assert torch.equal(there.to("cpu", non_blocking=True), x)
        assert torch.equal(there.to("cpu", torch.int64, non_blocking=True, copy=True), x.long())
        assert there.to(torch.bfloat16, non_blocking=True).dtype is torch.bfloat16
    assert next(torch.nn.Linear(2, 2).hpu().parameters()).is_hpu
    with torch.device("hpu"):
        assert torch.ones(2).is_hpu and torch.nn.Linear(2, 2).weight.is_hpu
    torch.set_default_device("hpu")
    try:
        assert torch.zeros(2).is_hpu
    finally:
        torch.set_default_device(None)
    words = "can't convert hpu:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    raises(words, lambda: x.hpu().numpy(), TypeError)
    raises(words, lambda: np.asarray(x.hpu()), TypeError)
    assert x.hpu().tolist() == x.tolist() and x.hpu()[1, 2].item() == 5
    assert torch.accelerator.current_accelerator() == torch.device("hpu") and torch.accelerator.is_available()
    torch.accelerator.synchronize()
    event = torch.hpu.Event()
    for stream in (torch.hpu.Stream(), torch.Stream("hpu"), torch.accelerator.current_stream()):
        stream.wait_event(event)
    with torch.hpu.Stream() as stream:
        assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_stream() == torch.hpu.default_stream()


@on_device()
def test_repr_is_that_of_the_cpu_and_runs_no_op() -> None:
    from habana_tf.resolver.placements import placements

    x = torch.tensor([[1.5, -2e-6], [float("nan"), 1e8]])
    there = x.hpu().requires_grad_()
    torch.hpu.synchronize()
    before, programs = placements().cpu, torch.hpu.metrics.Metric("recipe_cache").stats()
    assert repr(there) == repr(x)[:-1] + ", device='hpu:0', requires_grad=True)"
    assert placements().cpu == before and torch.hpu.metrics.Metric("recipe_cache").stats() == programs


@on_device()
def test_pinned_memory_is_a_copy_that_says_so() -> None:
    x = torch.arange(8.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and torch.equal(pinned, x)
    assert pinned.data_ptr() != x.data_ptr() and pinned.pin_memory() is pinned
    address = pinned.data_ptr()
    del pinned
    assert not torch.arange(8.0).is_pinned(), address
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(data, 2, pin_memory=True, num_workers=workers)
        batches = [(a.to("hpu", non_blocking=True), b.hpu()) for a, b in loader if a.is_pinned()]
        assert len(batches) == 3
        assert torch.equal(torch.cat([a for a, _ in batches]).cpu(), data.tensors[0])


@on_device()
def test_files_go_between_devices() -> None:
    import tempfile

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).hpu()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.randn(5, 3).hpu()).sum().backward()
    optimizer.step()
    want = {k: v.cpu() for k, v in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "model.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        for where, kind in ((None, "hpu"), ("cpu", "cpu"), ({"hpu:0": "cpu"}, "cpu"), (torch.device("hpu"), "hpu")):
            for mmap in (False, True):
                state = torch.load(file, map_location=where, mmap=mmap, weights_only=True)
                assert state["optimizer"]["state"][0]["exp_avg"].device.type == kind
                for k, v in state["model"].items():
                    assert v.device.type == kind and torch.equal(v.cpu(), want[k])
        torch.save(want, file)
        there = torch.load(file, map_location="hpu", weights_only=True)
        assert all(v.is_hpu and torch.equal(v.cpu(), want[k]) for k, v in there.items())
        torch.save(model, file)
        for where, kind in ((None, "hpu"), ("cpu", "cpu")):
            whole = torch.load(file, map_location=where, weights_only=False)
            assert whole[0].weight.device.type == kind and torch.equal(whole[0].weight.cpu(), want["0.weight"])
    twin = copy.deepcopy(optimizer)
    assert twin.state_dict()["state"][0]["exp_avg"].is_hpu
    back = pickle.loads(pickle.dumps(model[0].weight))
    assert back.is_hpu and type(back) is torch.nn.Parameter and torch.equal(back.cpu(), want["0.weight"])
    plain = copy.deepcopy({"a": torch.arange(3.0).hpu()[1:]})["a"]
    assert plain.is_hpu and plain.tolist() == [1, 2]
    storage = torch.UntypedStorage(8, device="hpu")
    assert storage.device.type == "hpu" and storage.nbytes() == 8
    assert torch.arange(2).hpu().untyped_storage().clone().tolist() == torch.arange(2).untyped_storage().tolist()
    shared = io.BytesIO()
    t = torch.arange(6.0).hpu()
    torch.save([t[:3], t[3:]], shared)
    shared.seek(0)
    first, second = torch.load(shared)
    first.zero_()
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr() and second.tolist() == [3, 4, 5]


@on_device()
def test_checkpoint_func_and_trace() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    x = torch.randn(2, 4)
    for reentrant in (False, True):
        grads = []
        for device in ("cpu", "hpu"):
            m, a = copy.deepcopy(layer).to(device), x.clone().to(device).requires_grad_()
            torch.utils.checkpoint.checkpoint(m, a, use_reentrant=reentrant).square().sum().backward()
            grads += [a.grad.cpu(), m[0].weight.grad.cpu()]
        torch.testing.assert_close(grads[2:], grads[:2])
    square = lambda v: (v * v).sum()
    torch.testing.assert_close(torch.func.grad(square)(x.hpu()).cpu(), 2 * x)
    torch.testing.assert_close(torch.func.vmap(square)(x.hpu()).cpu(), (x * x).sum(1))
    there = layer.hpu()
    traced = torch.jit.trace(there, x.hpu())
    torch.testing.assert_close(traced(2 * x.hpu()), there(2 * x.hpu()))


@on_device()
def test_metrics_count_what_was_compiled_and_what_ran_on_the_cpu() -> None:
    from torch.hpu import metrics  # type: ignore[import-not-found]

    with metrics.metric_localcontext("graph_compilation") as compiled:
        torch.ones(3, 11).hpu().cos().add(7).cpu()
    count = dict(compiled.stats())["TotalNumber"]
    torch.ones(3, 12).hpu().sin().add(7).cpu()
    assert count >= 1 and dict(compiled.stats())["TotalNumber"] == count
    with metrics.metric_localcontext("cpu_fallback") as left:
        torch.linalg.svd(torch.eye(3).hpu())
    total, ops = (value for _, value in left.stats())
    assert total >= 1 and any("svd" in op for op in ops)
    raises("no_such", lambda: metrics.metric_global("no_such"), metrics.MetricNotFound)


@needs_torch
def test_import_claims_no_card_and_use_says_which_process_has_it() -> None:
    state = machine()
    python(
        """
        import subprocess, sys
        import habana_frameworks.torch.hpu as hthpu, torch
        from habana_tf.hardware import claim
        assert claim.held_card() is None and not torch.hpu.is_initialized() and hthpu.get_device_name()
        torch.ones(2).to("hpu")
        assert claim.held_card() is not None and torch.hpu.is_initialized()
        second = (
            "import habana_frameworks.torch, torch\\n"
            "assert torch.hpu.is_available()\\n"
            "for _ in range(2):\\n"
            "    try: torch.ones(2).to('hpu'); raise SystemExit('no error')\\n"
            "    except RuntimeError as error: assert 'HPU has no card for this process' in str(error), error\\n"
        )
        subprocess.run([sys.executable, "-c", second], check=True)
        """,
        imported=True, HABANA_SIM_STATE_DIR=state, HABANA_SIM_CARDS="1",
    )  # fmt: skip


@needs_torch
def test_a_forked_child_is_told_to_be_spawned_only_if_it_uses_the_device() -> None:
    python(
        """
        import os
        import habana_frameworks.torch, torch
        x = torch.ones(2).to("hpu")
        child = os.fork()
        if child == 0:
            torch.manual_seed(0)
            assert torch.ones(3).sum().item() == 3
            for use in (lambda: torch.ones(2, device="hpu"), lambda: x + 1, lambda: x.cpu()):
                try:
                    use()
                    os._exit(1)
                except RuntimeError as error:
                    assert "you must use the 'spawn' start method" in str(error), error
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (x + 1).sum().item() == 4
        """,
        imported=True,
    )


@needs_torch
def test_set_device_chooses_a_card_before_the_first_use() -> None:
    python(
        """
        import habana_frameworks.torch, torch
        from habana_tf.hardware import claim
        torch.hpu.set_device(2)
        x = torch.ones(2, device="hpu:2")
        assert claim.held_card().module_id == 2 and x.device == torch.device("hpu:0")
        torch.hpu.set_device(2)
        try:
            torch.hpu.set_device(1)
            raise SystemExit("no error")
        except RuntimeError as error:
            assert "invalid device ordinal 1" in str(error)
        """,
        imported=True,
    )


@on_device(modes=("lazy",))
def test_gpu_migration_is_refused_in_words() -> None:
    module = "habana_frameworks.torch.gpu_migration"
    raises("habana_frameworks.torch.core", lambda: importlib.import_module(module), ImportError)


@on_device()
def test_names_that_habanas_scripts_ask_for() -> None:
    from habana_frameworks.torch.dynamo.compile_backend.experimental import enable_compiled_autograd
    from habana_frameworks.torch.utils import debug, experimental
    from habana_tf.settings.program import TF_ENABLE_DYNAMIC_SHAPES

    assert experimental._get_device_type() is experimental.synDeviceType.synDeviceGaudi2
    assert experimental._get_device_type().value == torch.hpu.get_device_name()
    assert debug._is_enabled_synapse_layout_handling()
    torch.hpu.disable_dynamic_shape()
    assert not TF_ENABLE_DYNAMIC_SHAPES.get()
    torch.hpu.enable_dynamic_shape()
    assert TF_ENABLE_DYNAMIC_SHAPES.get()

    model = torch.nn.Linear(4, 2)
    there = copy.deepcopy(model).to("hpu")
    x = torch.randn(3, 4)
    model(x).square().sum().backward()
    before = torch._dynamo.config.compiled_autograd
    enable_compiled_autograd()
    try:
        torch.compile(lambda t: there(t).square().sum().backward(), backend="hpu_backend")(x.to("hpu"))
    finally:
        torch._dynamo.config.compiled_autograd = before
    torch.testing.assert_close(there.weight.grad.cpu(), model.weight.grad)


@on_device(modes=("lazy",))
def test_modules_that_scripts_import_at_their_start() -> None:
    import habana_frameworks.torch as ht
    import habana_frameworks.torch.core as htcore
    import habana_frameworks.torch.core.hccl as old
    import habana_frameworks.torch.distributed.hccl as new
    from habana_frameworks.torch.utils import debug, distributed_utils, library_loader

    assert ht.hpu.graphs.HPUGraph is htcore.hpu.HPUGraph is torch.hpu.HPUGraph
    assert htcore.hpu is ht.hpu
    assert htcore.is_enabled_weight_permute_pass() is debug._is_enabled_weight_permute_pass() is True
    assert old.initialize_distributed_hpu is new.initialize_distributed_hpu
    assert distributed_utils.initialize_distributed_hpu is new.initialize_distributed_hpu
    assert library_loader.is_habana_available() is True
    library_loader.load_habana_module()


@needs_torch
def test_without_cards_libraries_take_the_cpu() -> None:
    program = """
        import torch
        import habana_frameworks.torch.core
        from habana_frameworks.torch.utils.library_loader import is_habana_available
        print(is_habana_available(), torch.hpu.is_available(), torch.hpu.device_count())
        try:
            torch.ones(2).to("hpu")
        except Exception as error:
            print(error)
    """
    said = python(program, imported=True, HABANA_SIM_CARDS="0").stdout.splitlines()
    assert said[0] == "False False 0"
    assert "this simulated machine has no cards (HABANA_SIM_CARDS=0)" in said[1]


@needs_torch
def test_a_device_named_before_the_import_needs_autoload() -> None:
    program = """
        import sys, torch
        print("habana_tf" in sys.modules)
        device = torch.device("hpu")
        import habana_frameworks.torch
        try:
            print(torch.nn.Linear(2, 2).to(device).weight.device)
        except AttributeError as error:
            print(error)
    """
    assert python(program, PT_HPU_AUTOLOAD="1").stdout.splitlines()[-1] == "hpu:0"
    loaded, error = python(program).stdout.split("\n", 1)
    assert loaded == "False" and "PT_HPU_AUTOLOAD=1" in error


@on_device(modes=("lazy",))
def test_names_that_hugging_faces_models_for_gaudi_ask_for() -> None:
    import habana_frameworks.torch as ht
    import habana_frameworks.torch.core as htcore
    from habana_frameworks.torch.utils import experimental

    assert ht.core.hpu.default_stream() == torch.hpu.default_stream() and htcore.is_lazy() is True
    assert experimental.hpu is ht.hpu.hpu is torch.hpu
    assert htcore.quantization.hpu_set_inference_env() is None
    with ht.hpu.sdp_kernel(enable_recompute=True):
        pass
