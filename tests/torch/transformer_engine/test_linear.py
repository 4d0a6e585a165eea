"""Linear layers in 8 bits against `oracle`, on both chips; their states and training."""

from __future__ import annotations

import copy
import io
import os
import sys
from typing import Any

import pytest

from tests.child import python
from tests.torch.child import get_recorder, on_device, raises

pytest.importorskip("torch")

import torch
from torch.utils.checkpoint import checkpoint

from tests.torch.transformer_engine.oracle import E4M3, E5M2, Layer

ENDS = {E4M3: 240.0, E5M2: 57344.0}
ENDS_OF_GAUDI3 = {E4M3: 448.0, E5M2: 57344.0}


def engine() -> Any:
    import habana_frameworks.torch.hpex.experimental.transformer_engine as te

    return te


def recipe(format: str = "E5M2", **more: Any) -> Any:
    te = engine()
    return te.recipe.DelayedScaling(fp8_format=te.recipe.Format[format], **{"reduce_amax": False, **more})


def step(module: Any, x: torch.Tensor, g: torch.Tensor, how: Any, **more: Any) -> list[torch.Tensor]:
    """The result, and the gradients of x, the weight and the bias, on the CPU."""
    x = x.to("hpu").requires_grad_()
    module.zero_grad()
    with engine().fp8_autocast(enabled=how is not None, fp8_recipe=how):
        made = module(x, **more)
    made.backward(g.to("hpu"))
    return [t.detach().cpu() for t in (made, x.grad, module.weight.grad, module.bias.grad)]


def check(made: list[torch.Tensor], want: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    for got, wanted in zip(made, want, strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance * wanted.abs().max().item())


def runs_as_published(ends: dict[torch.dtype, float]) -> None:
    """Each run of several, whose tensors grow and shrink by powers of ten, so that scales clip and lose."""
    os.environ["PT_TE_FORCE_SR_BWD"] = "0"
    try:
        for name, kinds in (("E5M2", (E5M2, E5M2)), ("HYBRID", (E4M3, E5M2)), ("E4M3", (E4M3, E4M3))):
            for history, algorithm, interval, margin in ((1, "most_recent", 1, 0), (3, "max", 1, 2), (2, "max", 3, 0)):
                torch.manual_seed(history)
                module = engine().Linear(12, 8)
                how = recipe(
                    name, amax_history_len=history, amax_compute_algo=algorithm, interval=interval, margin=margin
                )
                oracle = Layer(*kinds, ends, history, algorithm == "max", interval, margin)
                w, b = module.weight.detach().cpu(), module.bias.detach().cpu()
                for size in (1.0, 300.0, 0.01, 0.0, 5.0, 1e4, 2.0):
                    x, g = torch.randn(6, 12) * size, torch.randn(6, 8) * size**2
                    check(step(module, x, g, how), oracle.step(x, w, b, g))
                scales = module.fp8_meta["scaling_fwd"].scale.cpu().tolist()
                assert scales == [s.scale for s in oracle.there], (name, history)
    finally:
        del os.environ["PT_TE_FORCE_SR_BWD"]


@on_device()
def test_runs_as_published() -> None:
    runs_as_published(ENDS)


def test_compiled_and_on_gaudi3() -> None:
    python(
        """
        import torch
        import habana_frameworks.torch.core
        import habana_frameworks.torch.hpex.experimental.transformer_engine as te
        from tests.torch.transformer_engine.test_linear import ENDS_OF_GAUDI3, check, recipe, runs_as_published, step
        from tests.torch.transformer_engine.oracle import E5M2, Layer

        assert te.utils.is_gaudi3()
        runs_as_published(ENDS_OF_GAUDI3)
        module, oracle = te.Linear(12, 8), Layer(E5M2, E5M2, ENDS_OF_GAUDI3, 2, True)
        w, b = module.weight.detach().cpu(), module.bias.detach().cpu()
        compiled = torch.compile(step, backend="hpu_backend")
        for size in (1.0, 300.0, 0.01, 5.0):
            x, g = torch.randn(6, 12) * size, torch.randn(6, 8) * size
            check(compiled(module, x, g, recipe(amax_history_len=2, amax_compute_algo="max")), oracle.step(x, w, b, g))
        """,
        imported=True,
        HABANA_SIM_CHIP="gaudi3",
    )


@on_device(modes=("eager",))
def test_a_pass_is_one_program_in_eager_mode_too() -> None:
    module, recorder, ran = engine().Linear(12, 8), get_recorder(), []
    run = recorder._run
    recorder._run = lambda found: (ran.append(len(found)), run(found))
    try:
        for _ in range(3):
            x, g = torch.randn(6, 12, device="hpu").requires_grad_(), torch.randn(6, 8, device="hpu")
            torch.hpu.synchronize()
            ran.clear()
            with engine().fp8_autocast(enabled=True, fp8_recipe=recipe("HYBRID")):
                made = module(x)
            torch.hpu.synchronize()
            forward = len(ran)
            torch.autograd.grad(made, [x, module.weight, module.bias], g)
            torch.hpu.synchronize()
            assert (forward, len(ran)) == (1, 2), (ran, forward)
    finally:
        del recorder._run


@on_device()
def test_disabled_is_linear() -> None:
    module, stock = engine().Linear(5, 3), torch.nn.Linear(5, 3)
    stock.load_state_dict({k: v for k, v in module.state_dict().items() if k != "_extra_state"})
    module.load_state_dict(stock.state_dict())  # a checkpoint without scales
    x, g = torch.randn(2, 4, 5), torch.randn(2, 4, 3)
    made, (out, *_) = step(module, x, g, None), (stock.to("hpu")(x.to("hpu")),)
    assert torch.equal(made[0], out.detach().cpu()) and module.state_dict()["_extra_state"] is None
    with torch.autocast("hpu", torch.bfloat16), engine().fp8_autocast(enabled=True):
        assert module(x.to("hpu")).dtype == torch.bfloat16
    without = engine().Linear(5, 3, skip_weight_param_allocation=True)
    given = without(x.to("hpu"), module.weight, module.bias)
    assert not list(without.parameters()) and torch.equal(given.detach().cpu(), made[0])
    result, bias = engine().Linear(5, 3, return_bias=True)(x.to("hpu"))
    assert result.shape == (2, 4, 3) and bias.shape == (3,)


@on_device()
def test_gradients_rounded_by_chance_have_the_right_mean() -> None:
    module, how = engine().Linear(4, 4, bias=False), recipe("HYBRID")
    with torch.no_grad():
        module.weight.copy_(torch.eye(4))
    x = torch.ones(20_000, 4, device="hpu", requires_grad=True)
    with engine().fp8_autocast(enabled=True, fp8_recipe=how):
        made = module(x)
    made.backward(torch.full_like(made, 1.1))
    found = x.grad.cpu()
    assert found.unique().tolist() == [1.0, 1.25] and abs(found.mean().item() - 1.1) < 0.005


@on_device()
def test_measured_by_hand_only_then() -> None:
    te, module = engine(), engine().Linear(4, 4)
    state = te.fp8.FP8GlobalStateManager
    g = torch.ones(2, 4)
    try:
        for size, measured, scale in (
            (1.0, True, 1.0),
            (64.0, False, 2.0**15),
            (64.0, True, 2.0**15),
            (1.0, False, 512),
        ):
            state.set_measurement_mode(True, measured)
            step(module, torch.full((2, 4), size), g, recipe())
            assert module.fp8_meta["scaling_fwd"].scale[0].item() == scale
            assert module.get_amax_measure_state() == {
                "manual": True, "fwd_enabled": measured, "bwd_enabled": measured,
            }  # fmt: skip
    finally:
        state.reset_global_state()
    with te.fp8_autocast(enabled=True, force_measurement=False):
        assert te.fp8.get_manual_measurement_mode() is False and te.fp8.is_fp8_enabled()
        with te.fp8_autocast(enabled=False):
            assert not state.is_fp8_enabled()
    assert te.fp8.get_manual_measurement_mode() is None and not te.fp8.is_fp8_enabled()


@on_device()
def test_states_are_kept_and_copied() -> None:
    how, x, g = recipe("HYBRID", amax_history_len=3, amax_compute_algo="max"), torch.randn(3, 6), torch.randn(3, 4)
    module = engine().Linear(6, 4)
    for k in range(3):
        step(module, x * 10**k, g, how)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = engine().Linear(6, 4)
    other.load_state_dict(torch.load(file, weights_only=True))
    saved = module.save_fp8_meta()
    want = step(module, x, g, how)[0]
    assert torch.equal(step(other, x, g, how)[0], want) and torch.equal(step(copy.deepcopy(module), x, g, how)[0], want)
    step(module, x * 1e6, g, how)
    module.load_fp8_meta(saved)
    assert torch.equal(step(module, x, g, how)[0], want)
    now = module.fp8_meta["scaling_fwd"].amax_history.cpu()
    module.eval()
    step(module, x * 1e9, g, how)
    assert torch.equal(module.fp8_meta["scaling_fwd"].amax_history.cpu(), now)  # training only
    step(module.train(), x, g, recipe("HYBRID", amax_history_len=2))
    assert torch.equal(module.fp8_meta["scaling_fwd"].amax_history[1].cpu(), now[0])


@on_device()
def test_repeated_forward_passes_cast_as_the_first() -> None:
    """Of a pipeline: two forward passes, then their backward passes, each of which repeats its own."""
    te, how = engine(), recipe()
    inputs = [torch.randn(3, 6) * size for size in (1.0, 1000.0)]
    g = torch.randn(3, 4).to("hpu")
    for reentrant in (True, False):
        module = te.Linear(6, 4)
        plain, found = copy.deepcopy(module), []
        for each in (plain, module):
            xs = [x.to("hpu").requires_grad_() for x in inputs]
            with te.fp8_autocast(enabled=True, fp8_recipe=how):
                repeated = te.distributed.activation_checkpointing()(each)
                made = [each(x) if each is plain else checkpoint(repeated, x, use_reentrant=reentrant) for x in xs]
            for result in made:
                result.backward(g)
            found.append([*(m.detach().cpu() for m in made), *(x.grad.cpu() for x in xs), each.weight.grad.cpu()])
        assert all(map(torch.equal, *found)) and module.run_cnt == 2
        assert torch.equal(*(m.fp8_meta["scaling_fwd"].amax_history.cpu() for m in (plain, module)))
    x = inputs[0].to("hpu").requires_grad_()
    with te.fp8_autocast(enabled=True, fp8_recipe=how):
        te.distributed.checkpoint(module, False, None, None, x).sum().backward()
    assert x.grad is not None and not te.distributed.is_fp8_activation_recompute_enabled()


@on_device()
def test_grouped_layers_are_layers_each() -> None:
    how, grouped = recipe(), engine().GroupedLinear(3, 6, 4)
    single = [engine().Linear(6, 4) for _ in range(3)]
    for k, layer in enumerate(single):
        layer.load_state_dict({"weight": getattr(grouped, f"weight{k}"), "bias": getattr(grouped, f"bias{k}")})
    for _ in range(2):
        x = torch.randn(9, 6)
        ours, theirs = x.to("hpu").requires_grad_(), x.to("hpu").requires_grad_()
        with engine().fp8_autocast(enabled=True, fp8_recipe=how):
            made = grouped(ours, [2, 4, 3])
            parts = [layer(part) for layer, part in zip(single, theirs.split([2, 4, 3]), strict=True)]
        (made**2).sum().backward()
        sum((part**2).sum() for part in parts).backward()
        assert torch.equal(made.detach().cpu(), torch.cat(parts).detach().cpu())
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad.cpu())
        torch.testing.assert_close(grouped.weight1.grad.cpu(), single[1].weight.grad.cpu())


@on_device()
def test_training_is_as_good_as_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 16, generator=generator)
    y = torch.sin(x @ torch.randn(16, 4, generator=generator) / 4)
    losses = {}
    for name in ("float32", "E5M2", "HYBRID"):
        torch.manual_seed(1)
        kind = torch.nn.Linear if name == "float32" else engine().Linear
        made = [torch.nn.Linear(16, 64), torch.nn.Linear(64, 4)]
        network = torch.nn.Sequential(kind(16, 64), torch.nn.ReLU(), kind(64, 4))
        for layer, like in zip((network[0], network[2]), made, strict=True):
            layer.load_state_dict(like.state_dict())
        device = "cpu" if name == "float32" else "hpu"
        network.to(device)
        optimizer = torch.optim.Adam(network.parameters(), 3e-3)
        how = None if name == "float32" else recipe(name, amax_history_len=4, amax_compute_algo="max")
        for _ in range(60):
            with engine().fp8_autocast(enabled=how is not None, fp8_recipe=how):
                loss = ((network(x.to(device)) - y.to(device)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[name] = loss.item()
    assert losses["float32"] < 0.1 and abs(losses["HYBRID"] / losses["float32"] - 1) < 0.1, losses
    assert losses["E5M2"] < 1.5 * losses["float32"], losses


@on_device()
def test_wrong_use_says_so() -> None:
    te = engine()
    raises("amax_compute_algo is max", lambda: recipe(amax_compute_algo="mean"), ValueError)
    raises("at least 1", lambda: recipe(interval=0), ValueError)
    raises("(False, False, True) only", lambda: recipe(override_linear_precision=(True, False, False)), ValueError)
    raises("parallel_mode is row", lambda: te.Linear(4, 4, parallel_mode="rows"), ValueError)
    raises("not a multiple of tp_size", lambda: te.Linear(4, 5, parallel_mode="column", tp_size=2), ValueError)
    raises("no fuse_wgrad", lambda: te.Linear(4, 4, fuse_wgrad_accumulation=True), NotImplementedError)
    raises("no fuse_wgrad", lambda: te.GroupedLinear(2, 4, 4, parallel_mode="row", tp_size=2), NotImplementedError)
    x = torch.ones(4, 4, device="hpu")
    raises("m_splits has 1 numbers for 2 layers", lambda: te.GroupedLinear(2, 4, 4)(x, [4]), ValueError)
    raises(
        "no distribute_saved", lambda: te.distributed.checkpoint(te.Linear(4, 4), True, None, None, x),
        NotImplementedError,
    )  # fmt: skip
    raises("fp8_format is one of", lambda: te.recipe.DelayedScaling(fp8_format="E4M3"), ValueError)
    layer, grouped = te.Linear(4, 4), te.GroupedLinear(2, 4, 4)
    with te.fp8_autocast(enabled=True):
        layer(x)
        raises("not torch.int32", lambda: layer(x.int()))
        raises("not torch.float8_e4m3fn", lambda: layer(x.to(E4M3)))
        raises("on cpu, and the weight on hpu", lambda: layer(x.cpu()))
        raises("brings the weight", lambda: te.Linear(4, 4, skip_weight_param_allocation=True)(x))
        grouped(x, [2, 2])
    state = layer.state_dict()
    raises("of 2 tensors", lambda: grouped.set_extra_state(state["_extra_state"]))
    raises("another transformer engine", lambda: layer.load_state_dict({**state, "_extra_state": torch.zeros(3)}))


@on_device()
def test_no_rows_and_scales_made_in_inference_mode() -> None:
    """A layer without rows adds nothing, and leaves its scales; what inference begins, training goes on with."""
    te, how = engine(), recipe()
    torch.manual_seed(0)
    grouped, x = te.GroupedLinear(3, 16, 8), torch.randn(6, 16)
    singles = [te.Linear(16, 8) for _ in range(3)]
    for k, single in enumerate(singles):
        single.weight.data, single.bias.data = getattr(grouped, f"weight{k}").data, getattr(grouped, f"bias{k}").data
    on_card, parts = x.to("hpu"), [x[:2].to("hpu"), x[:0].to("hpu"), x[2:].to("hpu")]
    with te.fp8_autocast(enabled=True, fp8_recipe=how):
        with torch.inference_mode():
            grouped(on_card, [2, 0, 4])
        for _ in range(2):
            together = grouped(on_card, [2, 0, 4])
            together.sum().backward()
        with torch.inference_mode():
            for single, part in zip(singles, parts, strict=True):
                single(part)
        for _ in range(2):
            each = [single(part) for single, part in zip(singles, parts, strict=True)]
            sum(t.sum() for t in each).backward()
    assert torch.equal(together.cpu(), torch.cat(each).cpu())
    scales = grouped.fp8_meta["scaling_fwd"].scale.tolist()
    assert scales == [s for single in singles for s in single.fp8_meta["scaling_fwd"].scale.tolist()] and scales[2] == 1
    assert torch.equal(grouped.weight1.grad.cpu(), torch.zeros(8, 16))


@on_device(modes=("eager",))
def test_both_packages_are_one() -> None:
    import habana_frameworks

    sys.path += habana_frameworks.__path__  # where it is before it is installed
    import intel_transformer_engine as newer
    from intel_transformer_engine.recipe import Format

    assert newer.Linear is engine().Linear and newer.fp8 is engine().fp8 and Format is engine().recipe.Format
    assert not hasattr(newer, "LayerNorm")
    raises("torch.ops.hpu.mixture_of_experts", lambda: newer.MixtureOfExperts, AttributeError)
    raises("NVIDIA's", lambda: engine().pytorch.module, AttributeError)


def test_gaudi_has_no_8_bits() -> None:
    python(
        """
        import habana_frameworks.torch.core
        import habana_frameworks.torch.hpex.experimental.transformer_engine as te
        from tests.torch.child import raises
        raises("needs Gaudi2 or Gaudi3", lambda: te.fp8_autocast(enabled=True))
        with te.fp8_autocast(enabled=False):
            pass
        """,
        imported=True,
        HABANA_SIM_CHIP="gaudi",
    )
