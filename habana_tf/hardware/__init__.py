"""Facts about the simulated machine (chips, cards) and about the host CPU that stands in for it."""

__all__ = [
    "calibration", "cards", "chips", "claim", "cpu", "machine", "pyhlml", "ranks", "readings", "roofline",
    "telemetry",
]  # fmt: skip
