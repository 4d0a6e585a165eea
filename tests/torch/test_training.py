"""Networks that learn: losses and weights after five steps beside PyTorch on the CPU, lazy, eager and compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F

STEPS, BATCH, CLASSES = 5, 32, 10


def _mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, CLASSES))


def _cnn() -> Any:
    """No biases before batch normalization: their gradients are nothing but rounding."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, CLASSES),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {"mlp": (_mlp, (20,)), "cnn": (_cnn, (1, 16, 16))}


def _optimizer(name: str, model: Any) -> Any:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def _trained(model: Any, optimizer: str, shape: tuple[int, ...], device: str, compiled: bool = False) -> Any:
    """Losses, and the state of the model."""
    torch.manual_seed(1)
    x, y = torch.randn(STEPS, BATCH, *shape), torch.randint(0, CLASSES, (STEPS, BATCH))
    model = copy.deepcopy(model).to(device)
    call = torch.compile(model, backend="hpu_backend") if compiled else model
    updates = _optimizer(optimizer, model)
    losses = []
    for images, labels in zip(x.to(device), y.to(device), strict=True):
        updates.zero_grad()
        loss = F.cross_entropy(call(images), labels)
        loss.backward()
        if device == "hpu":
            torch.hpu.synchronize()
        updates.step()
        if device == "hpu":
            torch.hpu.synchronize()
        losses.append(loss.detach())
    return torch.stack([n.cpu() for n in losses]), {k: v.cpu() for k, v in model.state_dict().items()}


def _compare(case: str, compiled: bool = False) -> None:
    network, optimizer = case.split()
    make, shape = NETWORKS[network]
    torch.manual_seed(0)
    model = make()
    want_losses, want = _trained(model, optimizer, shape, "cpu")
    losses, got = _trained(model, optimizer, shape, "hpu", compiled)
    torch.testing.assert_close(losses, want_losses, rtol=0, atol=3e-6)
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=5e-6, msg=lambda text, name=name: f"{name}: {text}")


@on_device("mlp sgd", "mlp adam", "cnn sgd", "cnn adam")
def test_a_network_learns_as_on_the_cpu(case: str) -> None:
    _compare(case)


@on_device("mlp sgd", modes=("eager",))
def test_a_compiled_network_learns_as_on_the_cpu(case: str) -> None:
    _compare(case, compiled=True)


@on_device(modes=("lazy",))
def test_a_step_is_two_programs_whatever_the_learning_rate_is() -> None:
    from habana_tf.torch import loader

    recorder = loader.load()
    model = _mlp().to("hpu")
    x, y = torch.randn(BATCH, 20).to("hpu"), torch.randint(0, CLASSES, (BATCH,)).to("hpu")
    updates = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        updates.zero_grad()
        F.cross_entropy(model(x), y).backward()
        torch.hpu.synchronize()
        updates.step()
        torch.hpu.synchronize()

    step()
    step()
    before = recorder.programs
    for n in range(4):
        updates.param_groups[0]["lr"] = 1e-3 / (n + 2)
        step()
    assert recorder.programs == before


@on_device(modes=("lazy",))
def test_weights_are_updated_where_they_are() -> None:
    model = _mlp().to("hpu")
    where = [p.data_ptr() for p in model.parameters()]
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 20).to("hpu")).sum().backward()
    updates.step()
    torch.hpu.synchronize()
    assert [p.data_ptr() for p in model.parameters()] == where


_SCRIPT = """
    import torch
    import habana_frameworks.torch.core as htcore
    from habana_tf.cache import process_cache
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 3).to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(4, 6, device="hpu")).sum().backward()
        updates.step()
        htcore.mark_step()
    from habana_tf._native import _bridge
    from habana_tf.hardware import telemetry
    print("recipes", telemetry.holder(telemetry.held_here()).telemetry.recipes)
"""


@needs_torch
def test_a_second_process_compiles_nothing(tmp_path: Any) -> None:
    setting = {"TF_RECIPE_CACHE_PATH": str(tmp_path / "recipes"), "PT_HPU_LAZY_MODE": "1"}
    first, second = (python(_SCRIPT, imported=True, **setting).stdout.split() for _ in range(2))
    assert int(first[1]) > 0 and int(second[1]) == 0
