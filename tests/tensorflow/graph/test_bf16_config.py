"""Configurations of the bf16 conversion: the two built in, users' files in every spelling, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from habana_tf import settings
from habana_tf.tensorflow.graph import bf16_config


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in (settings.TF_BF16_CONVERSION, settings.TF_BF16_DUMP_PATH):
        for name in (setting.name, *setting.aliases):
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "source"),
    [("", None), ("0", None), ("False", None), ("1", "full"), ("true", "full"), ("full", "full"), ("Basic", "basic")],
)
def test_built_in_choices(monkeypatch: pytest.MonkeyPatch, text: str, source: str | None) -> None:
    monkeypatch.setenv("TF_BF16_CONVERSION", text)
    config = bf16_config.active()
    assert (config.source if config else None) == source


def test_the_old_name_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_BF16_CONVERSION", "1")
    config = bf16_config.active()
    assert config is not None and config.source == "full"
    monkeypatch.setenv("TF_BF16_CONVERSION", "0")
    assert bf16_config.active() is None


def test_the_built_in_lists_are_habanas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_BF16_CONVERSION", "basic")
    basic = bf16_config.active()
    monkeypatch.setenv("TF_BF16_CONVERSION", "full")
    full = bf16_config.active()
    assert basic is not None and full is not None
    own = {op for op in basic.allow if op.startswith("Habana")}
    gemms = {"BatchMatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "MatMul"}
    assert basic.allow - own == gemms
    assert basic.conditional == {"ResizeNearestNeighbor", "ResizeNearestNeighborGrad"} and not basic.strict
    assert basic.allow < full.allow
    assert full.strict == {"Add", "AddN", "AddV2", "BiasAddGrad", "Sub"}
    assert {"Softmax", "FusedBatchNormGradV3", "Mul"} <= full.allow and {"Reshape", "Select"} <= full.conditional
    assert "HorovodAllreduce" in full.allow & full.conditional  # in two lists, as in the original


EXCEPTIONS: dict[str, Any] = {
    "non_convertible_exceptions": [[".*KEEP_FP32_PRECISION.*", ""]],
    "convertible_exceptions": [["bert/encoder/layer_[0-9]+/attention/self/add", "AddV2"]],
}


@pytest.mark.parametrize(
    ("allow", "conditional"),
    [("allowlist", "conditional_list"), ("allow_list", "conditional_list"), ("whitelist", "graylist")],
)
def test_a_file_in_every_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: str, conditional: str
) -> None:
    path = tmp_path / "bert.json"
    lists = {allow: ["MatMul", "Mul"], conditional: ["Reshape", "Mul"], "strict_conditional_list": ["AddV2"]}
    path.write_text(json.dumps(lists | EXCEPTIONS))
    monkeypatch.setenv("TF_BF16_CONVERSION", str(path))
    config = bf16_config.active()
    assert config is not None and config.source == str(path)
    assert (config.allow, config.conditional, config.strict) == ({"MatMul", "Mul"}, {"Reshape", "Mul"}, {"AddV2"})
    assert config.keep[0].matches("x/KEEP_FP32_PRECISION/y", "MatMul")
    (rule,) = config.force
    assert rule.matches("bert/encoder/layer_11/attention/self/add", "AddV2")
    assert rule.matches("StatefulPartitionedCall_1/PartitionedCall/bert/encoder/layer_1/attention/self/add", "AddV2")
    assert not rule.matches("bert/encoder/layer_1/attention/self/add_1", "AddV2")
    assert not rule.matches("bert/encoder/layer_1/attention/self/add", "Sub")


def test_what_is_dumped_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "active.json"
    monkeypatch.setenv("TF_BF16_DUMP_PATH", str(path))
    config = bf16_config.parse(json.dumps({"allow_list": ["Mul", "Add"], **EXCEPTIONS}), "x")
    bf16_config.dump(config)
    assert list(json.loads(path.read_text())) == [
        "allowlist", "conditional_list", "strict_conditional_list", "non_convertible_exceptions",
        "convertible_exceptions",
    ]  # fmt: skip
    assert bf16_config.parse(path.read_text(), "x") == config
    assert [p.name for p in path.parent.iterdir()] == ["active.json"]


def test_a_dump_that_fails_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TF_BF16_DUMP_PATH", str(tmp_path / "file" / "x.json"))
    bf16_config.dump(bf16_config.Config("full"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"bf16 configuration f\.json: not JSON"),
        ("[]", r"f\.json: a JSON object is needed, this is a list"),
        ('{"allow": []}', r"f\.json: unknown key 'allow'; known are allowlist"),
        ('{"allowlist": [], "whitelist": []}', r"'whitelist' is a second spelling"),
        ('{"conditional_list": "Mul"}', r"key 'conditional_list': a list of op types"),
        ('{"graylist": [3]}', r"key 'graylist': a list of op types"),
        ('{"convertible_exceptions": [["a"]]}', r"key 'convertible_exceptions': \['a'\] is not a pair"),
        ('{"non_convertible_exceptions": [["(", ""]]}', r"'\(' is not a regular expression"),
    ],
)
def test_errors_name_file_and_key(text: str, message: str) -> None:
    with pytest.raises(bf16_config.ConfigError, match=message):
        bf16_config.parse(text, "f.json")


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_BF16_CONVERSION", "ful")
    with pytest.raises(settings.SettingError, match=r"TF_ENABLE_BF16_CONVERSION='ful': not a readable file.*basic"):
        bf16_config.active()
