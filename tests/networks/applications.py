"""The smallest member of every family of keras.applications, on reduced images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.networks.network import Network, classification, classifier

FAMILIES = {
    "resnet50": ("ResNet50", 64),
    "resnet50v2": ("ResNet50V2", 64),
    "mobilenet": ("MobileNet", 64),
    "mobilenetv2": ("MobileNetV2", 64),
    "mobilenetv3": ("MobileNetV3Small", 64),
    "efficientnet": ("EfficientNetB0", 64),
    "efficientnetv2": ("EfficientNetV2B0", 64),
    "densenet": ("DenseNet121", 64),
    "vgg": ("VGG16", 64),
    "inception": ("InceptionV3", 75),
    "inceptionresnet": ("InceptionResNetV2", 75),
    "xception": ("Xception", 71),
    "nasnet": ("NASNetMobile", 64),
    "convnext": ("ConvNeXtTiny", 64),
    "regnet": ("RegNetX002", 64),
}
"""Per network: the function of keras.applications, and the side of its images (the least it takes)."""

BATCH, CLASSES = 8, 10

DROP_BLOCKS = frozenset({"EfficientNetB0", "EfficientNetV2B0"})
"""Families that leave out whole blocks at random."""


def _maker(function: str, side: int) -> Callable[[], Network]:
    def make() -> Network:
        shape = (side, side, 3)
        backbone = getattr(tf.keras.applications, function)(
            include_top=False, weights=None, input_shape=shape, pooling="avg"
        )
        output = tf.keras.layers.Dense(CLASSES)(backbone.output)
        model = tf.keras.Model(backbone.input, output)
        numbers = np.random.default_rng(0)
        images = (numbers.random((BATCH, *shape)) * 255).astype(np.float32)
        y = classification(numbers, BATCH, CLASSES)
        return Network(model, images, y, classifier, fp32_only=function in DROP_BLOCKS)

    return make


NETWORKS = {name: _maker(*family) for name, family in FAMILIES.items()}
