"""`media`: datasets that decode JPEG files on the card.

Habana's: fed a training by the decoder of a Gaudi2; on a first-generation Gaudi, which has none, by the caller's own
`fallback`.
Here: the decoder of a card is not simulated. `habana_imagenet_dataset` therefore takes the `fallback`, whatever the
card, and says so; `HabanaDataset` is an error that names it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["habana_dataset", "habana_imagenet_dataset"]

_log = logging.getLogger("habana_tf.media")
_Dataset = TypeVar("_Dataset")


def habana_imagenet_dataset(
    fallback: Callable[..., _Dataset],
    is_training: bool,
    tf_data_dir: str,
    jpeg_data_dir: str | None,
    batch_size: int,
    num_channels: int,
    img_size: int,
    dtype: Any,
    use_distributed_eval: bool,
    use_pytorch_style_crop: bool = False,
    manifest_path: str | None = None,
    **fallback_kwargs: Any,
) -> _Dataset:
    """The dataset that `fallback(is_training, data_dir, batch_size, dtype, use_distributed_eval, ...)` makes of the
    TFRecords in `tf_data_dir`; what describes the JPEG files is for the card's decoder and not used.

    Raises ValueError when there are only JPEG files.
    """
    if tf_data_dir is None:
        raise ValueError(
            f"the JPEG decoder of a card is not simulated, so the pictures in {jpeg_data_dir} cannot be read: give "
            "TFRecords (tf_data_dir), or read the files with tf.data and tf.io.decode_jpeg"
        )
    _log.warning(
        "habana_imagenet_dataset: no JPEG decoder is simulated; TFRecords of %s are read on the CPU", tf_data_dir
    )
    return fallback(
        is_training=is_training,
        data_dir=tf_data_dir,
        batch_size=batch_size,
        dtype=dtype,
        use_distributed_eval=use_distributed_eval,
        **fallback_kwargs,
    )
