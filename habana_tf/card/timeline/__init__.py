"""When what ran: launches by the host's clock, and what a card would do by its own clock; see docs/timeline.md."""
