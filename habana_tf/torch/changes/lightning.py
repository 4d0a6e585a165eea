"""Changes of Lightning: two of its choices it makes for its own accelerators alone, by their names. They are made for
`hpu` here, and stay what they were for all others.

An accelerator of the device has an attribute `hpu_strategies`: the names of its strategies for one card and several.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import PYTORCH, Change, Group

PACKAGES = "lightning.pytorch", "pytorch_lightning"
"""The names that Lightning is installed under, each with classes of its own."""
FABRICS = "lightning.fabric", "lightning_fabric"
"""The same of its part `Fabric`."""


def _strategy(original: Any) -> Any:
    @functools.wraps(original)
    def _choose_strategy(self: Any) -> Any:
        names = getattr(self.accelerator, "hpu_strategies", None)
        if names is None:
            return original(self)
        return names[len(self._parallel_devices) > 1 or self._num_nodes_flag > 1]

    return _choose_strategy


def _precision(package: str, asked: str, plugin: str) -> Callable[[Any], Any]:
    """asked, plugin: the attributes that have the precision and the plugin that the user gave."""

    def made(original: Any) -> Any:
        mixed = importlib.import_module(f"{package}.plugins").MixedPrecision

        @functools.wraps(original)
        def _check_and_init_precision(self: Any) -> Any:
            on_hpu = hasattr(self.accelerator, "hpu_strategies") and getattr(self, plugin) is None
            return mixed("bf16-mixed", "hpu") if on_hpu and getattr(self, asked) == "bf16-mixed" else original(self)

        return _check_and_init_precision

    return made


def _changes(package: str) -> tuple[Change, ...]:
    if package in FABRICS:
        module, owner = f"{package}.connector", "_Connector"
        precision = _precision(package, "_precision_input", "_precision_instance")
    else:
        module, owner = f"{package}.trainer.connectors.accelerator_connector", "_AcceleratorConnector"
        precision = _precision(package, "_precision_flag", "_precision_plugin_flag")
    return (
        Change(module, f"{owner}._choose_strategy", _strategy),
        Change(module, f"{owner}._check_and_init_precision", precision),
    )


GROUPS = (
    Group(
        "lightning_choices",
        'Trainer and Fabric(accelerator="hpu") take the strategy and mixed precision of another device',
        tuple(change for package in (*PACKAGES, *FABRICS) for change in _changes(package)),
        only="Lightning", framework=PYTORCH,
    ),
)  # fmt: skip
