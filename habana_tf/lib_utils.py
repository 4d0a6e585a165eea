"""Where the native libraries are: `libraries_location` and `habana_module_path`, as older scripts import them."""

from __future__ import annotations

import os

from .sysconfig import get_lib_dir

__all__ = ["habana_module_path", "libraries_location"]

libraries_location = get_lib_dir()
habana_module_path = os.path.join(libraries_location, "libhabana_plugin.so")
