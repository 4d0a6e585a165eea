"""Habana's `habana_frameworks.torch.utils.library_loader`: whether there is a card, and what loads it."""

from habana_tf.hardware.cards import cards

__all__ = ["is_habana_available", "load_habana_module"]


def is_habana_available() -> bool:
    """Whether this machine has a card: none with HABANA_SIM_CARDS=0. Loads nothing. Raises settings.SettingError."""
    return bool(cards())


def load_habana_module() -> None:
    """Makes `torch.device("hpu")` work. Raises what `import habana_frameworks.torch` raises."""
    from habana_tf.torch.loader import load

    load()
