"""Handwritten digits for the programs of this folder, without a download: 1,797 images come with scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

TEST_IMAGES = 297


def datasets(size: int = 8, channels: int = 1) -> tuple[TensorDataset, TensorDataset]:
    """Images float32 [channels, size, size] about 0 and labels: 1,500 to train on, 297 for the test.

    size: a multiple of 8.
    """
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    large = np.kron(data.images[order] / 8 - 1, np.ones((size // 8, size // 8)))
    images = torch.tensor(large, dtype=torch.float32)[:, None].expand(-1, channels, -1, -1).contiguous()
    labels = torch.tensor(data.target[order], dtype=torch.int64)
    return (
        TensorDataset(images[TEST_IMAGES:], labels[TEST_IMAGES:]),
        TensorDataset(images[:TEST_IMAGES], labels[:TEST_IMAGES]),
    )
