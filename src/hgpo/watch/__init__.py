"""Following runs while they train: a page served to this machine alone.

`follow.py` follows one run, `board.py` all that were asked for, `kept.py` opens the rollouts that a run keeps, and
`server.py` answers the page in `page/`. Nothing here writes, and nothing takes a lock that a run could wait for.
"""
