"""Habana's own place of `load_habana_module`."""

from __future__ import annotations

from tests.child import python


def test_it_loads_the_device() -> None:
    script = """
        from habana_frameworks.tensorflow.library_loader import is_loaded, load_habana_module
        import habana_tf, tensorflow as tf
        assert not is_loaded()
        load_habana_module()
        assert is_loaded() and habana_tf.is_loaded() and tf.config.list_physical_devices("HPU")
    """
    python(script, imported=True)
