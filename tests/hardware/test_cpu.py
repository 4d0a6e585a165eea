"""Targets are capped by the setting, never exceed the host, and are accepted by LLVM."""

from __future__ import annotations

import ast
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from llvmlite import binding

import habana_tf
from habana_tf.hardware import calibration, cpu
from habana_tf.hardware.cpu import Cpu, Isa, IsaError, TileEngine, host, target

V3 = frozenset({"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
AMX = V4 | {"avx512bf16", "amx-tile", "amx-bf16"}
OLD = Cpu("x86_64", "penryn", frozenset({"sse2"}))
HASWELL = Cpu("x86_64", "haswell", V3)
SKYLAKE = Cpu("x86_64", "skylake-avx512", V4)
ZEN = Cpu("x86_64", "znver5", V4 | {"avx512bf16"})
SAPPHIRE = Cpu("x86_64", "sapphirerapids", AMX)
MASKED = Cpu("x86_64", "sapphirerapids", V3, AMX - V3)
TILES_ONLY = Cpu("x86_64", "sapphirerapids", V3 | {"amx-tile", "amx-bf16"})
GRAVITON = Cpu("aarch64", "neoverse-v1", frozenset({"neon", "sve"}))
UNREAD = Cpu("aarch64", "generic", frozenset(), frozenset({"sve"}))
"""Where /proc/cpuinfo says nothing that LLVM knows, as under an emulator."""
OTHER = Cpu("riscv64", "generic-rv64", frozenset({"v"}))


@pytest.mark.parametrize(
    ("cpu", "isa", "bf16"),
    [
        (OLD, Isa.PORTABLE, False),
        (HASWELL, Isa.AVX2, False),
        (SKYLAKE, Isa.AVX512, False),
        (ZEN, Isa.AVX512, True),
        (SAPPHIRE, Isa.AMX, True),
        (MASKED, Isa.AVX2, False),
        (TILES_ONLY, Isa.AVX2, False),
        (GRAVITON, Isa.NEON, False),
        (UNREAD, Isa.NEON, False),
        (OTHER, Isa.PORTABLE, False),
    ],
)
def test_auto_takes_the_best(monkeypatch: pytest.MonkeyPatch, cpu: Cpu, isa: Isa, bf16: bool) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", "auto")
    chosen = target(cpu)
    assert (chosen.isa, chosen.avx512_bf16, chosen.llvm_cpu) == (isa, bf16, cpu.name)


def test_what_a_virtual_machine_masks_is_masked_in_the_target() -> None:
    assert "-amx-tile" in target(MASKED).llvm_features.split(",")


def test_tiles_need_the_systems_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: dict.fromkeys(AMX, True))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
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
    assert (target(GRAVITON).llvm_cpu, target(GRAVITON).isa) == ("generic", Isa.PORTABLE)


@pytest.mark.parametrize(
    ("setting", "cpu", "missing"),
    [("amx", SKYLAKE, "amx-bf16, amx-tile"), ("avx512", HASWELL, "avx512f"),
     ("avx2", GRAVITON, "aarch64, which has no avx2"), ("neon", ZEN, "x86_64, which has no neon")],
)  # fmt: skip
def test_more_than_the_host_has_is_an_error(
    monkeypatch: pytest.MonkeyPatch, setting: str, cpu: Cpu, missing: str
) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", setting)
    with pytest.raises(IsaError, match=rf"HABANA_SIM_ISA={setting}.*{cpu.name}.*{missing}.*at most"):
        target(cpu)


@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "tile", "pairs", "engine"),
    [(OLD, 16, 5, False, None), (HASWELL, 32, 6, False, None), (SKYLAKE, 64, 14, False, None),
     (ZEN, 64, 14, True, None), (GRAVITON, 16, 14, False, None), (SAPPHIRE, 64, 14, True, TileEngine(16, 64))],
    ids=lambda x: x.name if isinstance(x, Cpu) else "",
)  # fmt: skip
def test_capabilities(
    monkeypatch: pytest.MonkeyPatch, cpu: Cpu, vector_bytes: int, tile: int, pairs: bool, engine: TileEngine | None
) -> None:
    monkeypatch.delenv("HABANA_SIM_ISA", raising=False)
    chosen = target(cpu)
    assert (chosen.vector_bytes, chosen.lanes, chosen.register_tiles[2]) == (vector_bytes, vector_bytes // 4, tile)
    assert (chosen.multiplies_bf16_pairs, chosen.rounds_to_bf16, chosen.tile_engine) == (pairs, pairs, engine)
    assert chosen.masked_memory == chosen.stores_past_caches == (vector_bytes > 16)
    assert chosen.vector_registers == (16 if cpu in (OLD, HASWELL) else 32)
    assert chosen.architecture == cpu.architecture or cpu is OLD  # portable code is for this machine
    assert chosen.widens_in_copies == (vector_bytes == 32)
    assert chosen.strided_rows == (1.5 if cpu in (HASWELL, SKYLAKE, SAPPHIRE) else 1.0)


def measured(*answers: str) -> Callable[[str, str], calibration.Answer]:
    """A calibration that gives these answers in turn, and no others."""
    left = list(answers)
    return lambda cpu, features: calibration.Answer("dot" if left.pop(0) == "dot" else "widen", "a test")


@pytest.mark.parametrize("way", ["dot", "widen"])
def test_products_of_bf16_are_what_was_measured(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.delenv("HABANA_SIM_ISA", raising=False)
    monkeypatch.setattr(cpu, "bf16_products", measured(way))
    assert target(ZEN).bf16_products == way
    monkeypatch.setattr(cpu, "bf16_products", measured())  # what follows asks for no measurement
    assert target(SKYLAKE).bf16_products == "widen"


def test_instruction_sets_are_named_in_one_file_only() -> None:
    """All others ask a target what it can do."""
    package = Path(habana_tf.__file__).parent
    sets = {isa.value for isa in Isa} - {"portable"}
    for path in package.rglob("*.py"):
        if path == package / "hardware" / "cpu.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            found = {getattr(node, "id", ""), getattr(node, "attr", "")} & {"Isa", "isa", "avx512_bf16"}
            if isinstance(node, ast.ImportFrom):
                found |= {alias.name for alias in node.names} & {"Isa"}
            if isinstance(node, ast.Compare | ast.Dict | ast.MatchValue):
                found |= {
                    x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and type(x.value) is str
                } & sets
            assert not found, f"{path.relative_to(package)}:{node.lineno}: {found}"


def test_llvm_accepts_every_target_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    binding.initialize_native_target()
    triple = binding.Target.from_default_triple()
    for isa in host().instruction_sets:
        monkeypatch.setenv("HABANA_SIM_ISA", isa.value)
        chosen = target()
        assert chosen.triple is None
        triple.create_target_machine(cpu=chosen.llvm_cpu, features=chosen.llvm_features)
