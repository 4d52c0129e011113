"""The `hgpo` command: one module per verb in this folder.

A verb is a module with a docstring (its first line is the help text), `configure(parser)` and
`run(args) -> int`. Verbs keep heavy imports inside `run`, so that `hgpo --help` stays instant.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from ..version import __version__
from ._ending import ended, flush_output, speak_plainly


class Verb(Protocol):
    """What a module in this folder offers."""

    __doc__: str | None

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest option instead of only refusing an unknown one."""

    def error(self, message: str) -> NoReturn:
        """Print the message with a suggestion and exit with status 2."""
        unknown = next((word for word in message.split() if word.startswith("--")), "").partition("=")[0]
        near = difflib.get_close_matches(unknown, self._options(), n=1) if "unrecognized" in message else []
        hint = f" Did you mean {near[0]}?" if near else ""
        self.exit(2, f"{self.prog}: {message}.{hint} `{self.prog} --help` lists what there is.\n")

    def _options(self) -> list[str]:
        found = [option for action in self._actions for option in action.option_strings]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                verb = next((child for name, child in action.choices.items() if name in sys.argv[1:2]), None)
                found += verb._options() if isinstance(verb, Parser) else []
        return found


def verbs() -> dict[str, Verb]:
    """All verbs by name, found as the modules of this package."""
    names = sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )
    return {name: cast(Verb, importlib.import_module(f"{__name__}.{name}")) for name in names}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = Parser(
        prog="hgpo",
        description="Hierarchy-of-Groups Policy Optimization for long-horizon language agents.",
        epilog="`hgpo VERB --help` explains a verb.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hgpo {__version__}")
    commands = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, verb in verbs().items():
        description = (verb.__doc__ or "").strip()
        child = commands.add_parser(
            name,
            help=description.splitlines()[0].rstrip("."),
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.configure(child)
        child.set_defaults(call=verb.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    0 done; 1 not solved, not ready (`play`, `doctor`); 2 a mistake in what was given, or a machine that does not do it
    (a full disk, a missing package); 70 an error of this package; 130 interrupted; 141 a closed pipe.
    """
    called = ["hgpo"]
    speak_plainly()
    try:
        try:
            return _command(argv, called)
        finally:
            flush_output()
    except (Exception, KeyboardInterrupt) as error:
        return ended(" ".join(called), error)


def _command(argv: Sequence[str] | None, called: list[str]) -> int:
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if not take_settings(args, rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.verb is None:
        parser.print_help()
        return 0
    called.append(args.verb)
    return int(args.call(args))


def take_settings(args: argparse.Namespace, rest: Sequence[str]) -> bool:
    """Add `key=value` words that stand after an option to the verb's settings; False if there are other words.

    argparse takes a list of words from one place only, but people write `hgpo eval RUN --split test seed=1`.
    """
    if not rest:
        return True
    if any("=" not in word or word.startswith("-") for word in rest):
        return False
    for name in ("settings", "words"):
        found = getattr(args, name, None)
        if isinstance(found, list):
            found.extend(rest)
            return True
    return False
