"""kernels/tensorflow_c declares TensorFlow's C interface as the headers of the TensorFlow at hand do.

A program says each declaration's type, layout or value as its compiler sees them. It is compiled twice, with our
headers and with TensorFlow's, and must say the same.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
HEADERS = sorted((KERNELS / "tensorflow_c").glob("*.h"))
THEIRS = (
    "c/tf_status.h c/tf_buffer.h c/tf_tensor.h c/kernels.h c/kernels_experimental.h c/ops.h c/eager/c_api.h "
    "c/eager/c_api_experimental.h c/experimental/stream_executor/stream_executor.h "
    "c/experimental/grappler/grappler.h c/experimental/pluggable_profiler/pluggable_profiler.h"
).split()
OVERLOADED = {"TFE_NewTensorHandle"}
"""Functions beside which TensorFlow's headers declare others of the same name, for C++."""
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

pytestmark = pytest.mark.skipif(not HEADERS, reason="not in a source tree")


def statements(text: str) -> Iterator[str]:
    """The declarations of a C header, each on one line without its semicolon."""
    text = re.sub(r"//.*|#.*", "", text)
    text = re.sub(r'extern "C" \{', "", text)
    depth, begin = 0, 0
    for at, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if c == ";" and depth <= 0:
            depth = 0
            yield " ".join(text[begin:at].removeprefix("}").split())
            begin = at + 1


def facts(statement: str) -> Iterator[tuple[str, str]]:
    """(what is said, the C++ expression of it) of a declaration; a type is said by its mangled name."""
    if found := re.match(r"struct (\w+) \{(.*)\}", statement):
        name, body = found.groups()
        yield f"sizeof {name}", f"sizeof({name})"
        for field in filter(None, map(str.strip, body.split(";"))):
            at = re.search(r"\(\*(\w+)\)|(\w+)$", field)
            assert at, field
            member = f"{name}, {at[1] or at[2]}"
            yield f"offset {member}", f"offsetof({member})"
            yield f"type {member}", f"typeid(decltype({member.replace(', ', '::')})).name()"
    elif found := re.match(r"enum (\w+) : unsigned \{(.*)\}", statement):
        yield f"sizeof {found[1]}", f"sizeof({found[1]})"
        for value in re.findall(r"(\w+)(?: = \d+)?,?", found[2]):
            if not value.isdigit():
                yield f"value {value}", f"(unsigned long){value}"
    elif found := re.match(r"inline constexpr size_t (\w+) = ", statement):
        yield f"value {found[1]}", f"(unsigned long){found[1]}"
    elif found := re.match(r"typedef .*?(?:\(\*(\w+)\).*|(\w+))$", statement):
        name = found[1] or found[2]
        yield f"type {name}", f"typeid({name}*).name()"
    elif not statement.startswith("struct "):
        name = function(statement)
        chosen = re.sub(rf"\b{name}\(", "(*)(", statement, count=1)
        it = f"*static_cast<{chosen}>({name})" if name in OVERLOADED else f"decltype({name})"
        yield f"type {name}", f"typeid({it}).name()"


def function(statement: str) -> str:
    found = re.match(r"[\w* ]*?(\w+)\(", statement)
    assert found, f"no declaration that this test knows: {statement}"
    return found[1]


def said(includes: list[str], folder: Path, where: Path) -> dict[str, str]:
    """What the program says that is compiled with these headers of a folder."""
    lines = [f'#include "{each}"' for each in includes]
    lines += ["#include <cstddef>", "#include <iostream>", "#include <typeinfo>", "int main() {"]
    for header in HEADERS:
        for statement in statements(header.read_text()):
            lines += [f'  std::cout << "{what}: " << {how} << "\\n";' for what, how in facts(statement)]
    where.with_suffix(".cc").write_text("\n".join([*lines, "}"]))
    assert COMPILER is not None
    command = [COMPILER, "-std=c++17", "-w", "-isystem", folder, where.with_suffix(".cc"), "-o", where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:4000]
    output = subprocess.run([where], capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(line.split(": ", 1) for line in output.splitlines())


def tensorflow_include() -> Path:
    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "include"


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_declarations_are_those_of_the_tensorflow_at_hand(tmp_path: Path) -> None:
    ours = said([f"tensorflow_c/{each.name}" for each in HEADERS], KERNELS, tmp_path / "ours")
    theirs = said([f"tensorflow/{each}" for each in THEIRS], tensorflow_include(), tmp_path / "theirs")
    assert len(ours) > 250
    assert {what: (ours[what], how) for what, how in theirs.items() if ours[what] != how} == {}


def declared_functions() -> set[str]:
    found = (s for header in HEADERS for s in statements(header.read_text()) if "(" in s)
    return {function(s) for s in found if not s.startswith(("struct", "enum", "inline", "typedef"))}


def test_what_is_declared_is_used() -> None:
    used = "".join(path.read_text() for path in (KERNELS / "plugin").iterdir())
    assert {name for name in declared_functions() if not re.search(rf"\b{name}\b", used)} == set()


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm, which is part of a compiler's binutils")
def test_the_plugin_asks_for_declared_functions_and_for_tensorflows_libraries() -> None:
    """TensorFlow loads plugins with local symbols, so a plugin has to name the libraries that its functions are in."""
    spec = importlib.util.find_spec("habana_tf._native")
    assert spec is not None and spec.submodule_search_locations
    found = [Path(each, "libhabana_plugin.so") for each in spec.submodule_search_locations]
    (plugin,) = [each for each in found if each.exists()]
    undefined = subprocess.run(["nm", "-D", "--undefined-only", plugin], capture_output=True, text=True, check=True)
    names = set(re.findall(r"\b(?:TFE?|SE|SP|TP|TSL)_\w+", undefined.stdout))
    assert names and names <= declared_functions()
    assert not re.search(r"_ZN?K?\d*(?:tensorflow|tsl|absl|google)", undefined.stdout), "a C++ symbol of TensorFlow"
    dynamic = subprocess.run(["readelf", "-d", plugin], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert {"libhabana_runtime.so", "libtensorflow_framework.so.2", "libtensorflow_cc.so.2"} <= set(needed)
