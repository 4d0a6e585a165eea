"""Everything that decides what a recipe computes is in its key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import habana_tf
from habana_tf.hardware import cpu
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from habana_tf.resolver import keys
from habana_tf.resolver.key_text import SETTINGS_LEFT_OUT, program_text
from habana_tf.resolver.keys import BF16_PART, compiler_sources, compiler_version, target_parts
from habana_tf.tensorflow.clusters import sources
from habana_tf.tensorflow.clusters.sources import lowering_sources
from tests.hardware.test_cpu import SAPPHIRE, ZEN, measured

PACKAGE = Path(habana_tf.__file__).parent

# Imported by the compiler and not in its version, because they hold results or state and make no code.
NO_COMPILER = {"settings", "_native", "hardware.calibration", "compiler.describe", "resolver.keys"}
NO_COMPILER |= {f"tensorflow.clusters.{name.removesuffix('.py')}" for name in sources._NO_LOWERINGS}
SOURCES = [*compiler_sources(), *lowering_sources()]
PACKAGES = {"ir", "cluster", "compiler", "compiler.codegen", "formulas", "hardware", "resolver",
            "tensorflow.lowering", "tensorflow.clusters", "tensorflow.facts"}  # fmt: skip


def test_every_setting_the_compiler_reads_has_a_reason_to_be_in_no_key() -> None:
    read = {name for path in SOURCES for name in re.findall(r"\bsettings\.([A-Z]\w+)", path.read_text())}
    assert read == set(SETTINGS_LEFT_OUT), "or a reason for a setting that is not read any more"


def _imports(path: Path) -> set[str]:
    """Modules of this package that a file imports, at any depth, by their path below it."""
    found = set()
    parts = ["habana_tf", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = parts[: -node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return {name.removeprefix("habana_tf.") for name in found if name.startswith("habana_tf.")}


def test_whatever_the_compiler_imports_is_in_its_version() -> None:
    sources = {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in SOURCES}
    modules = {
        name
        for path in SOURCES
        for name in _imports(path)
        if (PACKAGE / (name.replace(".", "/") + ".py")).exists() or (PACKAGE / name.replace(".", "/")).is_dir()
    }
    packages = {name for name in modules if (PACKAGE / name.replace(".", "/")).is_dir()}
    assert modules - packages - sources <= NO_COMPILER
    assert packages - NO_COMPILER <= PACKAGES


def test_the_middle_names_no_front_end() -> None:
    assert not {path.relative_to(PACKAGE).parts[0] for path in compiler_sources()} & {"tensorflow", "torch"}


@pytest.fixture
def fresh_version() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _forget() -> None:
    compiler_version.cache_clear()


@pytest.mark.usefixtures("fresh_version")
@pytest.mark.parametrize("library", ["llvmlite", "llvm", "numpy"])
def test_another_library_is_another_compiler(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    before = compiler_version()
    _forget()
    libraries = keys.libraries()
    assert re.match(r"\d+\.\d+", libraries[library])
    monkeypatch.setattr(keys, "libraries", lambda: {**libraries, library: "0.0"})
    assert compiler_version() != before


@pytest.mark.usefixtures("fresh_version")
def test_a_changed_source_is_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiler_version()
    _forget()
    assert compiler_version() == before
    _forget()
    changed, read = compiler_sources()[7], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path == changed))
    assert compiler_version() != before


def test_what_a_program_takes_for_granted_is_a_part_of_it() -> None:
    b, s0 = Builder(), ext.sym(0)
    x = b.input((s0, 3), DType.F32)
    out = b.map("exp", x)
    texts = {program_text(Program([x], [out], [], given)) for given in ((), (s0,), (s0 - 2,))}
    assert len(texts) == 3


def test_different_targets_have_different_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for setting in ("portable", "avx2", "avx512", "amx"):
        monkeypatch.setenv("HABANA_SIM_ISA", setting)
        keys.add(str(target_parts(target(SAPPHIRE), bf16=False)))
    assert len(keys) == 4


def test_only_a_key_with_bf16_has_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts with equal answers share recipes."""
    monkeypatch.delenv("HABANA_SIM_ISA", raising=False)
    monkeypatch.setattr(cpu, "bf16_products", measured("dot", "widen"))
    found = target(ZEN)
    assert BF16_PART not in dict(target_parts(found, bf16=False))
    answered = [target_parts(found, bf16=True) for _ in range(2)]
    assert [dict(parts)[BF16_PART] for parts in answered] == ["dot", "widen"]


def test_what_lowerings_import_is_found() -> None:
    """Another front end's rows and what the compiler has are in no version of a front end's lowerings."""
    rooms = {path.relative_to(PACKAGE).parts[:2] for path in lowering_sources()}
    assert {room[0] for room in rooms} == {"formulas", "tensorflow"}
    assert PACKAGE / "formulas" / "spatial.py" in lowering_sources()
    assert PACKAGE / "tensorflow" / "facts" / "opdefs.py" in lowering_sources()
