"""`setting`: what an environment variable is, by the name under which habana_tf used to have it.

Habana's: no module of this name is known of its package.
Here: `habana_tf.settings.environment`'s names, for programs that import them from `habana_tf.setting`.
"""

from __future__ import annotations

from habana_tf.settings import environment
from habana_tf.settings.environment import *  # noqa: F403  # a second name of the module

__all__ = environment.__all__
