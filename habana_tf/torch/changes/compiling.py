"""Changes of torch.compile."""

from __future__ import annotations

import functools
from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.strides import format_of


def _traced(original: Any) -> bool:
    """Whether Dynamo traces LSTM and GRU. The device has ops of a whole layer (see `recurrent`), where most backends
    would get a cell for each time step."""
    return True


def _any_strides(original: Any) -> Any:
    """Whether results may have strides: everywhere. PyTorch takes the name for a card's whose tensors have none."""

    @functools.wraps(original)
    def is_noncontiguous_supported(device: Any) -> bool:
        return True

    return is_noncontiguous_supported


def _convolutions(original: Any) -> Any:
    """The format of a convolution's result, which PyTorch knows of backends in its own sources."""

    @functools.wraps(original)
    def _conv_determine_backend_memory_format(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        return format_of(x, weight) if x.device.type == "hpu" else original(x, weight, backend)

    return _conv_determine_backend_memory_format


RECURRENT = Group(
    "traced_recurrent_layers", "torch.compile leaves LSTM and GRU out of its graphs, and they run op by op",
    (Change("torch._dynamo.config", "allow_rnn", _traced),),
    worth="12 ms in the place of 18 for a step of two layers of LSTM, 8 x 32 x 256, on two cores", host=PYTORCH,
)  # fmt: skip
STRIDES = Group(
    "traced_strides", "what a compiled graph gives lies row by row in memory, whatever its arguments do",
    (
        Change("torch._refs", "is_noncontiguous_supported", _any_strides),
        Change("torch._subclasses.fake_impls", "is_noncontiguous_supported", _any_strides),
        Change("torch._C", "_conv_determine_backend_memory_format", _convolutions),
    ), numbers=True, host=PYTORCH,
)  # fmt: skip
