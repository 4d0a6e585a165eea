"""Without a decoder the caller's fallback makes the dataset, and what cannot work says so."""

from __future__ import annotations

from typing import Any

import pytest

from habana_frameworks.tensorflow.media import habana_imagenet_dataset

ARGUMENTS: dict[str, Any] = {
    "is_training": True, "jpeg_data_dir": "/jpeg", "batch_size": 8, "num_channels": 3, "img_size": 224,
    "dtype": "bfloat16", "use_distributed_eval": False, "drop_remainder": True,
}  # fmt: skip


def test_the_fallback_gets_what_is_for_it(caplog: pytest.LogCaptureFixture) -> None:
    got: dict[str, Any] = habana_imagenet_dataset(fallback=lambda **k: k, tf_data_dir="/records", **ARGUMENTS)
    assert got == {"is_training": True, "data_dir": "/records", "batch_size": 8, "dtype": "bfloat16",
                   "use_distributed_eval": False, "drop_remainder": True}  # fmt: skip
    assert "no JPEG decoder" in caplog.text


def test_only_jpeg_files_is_an_error() -> None:
    none: Any = None
    with pytest.raises(ValueError, match=r"/jpeg.*tf_data_dir"):
        habana_imagenet_dataset(fallback=dict, tf_data_dir=none, **ARGUMENTS)
