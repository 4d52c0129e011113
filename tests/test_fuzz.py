"""Bad settings, damaged files and folders, wrong environments and servers: a sentence or the undamaged result.

Seeded and bounded, so that every run tries the same cases. No case may end in another exception than an `HgpoError`,
in a result that silently differs from the undamaged one, or with a file less than before. The page
docs/reliability.md says how many cases there are of each kind.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

from hgpo import HgpoError, StepBatch, estimate
from hgpo.cli import main
from hgpo.config import Config, as_dict, build, load
from hgpo.errors import EndpointFailed
from hgpo.estimators.table import ESTIMATORS
from hgpo.play import Collection, Environments, Job, Limits, Stage, WindowMemory, style
from hgpo.play.policy import Request
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.settings import Setting

from .conftest import ROOT
from .envs.wrong_env import ANYWHERE, LISTS, MODE
from .fuzzing import (
    COMMANDS,
    DAMAGES,
    FOLDER_COMMANDS,
    RUN_FILES,
    STEP_FILES,
    STEP_VALUES,
    VALUES,
    WORDS,
    Broken,
    StepFile,
    StepValue,
    content_of,
    fields,
    replies,
    reply,
)
from .worlds import FETCH, Expert

FIELDS = list(fields())
REPLIES = replies()

FAULTS = [
    *(("made", fault, False) for fault in ANYWHERE if fault.startswith("raises")),
    *(("reset", fault, False) for fault in ANYWHERE),
    *(("step", fault, False) for fault in MODE),
    *((where, "exit", False) for where in ("made", "reset", "step")),
    *(("tasks", fault, False) for fault in (*LISTS, "raises", "exit")),
    *(("step", fault, True) for fault in ("reward-nan", "info-object", "raises-failed", "exit", "hang")),
    *(("reset", fault, True) for fault in ("text-surrogate", "recursion", "raises-own", "exit")),
    *(("tasks", fault, True) for fault in ("mixed", "hang")),
]
"""Where an environment goes wrong, how, and whether in a process of its own."""
COUNTS = {
    "settings as words": len(FIELDS) * len(WORDS),
    "settings from a program": len(FIELDS) * len(VALUES),
    "step files": len(STEP_FILES),
    "values of step files": len(STEP_VALUES),
    "step files given to the command": len(COMMANDS),
    "run folders": len(RUN_FILES) * len(DAMAGES) * len(FOLDER_COMMANDS),
    "environments": len(FAULTS),
    "replies of a server": len(REPLIES),
}
"""How many cases there are of each kind."""

Outcome = Callable[[], Any]


def a_sentence(error: HgpoError) -> bool:
    """Whether the message can stand alone on a terminal."""
    said = str(error).strip()
    return len(said.split()) > 2 and "Traceback" not in said


def problem_of(case: str, act: Outcome) -> list[str]:
    """What is wrong with one case: any exception but a sentence of ours."""
    try:
        act()
    except HgpoError as error:
        return [] if a_sentence(error) else [f"{case}: no sentence: {str(error)[:200]!r}"]
    except Exception as error:
        return [f"{case}: {type(error).__name__}: {str(error)[:200]}"]
    return []


def assert_none(problems: list[str], cases: int) -> None:
    shown = "\n".join(problems[:40])
    assert not problems, f"{len(problems)} of {cases} cases went wrong:\n{shown}"


def test_the_page_says_how_many_cases_there_are() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z][^|]*?) +\| +([\d,]+) \|", page, flags=re.MULTILINE)
    assert {kind: int(number.replace(",", "")) for kind, number in rows} == COUNTS


# Settings


def legal(value: Any, one: Setting) -> bool:
    """Whether a value that was taken is one of the setting's type, finite and inside its bounds."""
    if isinstance(value, (tuple, list)):
        return all(legal(item, one) for item in value)
    if isinstance(value, bool) or value is None or isinstance(value, dict):
        return True
    if isinstance(value, (int, float)):
        return (
            (isinstance(value, int) or math.isfinite(value))
            and (one.low is None or value >= one.low)
            and (one.high is None or value <= one.high)
            and (one.above is None or value > one.above)
            and (one.below is None or value < one.below)
        )
    if isinstance(value, str):
        return not one.names() or value in one.names()
    return False


def of_its_type(value: Any, kind: Any) -> bool:
    """Whether a value is what the annotation of its field says."""
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(of_its_type(item, get_args(kind)[0]) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict)
    if get_args(kind):
        return any(of_its_type(value, one) for one in get_args(kind))
    return type(value) is kind


def check_config(config: Config, path: tuple[str, ...], one: Setting) -> None:
    value: Any = config
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    assert of_its_type(value, one.kind), f"{value!r} is no {one.kind}"
    if len(path) > 1 or not hasattr(value, "__dataclass_fields__"):
        assert legal(value, one), f"{value!r} is outside {one.expected()}"
    again = build(json.loads(json.dumps(as_dict(config), allow_nan=False)))
    assert again == config, "the stored settings are read back as others"


@pytest.mark.slow
def test_settings_as_words() -> None:
    problems = []
    for estimator, path, one in FIELDS:
        key = ".".join(name for name in path if name != "settings" or not estimator)
        for text in WORDS:
            words = [*([f"estimator={estimator}"] if estimator else []), f"{key}={text}"]
            case = f"{' '.join(words)[:80]!r}"
            problems += problem_of(
                case, lambda words=words, path=path, one=one: check_config(load(None, words), path, one)
            )
    assert_none(problems, COUNTS["settings as words"])


@pytest.mark.slow
def test_settings_from_a_program() -> None:
    problems = []
    for estimator, path, one in FIELDS:
        for value in VALUES:
            tree: dict[str, Any] = {"estimator": {"name": estimator}} if estimator else {}
            inner = tree
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = value
            case = f"{estimator} {'.'.join(path)}={str(value)[:40]!r}"
            problems += problem_of(
                case, lambda tree=tree, path=path, one=one: check_config(build(tree), path, one)
            )
    assert_none(problems, COUNTS["settings from a program"])


# Files of steps


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example of the documentation in every format."""
    folder = tmp_path_factory.mktemp("kitchen")
    source = ROOT / "docs" / "examples" / "kitchen.jsonl"
    files = {kind: folder / f"kitchen.{kind}" for kind in ("jsonl", "jsonl.gz", "parquet")}
    shutil.copyfile(source, files["jsonl"])
    files["jsonl.gz"].write_bytes(gzip.compress(source.read_bytes(), mtime=0))
    StepBatch.read(source).write(files["parquet"])
    return files


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_step_files(kind: str, kitchen: dict[str, Path], tmp_path: Path) -> None:
    whole = StepBatch.read(kitchen[kind])
    content, names = kitchen[kind].read_bytes(), sorted(ESTIMATORS)
    path = tmp_path / f"damaged.{kind}"

    def check(case: StepFile) -> None:
        path.write_bytes(case.damaged(content))
        batch = StepBatch.read(path)
        name = names[case.number % len(names)]
        result = estimate(batch, name)
        assert len(result.advantages) == len(batch)
        assert np.isfinite(result.advantages).all(), "an advantage that is not finite"
        if kind != "jsonl":  # these have a checksum, so what is read is what was written
            assert list(batch.rows()) == list(whole.rows()), "read as other steps"
            assert result.advantages.tolist() == estimate(whole, name).advantages.tolist()

    cases = [case for case in STEP_FILES if case.kind == kind]
    assert_none(
        [
            problem
            for case in cases
            for problem in problem_of(f"{kind} {case.number}", lambda case=case: check(case))
        ],
        len(cases),
    )


def test_values_of_step_files(kitchen: dict[str, Path], tmp_path: Path) -> None:
    rows, names, path = (
        list(StepBatch.read(kitchen["jsonl"]).rows())[:12],
        sorted(ESTIMATORS),
        tmp_path / "v.jsonl",
    )

    def check(number: int, case: StepValue) -> None:
        path.write_bytes(case.damaged(rows))
        result = estimate(StepBatch.read(path), names[number % len(names)])
        assert np.isfinite(result.advantages).all(), "an advantage that is not finite"

    problems = [
        problem
        for number, case in enumerate(STEP_VALUES)
        for problem in problem_of(f"{case}"[:120], functools.partial(check, number, case))
    ]
    assert_none(problems, len(STEP_VALUES))


@pytest.mark.slow
@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: f"{case.kind}-{case.number}")
def test_step_files_given_to_the_command(case: StepFile, kitchen: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / f"damaged.{case.kind}"
    path.write_bytes(case.damaged(kitchen[case.kind].read_bytes()))
    before = content_of(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "hgpo", "advantages", str(path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert ran.returncode in (0, 2)
    assert "Traceback" not in ran.stderr
    assert (len(ran.stderr.strip().splitlines()) == 1) == (ran.returncode == 2)
    assert content_of(tmp_path) == before


# Folders of runs


# Every checkpoint is kept, so that the files are the same wherever the best one is.
SETTINGS = [
    "iterations=2",
    "save_every=2",
    "keep=9",
    "eval.tasks=2",
    "warm.episodes=20",
    "rollout.tasks=2",
    "rollout.group_size=3",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of two iterations that differ in their seed alone."""
    from hgpo.runs import train

    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("one", "two")):
        words = [*SETTINGS, f"seed={seed}"]
        train(load(FETCH, words), folder / name, quiet=True)
    return folder / "one", folder / "two"


def command(verb: str, run: Path, out: Path) -> list[str]:
    # The world is code, so it is named again: a folder alone may not choose it.
    if verb == "resume":
        return ["train", "--resume", str(run), "iterations=3", "env=tests.worlds:Fetch", "--quiet"]
    if verb == "eval":
        words = [str(run), "env=tests.worlds:Fetch", "--tasks", "1", "--seeds", "1", "--logs", str(out)]
        return ["eval", *words]
    return ["compare", str(run), "--out", str(out)]


def outcome(verb: str, run: Path, out: Path) -> Any:
    """What a command that succeeded has to say, without times and places."""
    if verb == "resume":
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        newest = run / "checkpoints" / "000003"
        return (
            [row["success"] for row in rows],
            (newest / "trainer.safetensors").read_bytes(),
            (run / "model" / "model.safetensors").read_bytes(),
        )
    if verb == "eval":
        # The first line is the identity of the evaluation, to which the model's place belongs.
        return (out / "output_seed1.log").read_text().splitlines()[1:]
    return (out / "comparison.json").read_text().replace(str(run), "RUN")


@pytest.mark.slow
@pytest.mark.parametrize("verb", FOLDER_COMMANDS)
def test_run_folders(
    verb: str,
    runs: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Drawing is slow, and nothing is read from pictures.
    monkeypatch.setattr("hgpo.runs.curves.write_png", lambda *_: False)
    monkeypatch.setattr("hgpo.runs.reporting.draw_run", lambda *_: False)
    assert set(content_of(runs[0])) == set(RUN_FILES)
    whole = Path(shutil.copytree(runs[0], tmp_path / "whole"))
    assert main(command(verb, whole, tmp_path / "whole-out")) == 0
    expected = outcome(verb, whole, tmp_path / "whole-out")
    capsys.readouterr()
    problems, refused = [], 0
    run, out = tmp_path / "run", tmp_path / "out"
    for name in RUN_FILES:
        for damage in DAMAGES:
            shutil.rmtree(run, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(runs[0], run)
            damage(run / name, runs[1] / name)
            before = content_of(run)
            case = f"{verb} with {name}: {damage.__name__}"
            try:
                status = main(command(verb, run, out))
            except Exception as error:
                problems.append(f"{case}: {type(error).__name__}: {error}")
                continue
            said = capsys.readouterr().err
            if "Traceback" in said or status not in (0, 2):
                problems.append(f"{case}: status {status}: {said[-300:]}")
            elif status == 2:
                refused += 1
                sentences = [line for line in said.splitlines() if line.startswith("hgpo ")]
                if len(sentences) != 1:
                    problems.append(f"{case}: said {said!r}")
                after = content_of(run)
                changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
                if changed:
                    problems.append(f"{case}: refused, but changed {changed}")
            else:
                if outcome(verb, run, out) != expected:
                    problems.append(f"{case}: another result, without a word")
                lost = set(before) - set(content_of(run)) - superseded(before, whole)
                if lost:
                    problems.append(f"{case}: lost {sorted(lost)}")
    assert_none(problems, COUNTS["run folders"] // len(FOLDER_COMMANDS))
    assert refused, "nothing was refused: the cases do not reach the folder"


def superseded(before: dict[str, bytes], whole: Path) -> set[str]:
    """Old checkpoints that the undamaged run does not keep either."""
    return set(before) - set(content_of(whole))


# Environments


def play(where: str, fault: str, supervised: bool, **limits: float) -> tuple[list[Any], Collection]:
    """Four tasks, two rollouts each, of a world that goes wrong on one of them."""
    struck = {} if where in ("made", "tasks") else {"on": "fetch-2"}
    environments = Environments(
        "tests.envs.wrong_env:Wrong",
        {"fault": fault, "where": where, **struck},
        supervised=supervised,
        attempts=2,
        workers=2 if supervised else 0,
        **limits,
    )
    compact = style("compact")
    stage = Stage(environments, style=compact, limits=Limits(6, 100), memory=lambda: WindowMemory(1))
    try:
        tasks = stage.tasks("train")
        jobs = [Job(task, task, index, index) for task in tasks for index in range(2)]
        found = stage.play(ScriptedPolicy(Expert, compact), jobs)
    finally:
        stage.close()
    return [(one.group, one.success, [step.action for step in one.steps]) for one in found.episodes], found


@pytest.mark.slow
def test_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    healthy, _ = play("nowhere", "", False)
    others = [episode for episode in healthy if episode[0] != "fetch-2"]
    assert len(others) == 6

    def check(where: str, fault: str, supervised: bool) -> None:
        limits = {"step_timeout": 2.0, "reset_timeout": 20.0} if fault == "hang" else {}
        if (where, fault) == ("tasks", "hang"):
            limits["reset_timeout"] = 5.0
        episodes, found = play(where, fault, supervised, **limits)
        assert found.dropped == ("fetch-2",), found.dropped
        assert episodes == others, "the other tasks were played differently"
        assert found.failures >= 2, "not counted"
        assert "tests.envs.wrong_env:Wrong" in found.causes[0]
        assert "'fetch-2'" in found.causes[0]
        assert len(found.causes[0]) < 1000

    problems = []
    for where, fault, supervised in FAULTS:
        case = f"{where} {fault}{' in a process' if supervised else ''}"
        problems += problem_of(case, lambda case=(where, fault, supervised): check(*case))
    assert_none(problems, len(FAULTS))


# Replies of a server


class Replies(socketserver.ThreadingTCPServer):
    """Answers the first request for the model `N` with the wrong reply N, later ones as that reply says."""

    daemon_threads, allow_reuse_address = True, True
    request_queue_size = 64
    asked: dict[int, int]


class Answer(socketserver.StreamRequestHandler):
    server: Replies

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        number = int(json.loads(self.rfile.read(length))["model"])
        self.server.asked[number] = self.server.asked.get(number, 0) + 1
        broken = REPLIES[number]
        self.wfile.write(reply() if broken.again and self.server.asked[number] > 1 else broken.wire)


@pytest.fixture
def server() -> Iterator[Replies]:
    with Replies(("127.0.0.1", 0), Answer) as one:
        one.asked = {}
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


def ask(number: int, broken: Broken, port: int, asked: dict[int, int]) -> list[str]:
    from hgpo.policies.endpoint import EndpointEngine

    def act() -> None:
        engine = EndpointEngine(
            f"http://127.0.0.1:{port}/v1",
            str(number),
            key="secret-key",
            attempts=2,
            timeout=10.0,
            patience=20.0,
        )
        try:
            found, tokens = engine.ask(Request("where is the egg?", (), 1, "e", 0, ""), 0.4)
        except EndpointFailed as error:
            if "secret-key" in str(error):
                raise AssertionError("the key was said") from error
            raise
        finally:
            engine.close()
        assert isinstance(found.text, str)
        found.text.encode()
        assert tokens.prompt_tokens >= 0
        if broken.again and asked[number] > 1:
            assert found.text == "go to fridge"

    return problem_of(f"reply {number} {broken.wire[:300]!r}", act)


@pytest.mark.slow
def test_replies_of_a_server(server: Replies) -> None:
    port = server.server_address[1]
    with ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda pair: ask(pair[0], pair[1], port, server.asked), enumerate(REPLIES))
        assert_none([problem for problems in found for problem in problems], len(REPLIES))
    assert set(server.asked) == set(range(len(REPLIES))), "every reply was asked for"
    assert max(server.asked.values()) == 2, "some were asked for again"
