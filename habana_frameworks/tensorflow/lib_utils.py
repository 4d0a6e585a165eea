"""`lib_utils`: where the native libraries are, as scripts up to SynapseAI 1.6 import it.

Habana's: `libraries_location` was the directory of the bridge's libraries, from which scripts loaded more of them, and
`habana_module_path` the library of its device.
Here: the directory of habana_tf's native parts, and its TensorFlow plugin there.
"""

from __future__ import annotations

import os

from habana_frameworks.tensorflow.sysconfig import get_lib_dir

__all__ = ["habana_module_path", "libraries_location"]

libraries_location = get_lib_dir()
habana_module_path = os.path.join(libraries_location, "libhabana_plugin.so")
