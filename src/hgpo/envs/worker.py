"""The child process of `SupervisedEnv`: one environment behind a pipe of JSON lines.

Which environment it is, the parent says in the first line; nothing else decides what code is run here. Each line on
what was standard input is a call, each line on what was standard output its answer. The environment has neither: what
it prints goes to standard error, and there is nothing for it to read, so it cannot spoil the pipe.

The worker leads a group of processes. Whatever the environment starts belongs to it and ends with it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from ..errors import HgpoError
from . import answers
from .actions import action_form
from .contract import Observation, TextEnv, Transition
from .registry import make


def plain(seen: Observation | Transition) -> dict[str, Any]:
    """A checked observation or transition as JSON-like values."""
    return {name: getattr(seen, name) for name in type(seen).__dataclass_fields__}


def answer(env: TextEnv, request: Mapping[str, Any]) -> Any:
    """Carry out one call."""
    call = request["call"]
    if call == "splits":
        return answers.split_names(env.splits)
    if call == "tasks":
        return answers.task_ids(env.tasks(request["split"]), request["split"])
    if call == "world_version":
        return answers.version(getattr(env, "world_version", 1))
    if call == "action_form":
        return action_form(env)
    if call == "reset":
        return plain(answers.observation(env.reset(request["task"], seed=request["seed"])))
    if call == "step":
        return plain(answers.transition(env.step(request["action"])))
    raise ValueError(f"unknown call {call!r}")


def serve(calls: BinaryIO, replies: BinaryIO) -> None:
    """Answer calls until the pipe closes."""

    def reply(message: Mapping[str, Any]) -> None:
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    env: TextEnv | None = None
    for line in calls:
        request = json.loads(line)
        try:
            if env is None:
                env = answers.contained(functools.partial(make, request["factory"], **request["settings"]))
                reply({"value": "ready"})
            else:
                reply({"value": answers.contained(functools.partial(answer, env, request))})
        except (Exception, KeyboardInterrupt) as error:  # nobody presses Ctrl-C here: see `main`
            # Only what a user can fix is a user's error; all else is the environment's failure.
            user = isinstance(error, HgpoError)
            text = str(error) if user else answers.cause(error)
            reply({"error": type(error).__name__, "text": text, "user": user})
    if env is not None:
        env.close()


def _leave_with(parent: int) -> None:
    """End this process and all of its group soon after its parent is gone, even if the environment hangs."""
    while os.getppid() == parent:
        time.sleep(1)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Keep the pipe to ourselves and serve it."""
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    # An interrupt at the terminal reaches the whole group of processes; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    serve(calls, replies)


if __name__ == "__main__":
    main()
