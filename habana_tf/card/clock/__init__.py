"""The card's time while a program runs: what its launches so far would have taken; see docs/card-time.md."""
