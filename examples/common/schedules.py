"""Learning rates over the steps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Rises in a line to `rate` over `warmup` steps, then falls to 0 at `steps`: as a cosine, or with `power` as that.

    Both as papers write them: a cosine for ViT, a polynomial of power 2 for LARS.
    """

    def __init__(self, rate: float, warmup: int, steps: int, power: float = 0.0) -> None:
        super().__init__()
        self.rate, self.warmup, self.steps, self.power = rate, warmup, steps, power

    def __call__(self, step: Any) -> Any:
        at = tf.cast(step, tf.float32)
        left = tf.clip_by_value((self.steps - at) / max(self.steps - self.warmup, 1), 0.0, 1.0)
        fall = left**self.power if self.power else 0.5 - 0.5 * tf.cos(left * 3.14159265)
        return self.rate * tf.minimum((at + 1) / max(self.warmup, 1), 1.0) * tf.where(at < self.warmup, 1.0, fall)

    def get_config(self) -> dict[str, Any]:
        return {"rate": self.rate, "warmup": self.warmup, "steps": self.steps, "power": self.power}


class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Rises in a line over `warmup` steps, then falls as one over the root of the step (arXiv 1706.03762, section 5.3).

    The highest rate is scale / sqrt(width * warmup).
    """

    def __init__(self, width: int, warmup: int, scale: float = 1.0) -> None:
        super().__init__()
        self.width, self.warmup, self.scale = width, max(warmup, 1), scale

    def __call__(self, step: Any) -> Any:
        at = tf.cast(step, tf.float32) + 1
        return self.scale * self.width**-0.5 * tf.minimum(tf.math.rsqrt(at), at * self.warmup**-1.5)

    def get_config(self) -> dict[str, Any]:
        return {"width": self.width, "warmup": self.warmup, "scale": self.scale}
