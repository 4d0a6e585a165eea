"""Habana's questions about how its bridge is set."""

__all__: list[str] = []


def _is_enabled_synapse_layout_handling() -> bool:
    """Whether the compiler chooses layouts in memory, so that programs need not: always here."""
    return True
