"""What verl loads through its `verl.plugins` entry point, in the driver and in every Ray worker.

verl reports a plug-in that fails to load at DEBUG level only, and the run then dies later with "unknown trainer".
So whatever does not fit is said here, as a warning on standard error, before the error is passed on.
"""

from __future__ import annotations

import os
import sys

from .names import CPU_SWITCH
from .versions import misfit


def register() -> None:
    """Register everything; with `HGPO_VERL_CPU=1` also the CPU platform and rollout server."""
    problem = misfit()
    if problem:
        raise ImportError(problem)
    if os.environ.get(CPU_SWITCH) == "1":
        from .cpu import activate

        activate()
    from . import advantage, attention, loop, trainer

    advantage.register()
    attention.register()
    loop.register()
    trainer.register()


try:
    register()
except Exception as error:
    print(
        f"hgpo: the plug-in for verl was NOT loaded: {error} (`hgpo verl doctor` says more; "
        "VERL_USE_EXTERNAL_PLUGINS=none turns plug-ins off)",
        file=sys.stderr,
        flush=True,
    )
    raise
