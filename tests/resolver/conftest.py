"""What tests of several files of this folder begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from habana_tf.resolver import recipes
from tests.resolver.resolving import forget


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No recipe is known at the start of a test."""
    forget(monkeypatch)
    yield
    recipes.reset()
