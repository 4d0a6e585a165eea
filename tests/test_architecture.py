"""Every file, folder, function, class, method and table that docs/architecture.md names is in the sources, and so is
what the other pages for readers of the sources name.

The pages' notation: a path from the root of the repository in code type, or `path: name` for a name in that file. Names
in Python files are found in the syntax tree, those in C++ files by the first line of their definition.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10, where pytest brings it along
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()

_SPAN = re.compile(r"`([^`]+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"([\w.-]+(?:/[\w.-]*)*): ([\w.:]+)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|pyi|cc|h|md|toml|json)")
_EXPORTED = r'(?:extern "C" __attribute__\(\(visibility\("default"\)\)\) )?'


def spans(text: str) -> list[str]:
    """What is in code type, each in one line; blocks are left out."""
    return [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", text))]


def wrong(text: str) -> list[str]:
    """What a page names and the sources do not have."""
    out = []
    for span in spans(text):
        reference = _REFERENCE.fullmatch(span)
        if reference is not None:
            path, name = ROOT / reference[1], reference[2]
            if not path.is_file() or not (defines_in_python if path.suffix == ".py" else defines_in_cpp)(path, name):
                out.append(span)
        elif ": " in span or (_PATH.fullmatch(span) and not (ROOT / span).exists()):
            out.append(span)
    return out


@cache
def _names(path: Path) -> frozenset[str]:
    """What a Python file defines: at its top, and as `Class.name` in its classes."""
    found: set[str] = set()

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    walk(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def defines_in_python(path: Path, name: str) -> bool:
    return name in _names(path)


def defines_in_cpp(path: Path, name: str) -> bool:
    """Whether a line at the left margin begins the definition of a function, a method, a class or a constant."""
    function = rf"^{_EXPORTED}(?:[A-Za-z_][\w:<>*&, ]*[ *&])?{re.escape(name)}\("
    kind = rf"^(?:class|struct|enum class) (?:alignas\(\d+\) )?(?:HABANA_EXPORT )?{re.escape(name)}\b"
    constant = rf"^(?:extern )?const [\w:<>]+ {re.escape(name)}\b"
    return re.search(f"{function}|{kind}|{constant}", path.read_text(), re.MULTILINE) is not None


OTHER_PAGES = ("reading-guide.md", "card-time.md", "placement.md")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_all_that_is_named_is_there() -> None:
    assert len([span for span in spans(PAGE) if _REFERENCE.fullmatch(span)]) > 100
    assert wrong(PAGE) == []
    assert [each for page in OTHER_PAGES for each in wrong((ROOT / "docs" / page).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "habana_tf/loader.py: load_the_module",
        "habana_tf/tensorflow/graph/view.py: View.parse_all",
        "habana_tf/tensorflow/graph/view.py: parse",  # a method without its class
        "habana_tf/tensorflow/graph/pipeline.py: report",  # imported there, not defined
        "habana_tf/no_such_file.py: name",
        "habana_tf/no_such_file.py",
        "habana_tf/no_such_folder/",
        "no_such_file.toml",
        "kernels/plugin/launch.cc: LaunchTwice",
        "kernels/plugin/launch.cc: TF_AllocateTemp",  # called there, not defined
        "kernels/runtime/program.cc: Program::Ran",
        "kernels/runtime/callbacks.h: Scope",
        "habana_tf/loader.py: two, names",
    ],
)
def test_what_is_not_there_is_found(text: str) -> None:
    assert wrong(f"see `{text}`,") == [text]


def test_every_room_is_named() -> None:
    packages = [path.parent for path in (ROOT / "habana_tf").rglob("__init__.py")]
    folders = [path for path in (ROOT / "kernels").iterdir() if path.is_dir()]
    rooms = {path.relative_to(ROOT).as_posix() + "/" for path in packages + folders}
    assert rooms - set(spans(section("The rooms"))) == set()


def contract(name: str) -> dict[str, Any]:
    """One that import-linter holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = [c for c in settings["tool"]["importlinter"]["contracts"] if c["name"] == name]
    return found


def test_the_layers_are_those_that_lint_holds() -> None:
    block = re.search(r"^```text\n(.*?)^```$", section("The rooms"), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == contract("rooms import in one direction")["layers"]


def test_the_first_picture_has_the_border_that_lint_holds() -> None:
    """Below it is what the contract names, above it no such room; and nothing below imports a framework, by the text of
    its files."""
    picture = _FENCE.findall(PAGE)[0]
    above, below = re.split(r"^.*no framework below this line.*$", picture, flags=re.MULTILINE)
    held = {name.removeprefix("habana_tf.") for name in contract("the middle knows no framework")["source_modules"]}
    assert {"tensorflow", "google", "keras"} <= set(contract("the middle knows no framework")["forbidden_modules"])
    assert held <= set(below.split()) and not {line.split()[0] for line in above.splitlines() if line.strip()} & held
    modules = {name.strip() for line in contract("rooms import in one direction")["layers"] for name in line.split("|")}
    for room in held:
        path = ROOT / "habana_tf" / room.replace(".", "/")
        for file in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            text = file.read_text()
            assert not re.search(r"^\s*(?:from|import) (?:tensorflow|google|keras)\b", text, re.MULTILINE), file
            # Names of the package itself are looked up in any room, which the contract does not see.
            assert not re.search(r"^\s*import habana_tf$", text, re.MULTILINE), file
            names = re.findall(r"^\s*from habana_tf import (.+)$", text, re.MULTILINE)
            assert {n.split(" as ")[0] for found in names for n in found.split(", ")} <= modules, file


def test_the_phases_are_those_of_the_pipeline() -> None:
    tree = ast.parse((ROOT / "habana_tf" / "tensorflow" / "graph" / "pipeline.py").read_text())
    (phases,) = [n.value for n in tree.body if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "PHASES"]
    names = [pair[0] for pair in ast.literal_eval(re.sub(r", _\w+\)", ",)", ast.unparse(phases)))]
    told = re.findall(r"^ *\| (\w+) \|", section("The cold road, once per graph: the graph pass"), re.MULTILINE)
    assert told == ["phase", *names]


def test_files_that_need_pytorch_are_tested_where_it_is() -> None:
    """Elsewhere they are skipped: all that import from tests/torch are named in the Makefile, or are in there."""
    taken = re.search(r"^TORCH_TESTS := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert taken is not None
    files = [f for f in ROOT.glob("tests/**/test_*.py") if ROOT / "tests" / "torch" not in f.parents]
    needed = {f.name for f in files if re.search(r"^from tests\.torch\b", f.read_text(), re.MULTILINE)}
    assert needed and needed <= set(taken[1].replace(")", " ").replace(",", " ").split())
