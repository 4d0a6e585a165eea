"""Targets are capped by the setting, never exceed the host, and are accepted by LLVM."""

from __future__ import annotations

import pytest
from llvmlite import binding

from habana_tf.hardware import cpu
from habana_tf.hardware.cpu import Host, Isa, IsaError, host, target

V3 = frozenset({"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
AMX = V4 | {"avx512bf16", "amx-tile", "amx-bf16"}
OLD = Host("x86_64", "penryn", frozenset({"sse2"}))
HASWELL = Host("x86_64", "haswell", V3)
SKYLAKE = Host("x86_64", "skylake-avx512", V4)
SAPPHIRE = Host("x86_64", "sapphirerapids", AMX)
MASKED = Host("x86_64", "sapphirerapids", V3, AMX - V3)
TILES_ONLY = Host("x86_64", "sapphirerapids", V3 | {"amx-tile", "amx-bf16"})
GRAVITON = Host("aarch64", "neoverse-v1", frozenset({"neon", "sve"}))


@pytest.mark.parametrize(
    ("cpu", "isa", "bf16"),
    [
        (OLD, Isa.PORTABLE, False),
        (HASWELL, Isa.AVX2, False),
        (SKYLAKE, Isa.AVX512, False),
        (SAPPHIRE, Isa.AMX, True),
        (MASKED, Isa.AVX2, False),
        (TILES_ONLY, Isa.AVX2, False),
        (GRAVITON, Isa.PORTABLE, False),
    ],
)
def test_auto_takes_the_best(monkeypatch: pytest.MonkeyPatch, cpu: Host, isa: Isa, bf16: bool) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", "auto")
    chosen = target(cpu)
    assert (chosen.isa, chosen.avx512_bf16, chosen.llvm_cpu) == (isa, bf16, cpu.name)


def test_what_a_virtual_machine_masks_is_masked_in_the_target() -> None:
    assert "-amx-tile" in target(MASKED).llvm_features.split(",")


def test_tiles_need_the_systems_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: dict.fromkeys(AMX, True))
    for allowed in (True, False):
        monkeypatch.setattr(cpu, "_tiles_allowed", lambda allowed=allowed: allowed)
        found = cpu.host.__wrapped__()
        assert ("amx-tile" in found.features) == allowed
        assert ("amx-tile" in found.lacks) != allowed
        assert found.isa is (Isa.AMX if allowed else Isa.AVX512)


@pytest.mark.parametrize(
    ("setting", "cpu_name", "isa", "bf16"),
    [
        ("portable", "x86-64", Isa.PORTABLE, False),
        ("avx2", "x86-64-v3", Isa.AVX2, False),
        ("avx512", "x86-64-v4", Isa.AVX512, True),
        ("amx", "sapphirerapids", Isa.AMX, True),
    ],
)
def test_the_setting_caps(monkeypatch: pytest.MonkeyPatch, setting: str, cpu_name: str, isa: Isa, bf16: bool) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", setting)
    chosen = target(SAPPHIRE)
    assert (chosen.llvm_cpu, chosen.isa, chosen.avx512_bf16) == (cpu_name, isa, bf16)
    assert "amx" not in chosen.llvm_features or isa is Isa.AMX


def test_portable_means_the_same_on_every_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", "portable")
    assert target(OLD) == target(SAPPHIRE)
    assert target(GRAVITON).llvm_cpu == "generic"


@pytest.mark.parametrize(
    ("setting", "cpu", "missing"),
    [("amx", SKYLAKE, "amx-bf16, amx-tile"), ("avx512", HASWELL, "avx512f"), ("avx2", GRAVITON, "avx2")],
)
def test_more_than_the_host_has_is_an_error(
    monkeypatch: pytest.MonkeyPatch, setting: str, cpu: Host, missing: str
) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", setting)
    with pytest.raises(IsaError, match=rf"HABANA_SIM_ISA={setting}.*{cpu.name}.*{missing}.*at most"):
        target(cpu)


def test_different_targets_have_different_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for setting in ("portable", "avx2", "avx512", "amx"):
        monkeypatch.setenv("HABANA_SIM_ISA", setting)
        keys.add(target(SAPPHIRE).key_parts())
    assert len(keys) == 4


def test_llvm_accepts_every_target_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    binding.initialize_native_target()
    triple = binding.Target.from_default_triple()
    for isa in Isa:
        if isa <= host().isa:
            monkeypatch.setenv("HABANA_SIM_ISA", isa.name.lower())
            chosen = target()
            triple.create_target_machine(cpu=chosen.llvm_cpu, features=chosen.llvm_features)
