"""Which attention a card computes in one go, told from what is computed."""

from __future__ import annotations

from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F

    import habana_tf
    from habana_tf.card.model.attention import causal
    from habana_tf.card.model.kernels import cut

HEADS, LENGTH, SIZE = 4, 64, 32


def found(attend: object, *shapes: tuple[int, ...], trains: bool = False) -> tuple[int, int, int]:
    """Units of causal attentions, all units, and tensors that count as scores, of a module that attends."""

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return attend(*(x * self.scale for x in given))  # type: ignore[operator]

    given = [torch.empty(s, device="meta", dtype=torch.bfloat16) for s in shapes]
    loss = (lambda out: out.float().square().mean()) if trains else None
    p = habana_tf.predict(Attends().to(torch.bfloat16), *given, loss=loss, chip="gaudi2", precision="fp32")
    (lowered,) = p.launched
    units = cut(lowered.program, set(lowered.made.values()))
    inside, scores = causal(units)
    return len(inside), len(units), len(scores)


@needs_torch
@on_device(modes=("lazy",))
def test_only_a_causal_attention_of_scaled_dot_product_attention_is() -> None:
    shape = (2, HEADS, LENGTH, SIZE)

    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    inside, _, scores = found(masked, shape, shape, shape)
    assert inside == 3 and scores >= 2  # two products, and the softmax between them
    square = (2, HEADS, LENGTH, LENGTH)  # as many elements as the scores
    assert found(masked, square, square, square)[0] == inside
    trained, _, _ = found(masked, shape, shape, shape, trains=True)
    assert trained > inside

    def whole(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def given(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask)

    def by_ops(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        later = torch.full((LENGTH, LENGTH), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
        return torch.softmax(q @ k.transpose(-1, -2) + later, -1) @ v

    assert found(whole, shape, shape, shape)[0] == found(by_ops, shape, shape, shape)[0] == 0
    assert found(given, shape, shape, shape, (LENGTH, LENGTH))[0] == 0
    assert found(whole, (2, HEADS, 1, SIZE), shape, shape)[0] == 0
