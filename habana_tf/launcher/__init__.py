"""`habana-tf run`: starts a job of several processes, one card each.

`plan` decides what every rank runs and with which environment; `job` starts the ranks and watches them; an `agent` runs
beside each rank on its host; `reach` tells the agent which other hosts answer; `console` prints the output of all
ranks.
"""
