"""The `hgpo` command as a process: `python -m hgpo` does the same.

Nothing is imported before Ctrl-C has an answer, for the imports of some verbs take seconds.
"""

import os
import sys


def main() -> int:
    """Run the command; returns its exit status."""
    try:
        from .interrupts import INTERRUPTED, answer_interrupts, leave

        open_streams()
        answer_interrupts()
        from .cli import main as command

        status = command()
        if status == INTERRUPTED or os.environ.get("WORLD_SIZE", "1") != "1":
            leave(status)
        return status
    except KeyboardInterrupt:
        sys.stderr.write("hgpo: interrupted\n")
        sys.stderr.flush()
        os._exit(130)


def open_streams() -> None:
    """Give this process the three standard streams where it was started without one (`2>&-`).

    Nothing is printed to such a stream, but its number must not become that of the next file that is opened.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


if __name__ == "__main__":
    sys.exit(main())
