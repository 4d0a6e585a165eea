"""Facts about the simulated machine (chips, cards) and about the host CPU that stands in for it."""
