"""The child process of `SupervisedEnv`: one environment behind a pipe of JSON lines.

Started as `python -m hgpo.envs.worker`. Each line on standard input is a call, each line on what was standard
output its answer. What the environment itself prints goes to standard error, so it cannot spoil the pipe.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from ..errors import HgpoError
from .contract import Observation, TextEnv, Transition
from .registry import make


def plain(seen: Observation | Transition) -> dict[str, Any]:
    """An observation or transition as JSON-like values."""
    fields = {name: getattr(seen, name) for name in type(seen).__dataclass_fields__}
    return {**fields, "admissible": list(seen.admissible), "info": dict(seen.info)}


def answer(env: TextEnv, request: Mapping[str, Any]) -> Any:
    """Carry out one call."""
    call = request["call"]
    if call == "splits":
        return list(env.splits)
    if call == "tasks":
        return list(env.tasks(request["split"]))
    if call == "reset":
        return plain(env.reset(request["task"], seed=request["seed"]))
    if call == "step":
        return plain(env.step(request["action"]))
    raise ValueError(f"unknown call {call!r}")


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Answer calls until the pipe closes."""

    def reply(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    env: TextEnv | None = None
    for line in calls:
        request = json.loads(line)
        try:
            if env is None:
                env = make(request["factory"], **request["settings"])
                reply({"value": "ready"})
            else:
                reply({"value": answer(env, request)})
        except Exception as error:
            # Only what a user can fix is a user's error; all else is the environment's failure.
            reply({"error": type(error).__name__, "text": str(error), "user": isinstance(error, HgpoError)})
    if env is not None:
        env.close()


def _leave_with(parent: int) -> None:
    """End this process soon after its parent is gone, even if the environment hangs."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Keep the pipe to ourselves and serve it."""
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    # An interrupt at the terminal reaches the whole group of processes; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
