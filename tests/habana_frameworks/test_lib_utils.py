"""The place of the native libraries."""

from __future__ import annotations

from pathlib import Path

from habana_frameworks.tensorflow.lib_utils import libraries_location


def test_the_plugin_is_there() -> None:
    assert Path(libraries_location, "libhabana_plugin.so").exists()
