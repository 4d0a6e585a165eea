"""What tests of several files of this folder begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from habana_tf.resolver import packaged, recipes
from tests.resolver.resolving import forget


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No recipe is known at the start of a test, nor does one come with the package."""
    monkeypatch.setattr(packaged, "_opened", lambda: None)
    forget(monkeypatch)
    yield
    recipes.reset()
