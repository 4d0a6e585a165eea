"""Everything that decides what a recipe computes is in its key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import habana_tf
from habana_tf import settings
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from habana_tf.resolver import keys
from habana_tf.resolver.keys import compiler_sources, compiler_version, program_text, sources_version

PACKAGE = Path(habana_tf.__file__).parent

# Read by the compiler and not in the key. Who adds one says here why it may not change a recipe's content.
HARMLESS = {
    "HABANA_SIM_CHECK_INDICES": "whether indices are checked is in the key, what is done then is asked at binding",
    "HABANA_SIM_CHECK_KERNELS": "says how a kernel in C is called, and is asked when a recipe becomes a program",
    "HABANA_SIM_BF16_PRODUCTS": "what it comes to is in the keys of what has bf16, however it came (test_cpu shows it)",
    "HABANA_SIM_COMPILE_PROCESSES": "the bytes do not depend on who compiled what (test_objects shows it)",
}
# Imported by the compiler and not in its version, because they hold results or state and make no code.
NO_COMPILER = {"settings", "_native", "hardware.calibration"}
TELLS = {name.removesuffix(".py").replace("/", ".") for name in keys.TELL}


def test_every_setting_the_compiler_reads_is_in_the_key_or_harmless() -> None:
    read = {name for path in compiler_sources() for name in re.findall(r"\bsettings\.([A-Z]\w+)", path.read_text())}
    in_key = {name for name, _ in settings.key_parts()}
    assert read <= in_key | set(HARMLESS)
    assert set(HARMLESS) <= read & set(settings.excluded()), "a reason for a setting that is not read any more"


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
    sources = {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in compiler_sources()}
    modules = {
        name
        for path in compiler_sources()
        for name in _imports(path)
        if (PACKAGE / (name.replace(".", "/") + ".py")).exists() or (PACKAGE / name.replace(".", "/")).is_dir()
    }
    packages = {name for name in modules if (PACKAGE / name.replace(".", "/")).is_dir()}
    assert {name.partition(".")[0] for name in modules - packages - sources - TELLS - NO_COMPILER} <= NO_COMPILER
    assert packages - NO_COMPILER <= {"compiler", "compiler.codegen", "lowering", "cluster", "ir", "hardware"}


@pytest.fixture
def fresh_version() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _forget() -> None:
    compiler_version.cache_clear()
    sources_version.cache_clear()


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
