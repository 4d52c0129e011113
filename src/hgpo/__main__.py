"""The `hgpo` command as a process: `python -m hgpo` does the same.

Nothing is imported before Ctrl-C has an answer, for the imports of some verbs take seconds.
"""

import os
import sys


def main() -> int:
    """Run the command; returns its exit status."""
    try:
        from .interrupts import INTERRUPTED, answer_interrupts, leave

        answer_interrupts()
        from .cli import main as command

        status = command()
        if status == INTERRUPTED:
            leave()
        return status
    except KeyboardInterrupt:
        sys.stderr.write("hgpo: interrupted\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
