"""`library_loader`: loading the device, for scripts that import it from its own module.

Habana's: `load_habana_module` was defined in it, and the raw ops were loaded with the library.
Here: the functions of `habana_tf.loader`, and `habana_ops`, which needs no loading.
"""

from __future__ import annotations

from habana_frameworks.tensorflow import habana_ops
from habana_tf.loader import is_loaded, is_op_override_allowed, load_habana_module, set_op_override_allowed

__all__ = ["habana_ops", "is_loaded", "is_op_override_allowed", "load_habana_module", "set_op_override_allowed"]
