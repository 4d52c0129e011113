"""What stopped people who used the command for the first time."""

from __future__ import annotations

import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.config import preset_description, preset_names
from hgpo.errors import BadFile
from hgpo.models.hub import check_hub
from hgpo.runs import evaluate, load, train

from ..worlds import FETCH, WORLD

SHORT = ["iterations=2", "rollout.keep_every=10", "eval.every=1", "eval.tasks=8"]


def test_a_run_that_is_not_there_is_no_new_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "kitchen").mkdir(parents=True)
    (tmp_path / "runs" / "kitchen" / "metrics.jsonl").write_text("")
    assert main(["train", "--resume", "runs/kichen"]) == 2
    assert "Did you mean 'runs/kitchen'? Known: runs/kitchen." in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["kitchen"]


@pytest.mark.parametrize("package", ["torch", "transformers", "safetensors"])
@pytest.mark.parametrize(
    "words",
    [["train", FETCH, "--run", "r"], ["sft", FETCH, "--out", "s"], ["eval", "some/model", "--preset", FETCH]],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, package: str, words: list[str]) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from hgpo.cli import main; sys.exit(main({words!r}))"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 2
    assert re.search(r"pip install .*\[train\]", done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_doctor_says_how_to_get_a_model_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["doctor", "quickstart", "model=models/qwen2.5-coder-1.5b-instruct"]
    assert main(words) == 1
    assert "hgpo models fetch qwen2.5-coder-1.5b-instruct." in capsys.readouterr().out
    (tmp_path / "models" / "qwen2.5-coder-1.5b-instruct").mkdir(parents=True)
    main(words)
    assert "folder models/qwen2.5-coder-1.5b-instruct" in capsys.readouterr().out


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A hub that knows `owner/there` alone, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            assert "secret" not in str(self.headers) or not self.path.startswith("/elsewhere")
            status = 200 if "/owner/there/" in self.path else 302 if "/owner/moved/" in self.path else 404
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield asked
    server.shutdown()


def test_a_model_that_is_not_there_is_noticed_first(
    hub: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hgpo.play.stage.Stage.play", lambda *_: pytest.fail("something was played"))
    for words in (["train", "--run", str(tmp_path / "run")], ["sft", "--out", str(tmp_path / "run")]):
        assert main([words[0], FETCH, "model=nothere", "warm.episodes=9", *words[1:]]) == 2
        assert "There is no model 'nothere': no folder has this name, and on the hub there is none" in (
            capsys.readouterr().err
        )
        assert not list(tmp_path.iterdir())
    assert hub == ["/nothere/resolve/main/config.json"] * 2


def test_what_the_hub_says_of_a_model(
    hub: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    check_hub("owner/there")
    check_hub("owner/moved")
    check_hub(str(tmp_path))  # a folder
    assert hub == [
        f"/owner/{name}/resolve/main/config.json" for name in ("there", "moved")
    ]  # nobody went elsewhere
    with pytest.raises(BadFile, match="nor a name that the hub could know"):
        check_hub("no model at all")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(BadFile, match="the hub cannot be reached"):
        check_hub("owner/there")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadFile, match="offline mode"):
        check_hub("owner/there")
    assert len(hub) == 2


@pytest.mark.parametrize("tracker", ["wandb=project", "tensorboard=true"])
def test_a_tracker_that_is_not_installed_is_noticed_first(
    tmp_path: Path, tracker: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tracker.partition("=")[0]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("hgpo.play.stage.Stage.play", lambda *_: pytest.fail("something was played"))
    assert main(["train", FETCH, f"track.{tracker}", "--run", str(tmp_path / "run")]) == 2
    assert f"track.{package} needs the package {package!r}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_tracker_that_does_not_start_is_noticed_before_the_warm_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wandb:
        @staticmethod
        def init(**_: object) -> None:
            raise RuntimeError("api_key not configured")

    monkeypatch.setitem(sys.modules, "wandb", Wandb)
    monkeypatch.setattr("hgpo.play.stage.Stage.play", lambda *_: pytest.fail("something was played"))
    assert main(["train", FETCH, "track.wandb=project", "--run", str(tmp_path / "run")]) == 2
    assert "track.wandb=project: W&B cannot be used (RuntimeError: api_key" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_seeds_of_a_random_policy_count(tmp_path: Path) -> None:
    found = evaluate("random", preset=FETCH, seeds=(1, 2, 3, 1), tasks=20, logs=str(tmp_path))
    played = [(tmp_path / f"output_seed{seed}.log").read_text().splitlines()[1:-1] for seed in (1, 2, 3)]
    assert played[0] != played[1] != played[2] != played[0]
    again = evaluate("random", preset=FETCH, seeds=(2,), tasks=20, logs=str(tmp_path / "again"))
    assert again["success_by_seed"]["2"] == found["success_by_seed"]["2"]
    log = (tmp_path / "again" / "output_seed2.log").read_text().splitlines()[1:-1]
    assert log == played[1]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("trian quickstart", "train"),
        ("complition bash", "completion"),
        ("train quickstart --iterations 3", "iterations=3"),
        ("train quickstart --iterations=3", "iterations=3"),
        ("train quickstart --update.lr=1", "update.lr=1"),
        ("train quickstart --learning-rate 1", ""),
        ("doctor --group-size 4", "group_size=VALUE"),
        ("eval random --temprature 1", "--temperature"),
        ("verl launch quickstart --iterations 4", "iterations=4"),
        ("verl lanch quickstart", "launch"),
        ("inspect steps.jsonl --iterations 4", ""),
    ],
)
def test_what_was_probably_meant(
    words: str, meant: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hgpo", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert (f" Did you mean {meant}? " in said) if meant else ("iterations=4" not in said)
    assert len(said.splitlines()) == 1


def test_words_of_ones_own_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n red shoes \nquit\n"))
    assert main(["play", "shop"]) == 0
    said = capsys.readouterr().out
    assert "1. search[your words]" in said
    assert "search[red shoes]" in said
    assert "[...]" not in said


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of two iterations that keeps every tenth, and what it said."""
    folder, said = tmp_path_factory.mktemp("short") / "run", io.StringIO()
    train(load(FETCH, SHORT), folder, stream=said)
    return folder, said.getvalue()


def test_a_short_run_can_be_looked_at(short: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = short
    assert [path.name.partition(".")[0] for path in (folder / "rollouts").iterdir()] == ["000002"]
    assert main(["inspect", str(folder), "--json", str(tmp_path / "report.json")]) == 0


def test_a_run_that_keeps_none_keeps_none(tmp_path: Path) -> None:
    train(load(FETCH, [*SHORT, "iterations=1", "rollout.keep_every=0"]), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "rollouts").exists()


def test_the_closing_lines_say_what_comes_next(short: tuple[Path, str]) -> None:
    folder, said = short
    closing = said[said.index("next:") :].split("\n")
    assert [line.split()[:3] for line in closing[1:4]] == [
        ["hgpo", verb, str(folder)] for verb in ("eval", "inspect", "compare")
    ]
    assert f"--allow-env {WORLD}" in closing[1]
    found = json.loads((folder / "results.json").read_text())["in-domain"]
    low, high = found["gain_points_interval_95"]
    assert -100 <= low < found["gain_points"] < high <= 100
    assert f"({found['gain_points']:+.1f} points, 95% interval {low:+.1f} to {high:+.1f})" in said
    assert (
        main([*closing[1].split()[1:], "--tasks", "2", "--seeds", "1", "--logs", str(folder / "logs")]) == 0
    )


def test_every_preset_has_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == preset_names()
    for name in preset_names():
        assert len(preset_description(name).split()) > 4
        assert preset_description(name).endswith(".")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tr", ["train"]),
        ("train quick", ["quickstart"]),
        ("train quickstart --res", ["--resume"]),
        ("verl la", ["launch"]),
        ("verl launch --gpu", ["--gpus", "--gpu-memory"]),
        ("completion ba", ["bash"]),
    ],
)
def test_the_shell_completes(typed: str, offered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    words = ["hgpo", *typed.split()]
    array = " ".join(f"'{word}'" for word in words)
    asked = f"{script}\nCOMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _hgpo; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "bashcompinit" in said if shell == "zsh" else "complete -c hgpo" in said
    assert all(verb in said for verb in ("train", "eval", "inspect", "quickstart"))
