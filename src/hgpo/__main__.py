"""The `hgpo` command as a process: `python -m hgpo` does the same.

Nothing is imported before Ctrl-C has an answer, for the imports of some verbs take seconds.
"""

import sys


def main() -> int:
    """Run the command; returns its exit status."""
    try:
        from .interrupts import answer_interrupts

        answer_interrupts()
        from .cli import main as command

        return command()
    except KeyboardInterrupt:
        sys.stderr.write("hgpo: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
