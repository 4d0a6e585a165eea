"""Simulated time while a program runs: the clock of the card, to which each launch adds its predicted time."""
