"""The `hgpo` command: one module per verb in this folder.

A verb is a module with a docstring (its first line is the help text), `configure(parser)` and
`run(args) -> int`. Verbs keep heavy imports inside `run`, so that `hgpo --help` stays instant.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import re
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
        meant = suggestion(self, message)
        hint = f" Did you mean {meant}?" if meant else ""
        self.exit(2, f"{self.prog}: {message}.{hint} `{self.prog} --help` lists what there is.\n")


def verbs() -> dict[str, Verb]:
    """All verbs by name, found as the modules of this package."""
    names = sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )
    return {name: cast(Verb, importlib.import_module(f"{__name__}.{name}")) for name in names}


def suggestion(parser: argparse.ArgumentParser, message: str) -> str:
    """What was probably meant by what a parser refuses; empty where nobody knows."""
    refused = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    if refused:
        choices = re.findall(r"[\w.-]+", refused[2])
        return next(iter(difflib.get_close_matches(refused[1], choices, n=1, cutoff=0.5)), "")
    _, unrecognized, rest = message.partition("unrecognized arguments: ")
    words = rest.split() if unrecognized else []
    option = next((word for word in words if word.startswith("--")), "")
    name, _, value = option.partition("=")
    if not name:
        return ""
    parsers = [parser, *_chosen(parser, sys.argv[1:])]
    known = [text for one in parsers for action in one._actions for text in action.option_strings]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    if near:
        return near[0]
    if any(action.dest in ("words", "settings") for one in parsers for action in one._actions):
        # `--iterations 3`: a setting, which is written without the dashes.
        setting = _setting(name.lstrip("-").replace("-", "_"))
        after = words[words.index(option) + 1 : words.index(option) + 2]
        if setting:
            return f"{setting}={value or next((word for word in after if word[:1] != '-'), 'VALUE')}"
    return next(iter(difflib.get_close_matches(name, known, n=1)), "")


def _setting(name: str) -> str:
    """The setting of a run that is called `name`, or nearly so; empty where there is none."""
    from ..config.schema import Config
    from ..config.tree import SHORT_NAMES, section
    from ..settings import settings_of

    places = {short: short for short in SHORT_NAMES}
    for top in settings_of(Config):
        if section(top) is None:
            places[top] = top
        else:
            for inner in settings_of(section(top)):
                places[f"{top}.{inner}"] = f"{top}.{inner}"
                places.setdefault(inner, f"{top}.{inner}")
    near = difflib.get_close_matches(name, places, n=1, cutoff=0.8)
    return places[near[0]] if near else ""


def _chosen(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[argparse.ArgumentParser]:
    """The parsers of the verbs that `words` go through."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for place, word in enumerate(words):
                if word in action.choices:
                    child = action.choices[word]
                    return [child, *_chosen(child, words[place + 1 :])]
    return []


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
