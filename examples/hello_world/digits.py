"""Handwritten digits in the shape of MNIST, without a download.

The 1,797 images of 8 x 8 pixels that come with scikit-learn, enlarged to 28 x 28.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

TEST_IMAGES = 297

Split = tuple[np.ndarray, np.ndarray]


def load_data() -> tuple[Split, Split]:
    """(images, labels) for training and for the test, as `tf.keras.datasets.mnist.load_data` gives them.

    Images uint8 [n, 28, 28] from 0 to 255, labels uint8 [n]; 1,500 for training, 297 for the test.
    """
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    large = np.kron(data.images[order] * (255 / 16), np.ones((3, 3)))
    images = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    labels = data.target[order].astype(np.uint8)
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])
