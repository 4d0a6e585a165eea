"""What is changed in PyTorch and Lightning: a list that has all of it, a page that shows it, and a setting."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import habana_tf
from tests.child import python
from tests.host_changes.targets import missing
from tests.torch.child import HAS_TORCH, needs_torch

if HAS_TORCH:
    from habana_tf.host_changes import change
    from habana_tf.settings import SettingError
    from habana_tf.torch import changes

PACKAGE = Path(habana_tf.__file__).parent / "torch"
FOREIGN = "torch", "lightning", "pytorch_lightning", "transformers", "accelerate"
"""Packages of others, which are changed by the list alone."""
ELSEWHERE = {
    ("compile.py", "torch._dynamo.config.compiled_autograd"),
    ("device/pinned.py", "a kernel of the CPU"),
    ("dispatch/recurrent.py", "a kernel of the CPU"),
}
"""What a program asks for by a call of Habana's; what the group pinned_memory registers; kernels of ops of our own."""


def _names(tree: ast.Module) -> dict[str, str]:
    """By a name of a module's, the full name in a package of others that it was imported as."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(
                {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names}
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return {name: full for name, full in found.items() if full.split(".")[0] in FOREIGN}


def _full(node: ast.AST, names: dict[str, str]) -> str:
    """`torch.nn.Module` of such an expression, empty for one that is of no package of others."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    full = names.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join((full, *path)) if full else ""


def _assigned(source: str) -> set[str]:
    """What a module assigns in packages of others: attributes, `setattr`, switches, kernels of the CPU."""
    tree = ast.parse(source)
    names, found = _names(tree), set()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else ()
        if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = (node.target,)
        flat = (each for t in targets for each in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t]))
        found |= {_full(t, names) for t in flat if isinstance(t, ast.Attribute)}
        if isinstance(node, ast.Call):
            called = _full(node.func, names)
            if isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
                found.add(_full(node.args[0], names))
            if re.search(r"\.(_?set_(?!autocast|grad)\w+|allow_\w+)$", called):
                found.add(called)
            keys = {a.value for a in node.args if isinstance(a, ast.Constant)}
            if isinstance(node.func, ast.Attribute) and node.func.attr == "impl" and keys & {"CPU", "BackendSelect"}:
                found.add("a kernel of the CPU")
    return found - {""}


def test_nothing_else_is_assigned() -> None:
    seen = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("changes/"):
            seen |= {(name, target) for target in _assigned(path.read_text())}
    assert seen == ELSEWHERE


@pytest.mark.parametrize(
    "line",
    [
        "import torch\ntorch.Generator = 1", "from torch import nn\nsetattr(nn.Module, '_apply', 1)",
        "from torch.nn import Module as M\nM.a, b = 1, 2", "import torch\ntorch.backends.mha.set_fastpath_enabled(0)",
        "from torch.backends import cuda\ncuda.allow_fp16_bf16_reduction_math_sdp(True)",
        "library.impl('is_pinned', f, 'CPU')", "import lightning.pytorch as pl\npl.Trainer.fit = 1",
        "import torch\ndel torch.nn.Module.a", "import torch\ntorch.a += 1",
    ],
)  # fmt: skip
def test_an_assignment_is_seen(line: str) -> None:
    assert _assigned(line)
    assert not _assigned(line.replace("torch", "ours").replace("lightning", "ours")) or "impl" in line


@needs_torch
def test_names_are_different_and_each_has_a_reason() -> None:
    names = {group.name for group in changes.ALL}
    assert len(names) == len(changes.ALL) and all(group.why for group in changes.ALL)
    assert {group.framework for group in changes.ALL} == {change.PYTORCH}


@needs_torch
def test_every_target_is_there() -> None:
    """In the PyTorch and the Lightning at hand."""
    has = {name: importlib.util.find_spec(name) is not None for name in ("lightning", "pytorch_lightning")}
    found = missing(group for group in changes.ALL if group.only != "newer releases")
    assert not [target for target in found if has.get(target.split(".")[0], True)]


@needs_torch
@pytest.mark.parametrize(
    ("text", "left_out"),
    [("", set()), ("-torch.profiler,-xla,-torch.generator", {"profiler", "generator"}), ("xla", set()), ("off", None)],
)
def test_some_are_chosen(monkeypatch: pytest.MonkeyPatch, text: str, left_out: set[str] | None) -> None:
    monkeypatch.setenv("HABANA_SIM_CHANGES", text)
    names = {group.name for group in changes.ALL}
    assert {group.name for group in changes.wanted()} == (set() if left_out is None else names - left_out)
    monkeypatch.setenv("HABANA_SIM_CHANGES", "torch.profilers")
    with pytest.raises(SettingError, match="info --changes --framework torch"):
        changes.wanted()


@needs_torch
def test_the_device_works_without_any() -> None:
    python(
        """
        import habana_frameworks.torch.core as htcore
        import torch
        x = torch.arange(4.0).to("hpu")
        assert (x * 2).cpu().tolist() == [0, 2, 4, 6]
        assert torch.Generator is torch._C.Generator
        assert torch.backends.mha.get_fastpath_enabled()
        """,
        imported=True, HABANA_SIM_CHANGES="off",
    )  # fmt: skip


@needs_torch
def test_all_are_made_and_given_back() -> None:
    python(
        """
        import torch
        from habana_tf.host_changes import change
        from habana_tf.torch import changes
        from habana_tf.torch.loader import load

        def values():
            found = {}
            for group in changes.AT_LOAD:
                for each in group.changes:
                    try:
                        owner, name = change._owner(__import__(each.module, fromlist=[""]), each)
                    except (ImportError, AttributeError):
                        continue
                    found[each.target] = getattr(owner, name)
            return found, torch.backends.mha.get_fastpath_enabled()

        before, fast = values()
        load()
        during, slow = values()
        assert fast and not slow and not [target for target in before if before[target] is during[target]]
        for group in reversed(changes.AT_LOAD):
            change.undo(group)
        after, again = values()
        assert again and not [target for target in before if before[target] != after[target]]
        """
    )


@pytest.mark.skipif(not (PACKAGE.parents[1] / "docs").is_dir(), reason="not in a source tree")
@needs_torch
def test_the_page_lists_them_all() -> None:
    page = (PACKAGE.parents[1] / "docs" / "torch-changes.md").read_text()
    rows: list[Any] = re.findall(r"^\| `(\w+)` \| (numbers|users|speed) \| ([^|]+) \| (.+) \|$", page, re.MULTILINE)
    assert [row[:3] for row in rows] == [(g.name, g.kind, g.only or "PyTorch") for g in changes.ALL]
