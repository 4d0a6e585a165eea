"""Changes of torch.compile."""

from __future__ import annotations

from typing import Any

from habana_tf.host_changes.change import PYTORCH, Change, Group


def _traced(original: Any) -> bool:
    """Whether Dynamo traces LSTM and GRU. The device has ops of a whole layer (see `recurrent`), where most backends
    would get a cell for each time step."""
    return True


RECURRENT = Group(
    "traced_recurrent_layers", "torch.compile leaves LSTM and GRU out of its graphs, and they run op by op",
    (Change("torch._dynamo.config", "allow_rnn", _traced),),
    worth="12 ms in the place of 18 for a step of two layers of LSTM, 8 x 32 x 256, on two cores", host=PYTORCH,
)  # fmt: skip
