"""Habana's questions about how its bridge is set."""

from habana_tf.torch.core import is_enabled_weight_permute_pass
from habana_tf.torch.record import current

__all__: list[str] = []


def _is_enabled_synapse_layout_handling() -> bool:
    """Whether the compiler chooses layouts in memory, so that programs need not: always here."""
    return True


def _is_enabled_weight_permute_pass() -> bool:
    """As `habana_frameworks.torch.core.is_enabled_weight_permute_pass`."""
    return is_enabled_weight_permute_pass()


def _bridge_cleanup() -> None:
    """Runs what was recorded. Habana's forgets its caches as well, for settings to be read anew, as they always are."""
    current.recorder().flush()
