"""What a real card would do: `model` computes it, `prediction`, `clock` and `timeline` ask the model.

    model        how long a card takes for one lowered cluster or a step, engine by engine, and the memory it needs
    prediction   the answer to `predict()`: a step that did not run (`habana_tf/dry_run` finds out what it would launch)
    clock        the card's time, added up over the launches of a process that runs
    timeline     when each engine of the card works, beside when this host did

docs/card-time.md says when to use which.
"""
