"""The commands of the pages: where they stand, what each must be, and which of them are only checked, not run."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgpo.cli import build_parser, take_settings
from hgpo.cli._options import column_map, given_settings, named_envs, parsed_settings, split_preset
from hgpo.config import load, preset_names
from hgpo.envs.registry import factory, settings_of_env
from hgpo.errors import HgpoError, MissingExtra
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import build, parse_all
from hgpo.verl.overrides import split_words

from .pages import ROOT, blocks, inline_code, name

# Commands that the tests run.
RUN = (
    r"hgpo advantages docs/examples/",
    r"hgpo inspect (docs/examples/|rollouts|cave)",
    r"hgpo env (new|check cave|list)",
    r"hgpo play (household|cave\.py:Cave) .*--policy",
    r"hgpo train .*(--settings|--list|--show)",
    r"hgpo eval expert --preset quickstart$",
    r"hgpo verl memory",
    r"hgpo doctor$",
    r"python docs/examples/",
)

# Commands that they do not run, and why. All are parsed by the real parser, and their presets, settings, environments,
# estimators and models are checked. Every command in a block of code is on one of the two lists.
ONLY_CHECKED = {
    r"hgpo train (?!.*(--settings|--list|--show))": "minutes; tests/runs trains, a slow test follows Getting started",
    r"hgpo sft ": "minutes; tests/learn clones",
    r"hgpo eval (?!expert --preset quickstart)": "needs a run, a model, a server or a package; tests/runs evaluates",
    r"hgpo compare ": "needs runs; a slow test follows Getting started, and tests/runs compares",
    r"hgpo inspect (runs/|DIR)": "needs a run or another framework's files; tests/inspect has such",
    r"hgpo advantages theirs": "needs files of other frameworks; tests/cli has such",
    r"hgpo carry ": "needs a run; tests/runs packs and unpacks one",
    r"hgpo watch ": "serves until somebody ends it; tests/cli starts and ends it",
    r"hgpo lab ": "minutes; tests/lab measures",
    r"hgpo models fetch": "a download",
    r"hgpo models push": "needs a run and a hub; tests/models has a stand-in",
    r"hgpo data ": "a download, or the official files; tests/cli converts and checks small ones",
    r"hgpo play (alfworld|webshop|babyai)": "needs data or another package; their own tests play",
    r"hgpo play [\w.:]+$": "waits for a person; tests/cli plays",
    r"hgpo env check gym": "needs Gymnasium; make test-envs",
    r"hgpo verl (launch|dry-run|doctor)": "needs verl, GPUs or games; make test-verl",
    r"torchrun ": "needs several GPUs; tests/learn trains in two processes",
    r"make |pip install ": "targets and extras are looked up",
    r"python[\d.]* (-m|experiments/|benchmarks/|train_trl\.py)": "scripts and their options are looked up",
}

# Programs that are not ours; their lines are for the reader.
FOREIGN = (
    *(".", "cd", "export", "source", "alfworld-download", "nvidia-cuda-mps-control", "ray", "vllm", "head"),
    *("git", "ssh"),
)

PLACEHOLDER = re.compile(r"^[A-Z]{2,}$|^key=value$|\.\.\.$")
"""Words that stand for the reader's own."""
SHELL = ("", "sh", "bash", "console")
"""A block whose fence says one of these holds commands; `text` is what a program prints."""


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    page: str
    line: int
    words: tuple[str, ...]
    whole: bool
    """It stands in a block of code; else it is named in a sentence, perhaps with a part of its options only."""

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def place(self) -> str:
        """For test reports."""
        return f"{self.page}:{self.line}"

    @property
    def program(self) -> str:
        """What is called, after variables that are set for it."""
        return next(itertools.dropwhile(_sets_variable, self.words))

    @property
    def rules(self) -> list[str]:
        """The lines of `RUN` and `ONLY_CHECKED` that it falls under."""
        text = " ".join(itertools.dropwhile(_sets_variable, self.words))
        return [line for line in (*RUN, *ONLY_CHECKED) if re.match(line, text)]


def _sets_variable(word: str) -> bool:
    return re.match(r"[A-Z_]+=", word) is not None


def commands(page: Path) -> Iterator[Command]:
    """All commands of a page: every line of its shell blocks, and every `hgpo VERB ...` in its text."""
    for block in blocks(page):
        if block.language not in SHELL or (not block.language and not _is_shell(block.text)):
            continue
        # A line that goes on in the next keeps its number; where commands follow a `$`, the rest is what they print.
        text = re.sub(r"\\\n", " ", block.text)
        for number, line in enumerate(text.splitlines()):
            if text.startswith("$ ") and not line.startswith("$ "):
                continue
            for words in _split(line.removeprefix("$ ")):
                yield Command(block.page, block.line + number, words, True)
    for number, code in inline_code(page):
        if re.match(r"(hgpo|pip install) [\w.'-]", code) and not re.match(r"hgpo (VERB|\w+=)", code):
            for words in _split(code):
                yield Command(name(page), number, words, False)


def _is_shell(text: str) -> bool:
    """Whether a block without a language is one of commands: its first line starts with a program's name."""
    programs = ("hgpo", "pip", "python", "python3", "python3.12", "make", "torchrun", *FOREIGN)
    first = text.removeprefix("$ ").split()[:2]
    return bool(first) and (first[0] in programs or _sets_variable(first[0]))


def _split(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of a line of shell, `a && b` apart."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= set("&|;<>"):
            if words:
                yield tuple(words)
            words = []
        else:
            words.append(word)
    if words:
        yield tuple(words)


def check(command: Command) -> None:
    """Fail if a command cannot be what its reader needs.

    Raises:
        AssertionError, HgpoError, SystemExit: what is wrong with it.
    """
    assert not command.whole or not any(word.endswith("...") for word in command.words), "it cannot be pasted"
    program, *rest = itertools.dropwhile(_sets_variable, command.words)
    if program == "torchrun":
        program, rest = "hgpo", rest[rest.index("hgpo") + 1 :]
    if program == "hgpo":
        (_check_hgpo if command.whole else _check_mention)(rest)
    elif program == "make":
        for target in (word for word in rest if not word.startswith("-")):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"make has no {target}"
    elif program == "pip":
        _check_pip(rest)
    elif program.startswith("python"):
        _check_script(rest, command.page)
    else:
        assert program in FOREIGN, f"{program}: what program is that?"


def _check_pip(words: list[str]) -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for word in words:
        assert not re.match(r"hgpo\b", word), (
            f"pip install {word}: no index has the package; say '.' or '.[extra]'"
        )
        for extra in re.findall(r"^\.\[(.*)\]$", word):
            for one in extra.split(","):
                assert re.search(rf"^{one} = \[", pyproject, re.MULTILINE), f"there is no extra {one!r}"


def _check_script(words: list[str], page: str) -> None:
    """A script of the repository, or one that the page itself shows: it is there, and knows its options."""
    if words[:1] == ["-m"]:
        if words[1] == "pytest":
            assert (ROOT / words[2]).exists(), f"{words[2]} is not there"
        return
    shown = [block.text for block in blocks(ROOT / page) if block.text.startswith(f"# {words[0]} ")]
    source = shown[0] if shown else (ROOT / words[0]).read_text(encoding="utf-8")
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in source, f"{words[0]} has no option {word}"


def _check_mention(words: list[str]) -> None:
    """A command named in a sentence: the verb and its options exist; as a whole if it is one."""
    try:
        _check_hgpo(words)
    except SystemExit:  # the parser misses something: not a whole command
        parser = build_parser()
        for word in words:
            children = _children(parser)
            if word.startswith("-"):
                known = {option for action in parser._actions for option in action.option_strings}
                assert word.partition("=")[0] in known, f"{parser.prog} has no option {word}"
            elif children:
                assert word in children, f"{parser.prog} has no verb {word}"
                parser = children[word]


def _children(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _check_hgpo(words: list[str]) -> None:
    """Parse, then check what the verb would look at before it starts."""
    parser = build_parser()
    args, rest = parser.parse_known_args([word.replace("$ALFWORLD_DATA", "DATA") for word in words])
    if not take_settings(args, rest):
        raise AssertionError(f"unrecognized: {' '.join(rest)}")
    assert args.verb, "which verb?"
    with contextlib.suppress(MissingExtra):  # a world of a package that is not here: `make test-envs` has it
        CHECKS.get(args.verb, lambda _: None)(args)


def _preset_words(args: argparse.Namespace) -> None:
    words = [word for word in args.words if not PLACEHOLDER.search(word)]
    if any(PLACEHOLDER.search(word) for word in args.words[:1]):
        _some_preset(words)
        return
    if args.verb == "verl":
        words = split_words(words)[0]
    preset, settings = split_preset(words)
    load(preset or "quickstart", settings)


def _some_preset(words: list[str]) -> None:
    """Settings for a run of which the page does not say how it was trained: some preset must take them."""
    failures = []
    for preset in preset_names():
        try:
            load(preset, named_envs(words))
            return
        except HgpoError as error:
            failures.append(error)
    raise failures[0]


def _eval(args: argparse.Namespace) -> None:
    words = [word for word in args.settings if not PLACEHOLDER.search(word)]
    if args.preset and not PLACEHOLDER.search(args.preset):
        load(args.preset, named_envs(words))
    else:
        _some_preset(words)
    assert all(seed.isdigit() for seed in args.seeds.split(","))


def _environment(args: argparse.Namespace) -> None:
    if getattr(args, "action", "check") != "check" or PLACEHOLDER.search(args.name):
        return
    known = settings_of_env(args.name)
    assert known is not None or factory(args.name), f"no environment {args.name}"
    parse_all(args.settings, known, args.name)
    assert getattr(args, "policy", None) in (None, "random", "expert")


def _estimators(args: argparse.Namespace) -> None:
    column_map(args.columns)
    for one in (args.estimator or "hgpo").split(","):
        assert one in ESTIMATORS, f"no estimator {one}"
        given = parsed_settings(one, given_settings(args))
        if args.verb == "advantages":
            build(ESTIMATORS[one].settings, given, one)


def _lab(args: argparse.Namespace) -> None:
    from hgpo.cli.lab import check_options
    from hgpo.lab import entries
    from hgpo.lab.worlds import WORLDS

    check_options(args)
    entries.choose(args.estimators.split(",")) if args.estimators else None
    assert all(world in WORLDS for world in (args.worlds or "maze").split(","))
    if args.engine:
        load(None, [f"env={args.engine}", *args.settings])


def _models(args: argparse.Namespace) -> None:
    from hgpo.models.packages import MODELS

    chosen: Any = getattr(args, "name", None)
    assert chosen is None or chosen in MODELS or PLACEHOLDER.search(chosen), f"no model {chosen}"


def _verl(args: argparse.Namespace) -> None:
    if getattr(args, "words", None):
        _preset_words(args)


def _doctor(args: argparse.Namespace) -> None:
    if args.words:
        _preset_words(args)


CHECKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "train": _preset_words,
    "sft": _preset_words,
    "doctor": _doctor,
    "eval": _eval,
    "play": _environment,
    "env": _environment,
    "advantages": _estimators,
    "inspect": _estimators,
    "lab": _lab,
    "models": _models,
    "verl": _verl,
}
