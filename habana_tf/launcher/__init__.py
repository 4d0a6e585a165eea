"""Starting a job of several processes, one card each: `habana-tf run`.

`plan` says what every rank runs and with which environment, `job` starts the ranks and watches over them, `agent`
stands beside each of them on its host, `reach` tells it which other hosts answer, `console` prints what they all say.
"""
