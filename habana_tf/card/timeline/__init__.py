"""When what ran: the launches of this process in the host's clock, and what a card would do in its own."""
