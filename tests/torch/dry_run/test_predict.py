"""Predictions of steps of modules: against sizes counted by hand, against the step itself, and against Keras' twins."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import habana_tf
from tests.child import python
from tests.torch.child import HAS_TORCH, needs_tensorflow, needs_torch, on_device, tensorflow

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F

    from habana_tf.torch import loader

LAZY = ("lazy",)
BATCH, WIDTH, HIDDEN, CLASSES = 32, 100, 200, 10
WEIGHTS = 4 * (WIDTH * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES)


def _model() -> Any:
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def _data(device: str = "meta") -> tuple[Any, Any]:
    return torch.empty(BATCH, WIDTH, device=device), torch.zeros(BATCH, dtype=torch.int64, device=device)


@on_device(modes=LAZY)
def test_a_training_step_has_the_sizes_that_are_counted_by_hand() -> None:
    x, y = _data()
    p = habana_tf.predict(_model(), x, y, loss=nn.CrossEntropyLoss(), optimizer="adam", chip="gaudi2", precision="fp32")
    assert (p.batch, p.chip, p.cards, p.launches, p.precision) == (BATCH, "gaudi2", 1, 1, "fp32")
    assert p.memory["weights"] == WEIGHTS and p.memory["optimizer"] == 2 * WEIGHTS
    assert p.step.gradient_bytes == WEIGHTS
    fed = {t["name"]: t["nbytes"] for t in p.pcie}
    assert fed == {"input": 4 * BATCH * WIDTH, "target": 8 * BATCH}
    products = 2 * BATCH * (2 * WIDTH * HIDDEN + 3 * HIDDEN * CLASSES)  # the first layer has no gradient of its input
    flops = sum(u.flops for u in p.step.units)
    assert products <= flops <= 1.1 * products
    assert not p.host_ops and p.fits and p.examples_per_second > 0
    assert {"Sequential/0", "Sequential/2", "Adam"} <= {layer.name for layer in p.layers}
    eight = habana_tf.predict(
        _model(), x, y, loss=nn.CrossEntropyLoss(), optimizer="adam", chip="gaudi2", precision="fp32", cards=8
    )
    assert eight.step.network > 0 and eight.examples_per_second > p.examples_per_second
    assert "tensorflow" not in sys.modules


@on_device(modes=LAZY)
def test_it_is_of_the_program_that_the_step_has_when_it_runs() -> None:
    """The recipe's name follows from its content: that of the step that runs is that of the prediction."""
    from habana_tf.resolver import placements

    model = _model()
    x, y = _data("cpu")
    p = habana_tf.predict(model, x, y, loss=nn.CrossEntropyLoss(), optimizer="momentum", precision="fp32")
    (predicted,) = (launch.cluster for launch in p.launched)
    placements.reset()
    there = model.to("hpu")
    updates = torch.optim.SGD(there.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        inputs, labels = x.to("hpu"), y.to("hpu")
        torch.hpu.synchronize()
        loss = F.cross_entropy(there(inputs), labels)
        loss.backward()
        updates.step()
        updates.zero_grad()
        torch.hpu.synchronize()
    ops = [op.op for op in predicted.nodes]
    last = placements.placements().programs[-1]
    assert {op: ops.count(op) for op in ops} == last.ops and last.name == predicted.name


@on_device()
def test_nothing_runs_and_nothing_is_left_behind() -> None:
    import gc

    kept = torch.arange(6.0).to("hpu")
    waiting = kept + 1
    model = _model()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    state = torch.hpu.get_rng_state() if hasattr(torch.hpu, "get_rng_state") else torch.zeros(1)
    torch.hpu.synchronize()
    gc.collect()
    memory, programs = torch.hpu.memory_allocated(), habana_tf.card_time_report().launches
    dropped = nn.Sequential(model, nn.Dropout(0.5), nn.BatchNorm1d(CLASSES))
    updates = torch.optim.AdamW(dropped.parameters(), lr=1e-3)
    habana_tf.predict(dropped, *_data(), loss=nn.CrossEntropyLoss(), optimizer=updates)
    gc.collect()
    assert torch.hpu.memory_allocated() == memory and habana_tf.card_time_report().launches == programs
    assert waiting.cpu().tolist() == [1, 2, 3, 4, 5, 6] and (kept * 2).cpu().sum() == 30
    assert all(torch.equal(t, before[name]) and t.device.type == "cpu" for name, t in model.state_dict().items())
    assert not updates.state and all(p.grad is None for p in model.parameters())
    if hasattr(torch.hpu, "get_rng_state"):
        assert torch.equal(torch.hpu.get_rng_state(), state)


@on_device(modes=LAZY)
def test_a_network_larger_than_the_host_is_predicted_on_meta() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(40_000, 40_000) for _ in range(4)))  # 26 GB, and three times that with Adam
    p = habana_tf.predict(
        model, torch.empty(64, 40_000, device="meta"), loss=lambda y: y.square().mean(), optimizer="adam",
        chip="gaudi2",
    )  # fmt: skip
    assert p.memory["weights"] == 4 * 4 * (40_000 * 40_000 + 40_000)
    assert p.memory["optimizer"] == 2 * p.memory["weights"]
    assert p.fits == (p.hbm_bytes <= 96 << 30)


@on_device(modes=LAZY)
def test_without_loss_and_optimizer_it_is_the_forward_pass() -> None:
    p = habana_tf.predict(_model(), (BATCH, WIDTH), precision="fp32")
    flops = sum(u.flops for u in p.step.units)
    products = 2 * BATCH * (WIDTH * HIDDEN + HIDDEN * CLASSES)
    assert products <= flops <= 1.1 * products and p.memory["optimizer"] == 0
    assert p.memory["weights"] == WEIGHTS


@on_device(modes=LAZY)
def test_bf16_is_autocasts_and_faster() -> None:
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4)))
    x = torch.empty(4096, 2048, device="meta")
    fast, slow = (habana_tf.predict(model, x, precision=p, chip="gaudi2", resident=True) for p in ("bf16", "fp32"))
    assert slow.step_seconds > 2 * fast.step_seconds and "autocast" in fast.precision_why


@on_device(modes=LAZY)
def test_what_ends_a_program_ends_it_in_a_prediction_too() -> None:
    """`torch.hpu.synchronize()`, `mark_step` and compiled graphs ask for the recorder that predicts."""
    from habana_frameworks.torch import core

    def ended(end: Any) -> int:
        class Two(nn.Module):
            def forward(self, x: Any) -> Any:
                y = x + 1
                end()
                return y * 2

        return habana_tf.predict(Two(), torch.empty(4, 4)).launches

    assert ended(lambda: None) == 1
    assert ended(torch.hpu.synchronize) == ended(torch.hpu.current_stream().synchronize) == ended(core.mark_step) == 2
    programs = loader.load().programs
    plus = torch.compile(lambda x: x + 1, backend="hpu_backend")

    class Compiled(nn.Module):
        def forward(self, x: Any) -> Any:
            return plus(x) * 2

    assert habana_tf.predict(Compiled(), torch.empty(4, 4)).launches == 1
    assert loader.load().programs == programs
    assert plus(torch.ones(3, device="hpu")).tolist() == [2, 2, 2]


@on_device(modes=LAZY)
def test_outputs_of_transformers_and_wrappers_are_taken() -> None:
    class WithLoss(nn.Module):
        """Called by names, gives its own loss."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = _model()

        def forward(self, values: Any = None, labels: Any = None) -> dict[str, Any]:
            y = self.inner(values)
            return {"loss": F.cross_entropy(y, labels), "logits": y}

    x, y = _data()
    p = habana_tf.predict(WithLoss(), {"values": x, "labels": y}, optimizer=torch.optim.SGD)
    assert p.step.gradient_bytes == WEIGHTS and p.batch == BATCH
    compiled = torch.compile(_model(), backend="hpu_backend")
    assert habana_tf.predict(compiled, x, precision="fp32").memory["weights"] == WEIGHTS


@on_device(modes=LAZY)
def test_ops_on_the_cpu_and_what_crosses_pcie_are_told() -> None:
    class Decomposes(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x.exp()).sin()

    p = habana_tf.predict(Decomposes(), (8, 16, 16), precision="fp32")
    (svd,) = p.host_ops
    assert "svd" in svd["op"] and p.launches == 2
    (down,) = (t["nbytes"] for t in p.pcie if t["to"] == "host")
    assert 8 * 16 * 16 * 4 <= down <= 8 * 16 * 17 * 4  # where results go crosses too


def whole_numbers(device: str) -> list[Any]:
    """What programs ask of positions, masks and lengths."""
    torch.manual_seed(3)
    positions = torch.arange(2, 14, 2, device=device)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.int32).to(device)
    words = torch.tensor([[7, 2, 2, 9], [0, 3, 5, 5]]).to(device)
    found = [positions[3].item(), bool((positions.diff() == 2).all()), mask.bool().all().item()]
    found += [mask.sum(1).cpu().tolist(), mask.flip(1).argmax(1).tolist(), mask.cumsum(1)[:, -1].tolist()]
    words[:, 1] += 5
    found += [words.tolist(), words.gather(1, mask.long()).tolist(), (words == 5).any(1).tolist()]
    later = words[1, 2:] * positions[:2] - 1  # reads parts of a storage, in a program of its own
    return [
        *found,
        later.tolist(),
        words.view(-1).topk(2).indices.tolist(),
        torch.where(mask > 0, words, -100).tolist(),
    ]


@on_device(modes=LAZY)
def test_whole_numbers_that_follow_from_those_of_the_host_are_known() -> None:
    from habana_tf.card.prediction.foreseen import PredictionError

    found: list[Any] = []

    class Asks(nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            found.append(whole_numbers("hpu"))
            return x @ torch.ones(4, 3 if mask.all() else 1000, device="hpu")

    ones = torch.ones(8, 4, dtype=torch.int64)
    widths = []
    for mask in (ones, ones.tril()):
        told = habana_tf.predict(Asks(), {"x": torch.empty(8, 4), "mask": mask})
        widths.append(told.step.units[-1].unit.results[0].shape[-1])
    assert widths == [3, 1000] and found == [whole_numbers("cpu")] * 2
    with pytest.raises(PredictionError, match="whole numbers that it is given"):
        habana_tf.predict(Asks(), {"x": torch.empty(8, 4), "mask": ones.to("meta")})


@on_device(modes=LAZY)
def test_a_step_that_asks_for_values_says_where() -> None:
    from habana_tf.card.prediction.foreseen import PredictionError

    class Branches(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum().item() > 0 else x

    kept = torch.ones(3).to("hpu")
    for wrong, error in (
        (lambda: habana_tf.predict(Branches(), (4, 4)), PredictionError),
        (lambda: habana_tf.predict(_model()), ValueError),
        (lambda: habana_tf.predict(_model(), (4, WIDTH), precision="int8"), ValueError),
        (lambda: habana_tf.predict(_model(), (4, WIDTH), optimizer="no such"), ValueError),
    ):
        with pytest.raises(error, match=r".") as told:
            wrong()
        if error is PredictionError and "value" in str(told.value):
            assert "Branches" in str(told.value)
    assert (kept + 1).cpu().tolist() == [2, 2, 2]  # the device is as it was


_KERAS = """
    import tensorflow as tf
    import habana_tf
    from tests.benchmarks.models import MODELS
    model = MODELS["{name}"].build()
    x = tf.TensorSpec(({batch}, *model.input_shape[1:]), model.inputs[0].dtype)
    for precision in ("bf16", "fp32"):
        p = habana_tf.predict(model, x, chip="gaudi2", precision=precision, optimizer="momentum")
        print("seconds", p.step_seconds, p.memory["weights"])
"""
_TORCH = """
    import torch
    import habana_tf
    from tests.benchmarks.torch_models import MODELS
    chosen = MODELS["{name}"]
    kind = torch.int64 if chosen.words else torch.float32
    x = torch.empty({batch}, *chosen.shape, dtype=kind, device="meta")
    y = torch.empty({batch}, dtype=torch.int64, device="meta")
    loss = torch.nn.CrossEntropyLoss()
    for precision in ("bf16", "fp32"):
        p = habana_tf.predict(
            chosen.build(), x, y, loss=loss, chip="gaudi2", precision=precision, optimizer="momentum"
        )
        print("seconds", p.step_seconds, p.memory["weights"])
"""


@needs_torch
@needs_tensorflow
@pytest.mark.rest
@pytest.mark.parametrize(("name", "batch", "near"), [("resnet50", 256, 0.05), ("vit", 64, 0.15)])
def test_it_is_that_of_keras_twin(name: str, batch: int, near: float) -> None:
    """The same network, written in both frameworks, is as fast but for what the frameworks' formulas differ in."""
    found = []
    given = {"name": name, "batch": batch}
    for told in (tensorflow(_KERAS.format(**given)), python(_TORCH.format(**given), imported=True).stdout):
        lines = told.splitlines()
        found.append([tuple(map(float, line.split()[1:])) for line in lines if line.startswith("seconds")])
    for (keras, weights), (torch_, others) in zip(*found, strict=True):
        assert abs(torch_ / keras - 1) <= near and abs(others / weights - 1) <= 0.02, found
