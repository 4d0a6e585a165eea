"""A setting is read at each access, typed, and checked with words that help."""

from __future__ import annotations

import re

import pytest

from habana_tf import settings

pytestmark = pytest.mark.usefixtures("without_settings")


def test_defaults_hold_when_unset_or_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.declared():
        assert setting.get() == setting.default
        monkeypatch.setenv(setting.name, " ")
        assert setting.get() == setting.default
        assert setting.source() is None


def test_values_are_read_at_each_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CHIP", "Gaudi3")
    assert settings.HABANA_SIM_CHIP.get() == "gaudi3"
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi")
    assert settings.HABANA_SIM_CHIP.get() == "gaudi"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("HABANA_SIM_CARDS", "4", 4),
        ("HABANA_VISIBLE_MODULES", "4, 2", (4, 2)),
        ("HLS_MODULE_ID", "0", 0),
        ("TF_PLACE_ON_CPU", "MatMul,Conv2D,,MatMul", ("Conv2D", "MatMul")),
        ("TF_PLACE_ON_CPU", "all_nodes", ("all_nodes",)),
        ("HABANA_SIM_HOROVOD", "OFF", False),
        ("HABANA_SIM_CLUSTER_FUEL", "-1", -1),
        ("HBN_TF_GRAPH_DUMP", "2", 2),
        ("TF_RECIPE_CACHE_PATH", "/x/recipes", "/x/recipes"),
        ("SLURM_STEP_TASKS_PER_NODE", "2,4(x3)", (2, 4, 4, 4)),
        ("MULTI_HLS_IPS", "10.0.0.2, 10.0.0.1", ("10.0.0.2", "10.0.0.1")),
        ("HABANA_SIM_PORT_BASE", "7850", 7850),
        ("HABANA_SIM_CHANGES", "on", ()),
        ("HABANA_SIM_CHANGES", "OFF", ("off",)),
        ("HABANA_SIM_CHANGES", "-fork, -torch.generator", ("-fork", "-torch.generator")),
        ("HABANA_SYNAPSE_LOGGER", "TRUE", "all"),
        ("TF_BF16_CONVERSION", "1", "full"),
        ("TF_BF16_CONVERSION", "/x/bf16.json", "/x/bf16.json"),
    ],
)
def test_values_are_typed(monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object) -> None:
    monkeypatch.setenv(name, text)
    assert getattr(settings, name).get() == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("HABANA_SIM_CHIP", "gaudi4", "gaudi, gaudi2, gaudi3"),
        ("HABANA_SIM_CARDS", "9", "from 0 to 8"),
        ("HABANA_SIM_CARDS", "two", "from 0 to 8"),
        ("HABANA_VISIBLE_MODULES", "1,1", "different module ids"),
        ("HABANA_VISIBLE_MODULES", "0-3", "different module ids"),
        ("HLS_MODULE_ID", "-1", "one module id"),
        ("HABANA_SIM_CLUSTER_FUEL", "-2", "at least -1"),
        ("HABANA_SIM_HOROVOD", "maybe", "on or off"),
        ("HABANA_SIM_ISA", "sse", "portable, avx2, avx512, amx, neon"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(y3)", "numbers separated by commas"),
        ("HABANA_SIM_PORT_BASE", "80", "from 1024 to 65535"),
        ("HABANA_SIM_CHANGES", "-", "info --changes"),
        ("HABANA_SIM_CHANGES", "on,xla", "info --changes"),
        ("HABANA_SIM_CHANGES", "jax.xla", "info --changes"),
        ("HABANA_SYNAPSE_LOGGER", "some", "range_hw"),
    ],
)
def test_wrong_values_say_what_is_allowed(monkeypatch: pytest.MonkeyPatch, name: str, text: str, allowed: str) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(settings.SettingError, match=rf"{name}='{re.escape(text)}'.*{allowed}"):
        getattr(settings, name).get()


def test_an_alias_works_and_the_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLS1_MODULE_ID", "3")
    assert settings.HLS_MODULE_ID.get() == 3
    monkeypatch.setenv("HLS_MODULE_ID", "5")
    assert settings.HLS_MODULE_ID.get() == 5
    settings.HLS_MODULE_ID.set("6")
    assert settings.HLS_MODULE_ID.get() == 6
    monkeypatch.delenv("HLS_MODULE_ID")
    monkeypatch.setenv("HLS1_MODULE_ID", "x")
    with pytest.raises(settings.SettingError, match="HLS1_MODULE_ID='x'"):
        settings.HLS_MODULE_ID.get()
