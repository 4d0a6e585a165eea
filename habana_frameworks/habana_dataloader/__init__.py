"""Habana's package `habana_dataloader`, which loads pictures through the card, is not here: see
`habana_tf.refused_names`. It is installed at the top, where scripts import it from."""

from habana_tf.refused_names import attributes

__getattr__ = attributes(
    "habana_dataloader", "use torch.utils.data.DataLoader (Habana's scripts have --dl-worker-type MP for it)"
)
