"""Habana's `habana_frameworks.torch.gpu_migration`, which is not here: it has torch.cuda mean HPU."""

raise ImportError(
    "habana_frameworks.torch.gpu_migration is not part of the simulated card: nothing takes the place of torch.cuda. "
    'Import habana_frameworks.torch.core, and say "hpu" where the script says "cuda"',
    name=__name__,
)
