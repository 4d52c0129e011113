"""The one way out of every command: an exit status and, when something went wrong, one sentence."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback

from ..errors import BadEnv, HgpoError, MissingExtra
from ..files import is_full
from ..interrupts import INTERRUPTED

MISTAKE, BUG, NO_READER = 2, 70, 141
"""Exit statuses: the user's input, files or machine; an error of this package; a pipe that was closed."""

# Packages that an extra of ours brings, by the name under which they are imported.
EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "safetensors", "tokenizers", "peft", "gguf"), "train"),
    **dict.fromkeys(("matplotlib", "tomli"), "train"),
    **dict.fromkeys(("pyarrow", "rapidfuzz"), "data"),
    **dict.fromkeys(("tensorboard", "wandb"), "track"),
    **dict.fromkeys(("alfworld", "textworld"), "alfworld"),
    **dict.fromkeys(("gymnasium", "minigrid", "textworld_express", "scienceworld"), "envs"),
    **dict.fromkeys(("verl", "ray", "transfer_queue"), "verl"),
    "vllm": "vllm",
}


def ended(name: str, error: BaseException) -> int:
    """Say in a sentence why the command `name` ended with `error`; returns the exit status.

    The stack goes to standard error only where `HGPO_DEBUG=1` asks for it.
    """
    if os.environ.get("HGPO_DEBUG") == "1":
        say("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, KeyboardInterrupt):
        say(f"{name}: interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return NO_READER
    status = MISTAKE if _is_mistake(error) else BUG
    lines = error.lines if isinstance(error, BadEnv) else [sentence(error)]
    say(f"{name}: " + "\n".join(map(one_line, lines)))
    return status


def sentence(error: BaseException) -> str:
    """What went wrong, for a person."""
    if isinstance(error, HgpoError):
        return str(error)
    if isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
        if package in EXTRAS and isinstance(error, ModuleNotFoundError):
            return str(MissingExtra(package, EXTRAS[package], "This"))
        return f"A package could not be imported: {error}. Install it, or repair its installation."
    if is_full(error):
        return f"There is no space left on the disk: {error}. Free some and run the command again."
    if _is_memory(error):
        return (
            f"There is not enough memory for this{f' ({error})' if str(error) else ''}. Give it less at once."
        )
    if isinstance(error, RecursionError):
        return "Something that was given is nested too deeply to be read."
    if isinstance(error, UnicodeError):
        return f"A file or word that was given is not valid text: {error}. Write it as UTF-8."
    if isinstance(error, OSError):
        places = " and ".join(str(place) for place in (error.filename, error.filename2) if place is not None)
        return f"{places + ': ' if places else ''}{error.strerror or error}."
    said = f": {error}" if str(error) else ""
    return (
        f"Something is wrong in hgpo itself, not in what was given ({type(error).__name__}{said}). "
        "HGPO_DEBUG=1 shows where; please report it."
    )


def say(text: str) -> None:
    """Print on standard error, if there is still somebody there."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def speak_plainly() -> None:
    """Let no character that the terminal's encoding does not know end a command: it is printed as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Hand over what was printed, so that a closed pipe or a full disk is found out here and not at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        # What is still in the buffer would be tried again, and complained about, when the interpreter ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def one_line(message: str, limit: int = 2000) -> str:
    """A message that may quote a file's content, safe to print: no control characters, not endless.

    >>> one_line("no column 'a\\x1b[2Jb'")
    "no column 'a\\\\x1b[2Jb'"
    """
    if len(message) > limit:
        message = f"{message[: limit // 2]} ... {message[-limit // 4 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _is_mistake(error: BaseException) -> bool:
    kinds = (HgpoError, OSError, ImportError, RecursionError, UnicodeError)
    return isinstance(error, kinds) or is_full(error) or _is_memory(error)


def _is_memory(error: BaseException) -> bool:
    # torch says it in words when the memory of the host is used up.
    return (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )
