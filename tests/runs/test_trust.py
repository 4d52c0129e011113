"""Folders are data: what they name is never run unless the person at the command line names it too."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hgpo.cli import main
from hgpo.config import as_dict
from hgpo.config.stored import named_env, read_stored
from hgpo.envs import TextEnv
from hgpo.envs.registry import factory, make
from hgpo.errors import BadFile, BadSetting, UntrustedCode
from hgpo.models.lora import base_of
from hgpo.runs import evaluate, load, train
from hgpo.runs.folder import RunFolder

from ..worlds import FETCH, WORLD, Fetch


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest run in a world of the user's own."""
    folder = tmp_path_factory.mktemp("trust") / "run"
    train(load(FETCH, ["iterations=1", "eval.every=1"]), folder, quiet=True)
    return folder


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that are imported by name from now on."""
    names: list[str] = []
    real = importlib.import_module

    def recorded(name: str, package: str | None = None) -> Any:
        names.append(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", recorded)
    return names


def poisoned(run: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of the run in which every file of settings is changed, by somebody who leaves no digest that tells."""
    shutil.copytree(run, target)
    for path in [target / "config.json", *target.rglob("hgpo.json")]:
        content = unsealed(path)
        change(content["config"])
        path.write_text(json.dumps(content))
    for path in target.rglob("state.json"):
        path.write_text(json.dumps(unsealed(path)))
    return target


def unsealed(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    return {key: value for key, value in content.items() if key not in ("digest", "files", "seal")}


def shell(path: Path) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        config["env"] = {"name": "os:system", "settings": {"command": f"touch {path}"}}

    return change


COMMANDS = [
    ["eval", "RUN"],
    ["eval", "RUN/model"],
    ["eval", "RUN", "env.tasks=3"],
    ["train", "--resume", "RUN"],
    ["train", "--resume", "RUN", "iterations=2"],
    ["train", "--resume", "RUN", "env.tasks=3"],
    ["train", "--resume", "RUN", "--show"],
    ["train", "quickstart", "--resume", "RUN"],
    ["verl", "launch", "--resume", "--run", "RUN", "--print"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_folder_runs_no_command(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    mark = tmp_path / "mark"
    bad = poisoned(run, tmp_path / "bad", shell(mark))
    given = [word.replace("RUN", str(bad)) for word in words]
    assert main(given) == 2
    said = capsys.readouterr().err
    assert "asks to run code: env=os:system" in said
    assert "--allow-env os:system" in said
    # Not even when it is allowed: it is no environment.
    assert main([*given, "--allow-env", "os:system"]) in (
        (0, 2) if "--print" in words or "--show" in words else (2,)
    )
    assert not mark.exists()


@pytest.mark.parametrize("words", [["inspect", "RUN"], ["compare", "RUN", "--out", "OUT"]], ids=" ".join)
def test_what_plays_nothing_imports_nothing(
    run: Path, tmp_path: Path, imported: list[str], words: list[str]
) -> None:
    mark = tmp_path / "mark"
    bad = poisoned(run, tmp_path / "bad", shell(mark))
    main([word.replace("RUN", str(bad)).replace("OUT", str(tmp_path / "out")) for word in words])
    assert not mark.exists()
    assert "os" not in imported


def test_a_refused_address_is_not_even_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lurking.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\nclass Env: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for number, name in enumerate(["lurking:Env", f"{tmp_path}/lurking.py:Env"]):
        bad = poisoned(
            run, tmp_path / f"bad{number}", lambda config, name=name: config["env"].update(name=name)
        )
        with pytest.raises(UntrustedCode):
            evaluate(str(bad), overrides=["env.tasks=2"])
        with pytest.raises(UntrustedCode):
            train(None, bad, resume=True, quiet=True)
        with pytest.raises(BadSetting, match="env cannot be changed"):
            train(load(FETCH, ["iterations=1", "eval.every=1"]), bad, resume=True, quiet=True)
        assert not (tmp_path / "mark").exists()
        assert "lurking" not in sys.modules


@pytest.mark.parametrize(
    ("env", "word"),
    [
        (
            {"name": "alfworld", "settings": {"engine": "official", "data": ".", "python": "SCRIPT"}},
            "env.python",
        ),
        ({"name": "shop", "settings": {"tagger": "SCRIPT"}}, "env.tagger"),
        ({"name": "gym", "settings": {"id": "SCRIPT:World-v0"}}, "env.id"),
        (
            {"name": "gym", "settings": {"id": "GymV26Environment-v0", "options": {"env_id": "SCRIPT:X-v0"}}},
            "env.id",
        ),
        ({"name": "babyai", "settings": {"level": "x:SCRIPT-v0"}}, "env.level"),
        ({"name": "webshop", "settings": {"data": ".", "tagger": "spacy/SCRIPT"}}, "env.tagger"),
    ],
)
def test_settings_that_name_programs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], env: dict[str, Any], word: str
) -> None:
    script, mark = tmp_path / "program", tmp_path / "mark"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    named = json.loads(json.dumps(env).replace("SCRIPT", str(script)))
    bad = poisoned(run, tmp_path / "bad", lambda config: config.update(env=named))
    assert main(["train", "--resume", str(bad)]) == 2
    assert f"asks to run code: {word}=" in capsys.readouterr().err
    assert main(["eval", str(bad)]) == 2
    assert not mark.exists()
    # Said at the command line it is the user's own wish, and so is another environment.
    stored = as_dict(load("quickstart")) | {"env": named}
    value = named["settings"][word.partition(".")[2]]
    assert read_stored(stored, bad, [f"{word}={value}"]).env.settings == named["settings"]
    assert read_stored(stored, bad, ["env=household"]).env.settings == {}
    with pytest.raises(UntrustedCode, match=word):
        read_stored(stored, bad, [f"env={named['name']}"])


@pytest.mark.parametrize(
    "stored",
    [
        {"env": "os:system"},
        {"env": {"name": "os:system"}, "env.settings": {"command": "true"}},
        {"env.name": "os:system"},
        {"env": {"name": "os:system", "settings": 3}},
    ],
)
def test_however_it_is_written(tmp_path: Path, stored: dict[str, Any]) -> None:
    with pytest.raises(UntrustedCode):
        read_stored(stored, tmp_path)


@pytest.mark.parametrize("name", [3, None, ["os:system"], {"a": "os:system"}, True])
def test_a_name_that_is_no_text(tmp_path: Path, name: Any) -> None:
    with pytest.raises(BadSetting, match=r"env\.name"):
        read_stored({"env": {"name": name}}, tmp_path)


def test_kernels_of_the_hub_are_code_too(tmp_path: Path) -> None:
    stored = as_dict(load("quickstart"))
    stored["model"]["attention"] = "somebody/kernels"
    with pytest.raises(UntrustedCode, match=r"model\.attention=somebody/kernels"):
        read_stored(stored, tmp_path)
    assert read_stored(stored, tmp_path, ["model.attention=sdpa"]).model.attention == "sdpa"


def test_ones_own_run_goes_on_and_is_evaluated(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the flag, with the environment named again, or with the preset that names it."""
    for number, words in enumerate(
        [["--allow-env", WORLD], [f"env={WORLD}"], [f"env.name='{WORLD}'"]], start=1
    ):
        mine = shutil.copytree(run, tmp_path / f"mine{number}")
        assert main(["train", "--resume", str(mine), "iterations=2", "--quiet", *words]) == 0
        assert RunFolder(mine).checkpoints()[-1].iteration == 2
        assert main(["eval", str(mine), "--seeds", "1", "--logs", str(tmp_path / "logs"), *words]) == 0
    mine = shutil.copytree(run, tmp_path / "preset")
    assert main(["train", FETCH, "eval.every=1", "--resume", str(mine), "iterations=2", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["eval", str(run), "--seeds", "1", "--allow-env", "tests.worlds:Flaky"]) == 2
    assert f"--allow-env {WORLD}" in capsys.readouterr().err
    # What a run says about going on works as it stands.
    shutil.rmtree(mine)
    assert main(["train", FETCH, "iterations=1", "--max-minutes", "0", "--run", str(mine)]) == 0
    said = next(line for line in capsys.readouterr().err.splitlines() if "continue with: hgpo " in line)
    assert main([*said.partition("continue with: hgpo ")[2].split(), "--quiet"]) == 0


def test_what_a_person_names(tmp_path: Path) -> None:
    assert named_env(None) == ()
    assert named_env(None, ["env=a:B", "seed=1"]) == ("a:B",)
    assert named_env(FETCH) == (WORLD,)


def makes(tasks: int = 3) -> TextEnv:
    """A function that says what it makes."""
    env: TextEnv = Fetch(tasks)
    return env


def makes_fetch() -> Fetch:
    """The same with the class itself."""
    return Fetch()


def unsaid(tasks: int = 3):  # type: ignore[no-untyped-def]
    """A function that does not say what it makes."""
    raise AssertionError("called")


def liar() -> TextEnv:
    """A function that makes something else."""
    return 3  # type: ignore[return-value]


instance = Fetch()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("os:system", "is no environment"),
        ("subprocess:Popen", "is no environment"),
        ("builtins:exec", "is no environment"),
        ("hgpo.envs:TextEnv", "is no environment"),
        (f"{__name__}:unsaid", "is no environment"),
        (f"{__name__}:instance", "is no environment"),
        (f"{__name__}:nothing", "AttributeError"),
        ("no_such_module:Env", "cannot be loaded"),
        ("no/such/file.py:Env", "cannot be loaded"),
        (":", "cannot be loaded"),
        ("os:", "cannot be loaded"),
    ],
)
def test_only_environments_are_called(name: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        factory(name)
    assert main(["play", name]) == 2


def test_addresses_of_environments(tmp_path: Path) -> None:
    assert make(f"{__name__}:makes", tasks=2).tasks("train") == ["fetch-0", "fetch-1"]
    assert isinstance(make(f"{__name__}:makes_fetch"), Fetch)
    with pytest.raises(BadSetting, match="made a int"):
        make(f"{__name__}:liar")
    (tmp_path / "mine.py").write_text("from tests.worlds import Fetch\nclass Mine(Fetch): pass\n")
    assert type(make(f"{tmp_path}/mine.py:Mine", tasks=1)).__name__ == "Mine"
    (tmp_path / "broken.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(BadSetting, match="SystemExit"):
        make(f"{tmp_path}/broken.py:Mine")


def test_adapters_name_no_module(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").touch()
    for content, reason in [
        (json.dumps({"megatron_config": {"x": 1}, "megatron_core": "lurking"}), "Megatron"),
        ("[]", "expected the settings of adapters"),
        ("{", "cannot be read"),
    ]:
        (tmp_path / "adapter_config.json").write_text(content)
        with pytest.raises(BadFile, match=reason):
            base_of(tmp_path)


def test_models_bring_no_code(run: Path, tmp_path: Path) -> None:
    """`auto_map` of a model's or tokenizer's settings is ignored, and pickled weights are not read."""
    bad, mark = tmp_path / "bad", tmp_path / "mark"
    shutil.copytree(run / "model", bad)
    (bad / "hgpo.json").write_text(json.dumps(unsealed(bad / "hgpo.json")))
    (bad / "lurking.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    for name, classes in {
        "config.json": {"AutoConfig": "lurking.Config", "AutoModelForCausalLM": "lurking.Model"},
        "tokenizer_config.json": {"AutoTokenizer": ["lurking.Slow", "lurking.Fast"]},
    }.items():
        content = json.loads((bad / name).read_text())
        (bad / name).write_text(json.dumps({**content, "auto_map": classes}))
    assert main(["eval", str(bad), "--seeds", "1", "--allow-env", WORLD, "--logs", str(tmp_path / "l")]) in (
        0,
        2,
    )
    assert not mark.exists()
    (bad / "model.safetensors").rename(bad / "pytorch_model.bin")
    assert main(["eval", str(bad), "--seeds", "1", "--allow-env", WORLD, "--logs", str(tmp_path / "l")]) == 2
