"""Habana's questions about how its bridge is set."""

from habana_tf.torch.core import is_enabled_weight_permute_pass

__all__: list[str] = []


def _is_enabled_synapse_layout_handling() -> bool:
    """Whether the compiler chooses layouts in memory, so that programs need not: always here."""
    return True


def _is_enabled_weight_permute_pass() -> bool:
    """As `habana_frameworks.torch.core.is_enabled_weight_permute_pass`."""
    return is_enabled_weight_permute_pass()
