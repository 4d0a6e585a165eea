"""Where the native libraries are: `libraries_location`, as older scripts import it."""

from __future__ import annotations

from .sysconfig import get_lib_dir

libraries_location = get_lib_dir()
