"""`library_loader`: where Habana's own package had `load_habana_module`, for scripts that import it from there."""

from __future__ import annotations

from . import habana_ops
from .loader import is_loaded, is_op_override_allowed, load_habana_module, set_op_override_allowed

__all__ = ["habana_ops", "is_loaded", "is_op_override_allowed", "load_habana_module", "set_op_override_allowed"]
