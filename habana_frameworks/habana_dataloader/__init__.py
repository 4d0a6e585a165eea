"""Habana's package `habana_dataloader`, which loads pictures through the card, is not here: see
`habana_tf.refused_names`. An installed habana_tf has it at the top, too, where scripts import it."""

from habana_tf.refused_names import attributes

__getattr__ = attributes(
    "habana_dataloader", "use torch.utils.data.DataLoader (Habana's scripts have --dl-worker-type MP for it)"
)
