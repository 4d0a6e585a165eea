"""Layers in 8 bits on two cards: what they measure together, and layers that they share."""

from __future__ import annotations

from tests.torch.child import needs_torch
from tests.torch.ranks import run

pytestmark = needs_torch


def test_two_cards_scale_alike() -> None:
    run(
        """
        import habana_frameworks.torch.hpex.experimental.transformer_engine as te
        start()
        how = te.recipe.DelayedScaling(fp8_format=te.recipe.Format.E5M2)
        layers = [te.Linear(4, 4), te.Linear(4, 4)]
        for size in (1.0, 8.0):
            x = torch.full((2, 4), size * (1 + 3 * rank), device=hpu)
            with te.fp8_autocast(enabled=True, fp8_recipe=how, fp8_group=dist.group.WORLD):
                for layer in layers:
                    (layer(x) * (1 + rank)).sum().backward()
        with te.fp8_autocast(enabled=True, fp8_recipe=how):
            for layer in layers:
                layer(x)
                layer(x, is_first_microbatch=True)
                dist.broadcast(layer.weight.data, 1)
                assert torch.equal(layer.eval()(x, is_first_microbatch=False).cpu(), layer(x).cpu())
        for layer in layers:  # the largest of both ranks: 32 and 2
            assert layer.fp8_meta["scaling_fwd"].scale[0].item() == 2.0**10, layer.fp8_meta["scaling_fwd"].scale
            assert layer.fp8_meta["scaling_bwd"].scale[0].item() == 2.0**14, layer.fp8_meta["scaling_bwd"].scale
        report(rank, True)
        """
    )


def test_two_cards_share_layers() -> None:
    """A layer by columns and one by rows on two cards are the two layers on one, in 8 bits too."""
    run(
        """
        import copy
        import habana_frameworks.torch.hpex.experimental.transformer_engine as te
        start()
        how = te.recipe.DelayedScaling(fp8_format=te.recipe.Format.E5M2)
        torch.manual_seed(0)
        first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)
        x, g = torch.randn(4, 6), torch.randn(4, 6)

        def train(a, b, x, g, enabled):
            for k in range(2):
                a.zero_grad(), b.zero_grad()
                x = x.detach().to(hpu).requires_grad_()
                with te.fp8_autocast(enabled=enabled, fp8_recipe=how):
                    made = b(torch.relu(a(x)))
                made.backward(g.to(hpu))
            return [t.detach().cpu() for t in (made, x.grad, a.weight.grad, a.bias.grad, b.weight.grad, b.bias.grad)]

        for enabled in (False, True):
            whole = te.Linear(6, 8), te.Linear(8, 6)
            for layer, like in zip(whole, (first, second)):
                layer.load_state_dict(like.state_dict())
            want = train(*whole, x, g, enabled)
            for rows in (False, True):
                parts = (
                    te.Linear(6, 8, rows, tp_group=dist.group.WORLD, tp_size=2, parallel_mode="column"),
                    te.Linear(8, 6, rows, tp_group=dist.group.WORLD, tp_size=2, parallel_mode="row"),
                )
                mine = slice(4 * rank, 4 * rank + 4)
                with torch.no_grad():
                    parts[0].weight.copy_(first.weight[mine]), parts[0].bias.copy_(first.bias[mine])
                    parts[1].weight.copy_(second.weight[:, mine]), parts[1].bias.copy_(second.bias)
                half = slice(2 * rank, 2 * rank + 2) if rows else slice(0, 4)
                made = train(*parts, x[half], g[half], enabled)
                cut = [want[0][half], want[1][half], want[2][mine], want[3][mine], want[4][:, mine]]
                for got, wanted in zip(made, cut):
                    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
                copied = copy.deepcopy(parts[0])
                assert copied.tp.group is dist.group.WORLD and copied.weight is not parts[0].weight
                total = on_card(*made[5].tolist())
                if rows:
                    dist.all_reduce(total)
                torch.testing.assert_close(total.cpu(), want[5])
        report(rank, True)
        """
    )
