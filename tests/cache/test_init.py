"""The package's names: each is in its module, and importing the package imports none of these."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from habana_tf import cache


def test_importing_imports_nothing() -> None:
    code = "import sys, habana_tf.cache; print(*(m for m in sys.modules if m.startswith('habana_tf.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["habana_tf.aliases", "habana_tf.version", "habana_tf.cache"]


@pytest.mark.parametrize("name", cache.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(cache, name).__name__ == name


def test_a_name_is_no_module() -> None:
    """Importing a submodule sets an attribute of the package: none may take the place of a function."""
    modules = {module.name for module in pkgutil.iter_modules(cache.__path__)}
    assert not modules & {*cache.__all__}


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recipes'"):
        _ = importlib.import_module("habana_tf.cache").recipes
