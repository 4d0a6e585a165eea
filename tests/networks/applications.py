"""The smallest member of every family of keras.applications, on reduced images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.networks.network import Network, classification, classifier

FAMILIES = {
    "resnet50": ("ResNet50", 32),
    "resnet50v2": ("ResNet50V2", 32),
    "mobilenet": ("MobileNet", 32),
    "mobilenetv2": ("MobileNetV2", 32),
    "mobilenetv3": ("MobileNetV3Small", 32),
    "efficientnet": ("EfficientNetB0", 32),
    "efficientnetv2": ("EfficientNetV2B0", 32),
    "densenet": ("DenseNet121", 32),
    "vgg": ("VGG16", 32),
    "inception": ("InceptionV3", 75),
    "inceptionresnet": ("InceptionResNetV2", 75),
    "xception": ("Xception", 71),
    "nasnet": ("NASNetMobile", 32),
    "convnext": ("ConvNeXtTiny", 32),
    "regnet": ("RegNetX002", 32),
}
"""Per network: the function of keras.applications, and the side of its images (the least it takes)."""

BATCH, CLASSES = 4, 10


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
        return Network(model, images, classification(numbers, BATCH, CLASSES), classifier)

    return make


NETWORKS = {name: _maker(*family) for name, family in FAMILIES.items()}
