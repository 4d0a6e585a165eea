"""Every module has a test that `tests.which` finds, and the first is what the rule in CONTRIBUTING says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.which import ROOT, STARTED, files_for, modules


def test_every_module_has_a_test() -> None:
    assert len(modules()) > 500
    assert [str(module) for module in modules() if not files_for(module)] == []
    assert {*STARTED} <= {module.as_posix() for module in modules()}


@pytest.mark.parametrize(
    ("module", "first"),
    [
        ("habana_tf/cache/journal.py", "tests/cache/test_journal.py"),  # of its stem
        ("habana_tf/resolver/recompilation_tables.py", "tests/resolver/test_recompilations.py"),  # a piece of another
        ("habana_tf/cli/__main__.py", "tests/cli/test_main.py"),  # which Python starts
    ],
)
def test_the_nearest_is_first(module: str, first: str) -> None:
    assert files_for(Path(module))[0] == ROOT / first


def test_a_module_that_nobody_imports_has_those_of_its_package() -> None:
    assert files_for(Path("habana_tf/cache/no_such_module.py"))[0].parent == ROOT / "tests" / "cache"
