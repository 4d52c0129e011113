"""`hgpo models push` against a stand-in of a hub's interface: what arrives there, and what does not."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hgpo.cli import main
from hgpo.digests import unsealed
from hgpo.errors import BadFile
from hgpo.models.folder import CARD, SETTINGS, write_model
from hgpo.models.push import plan
from hgpo.runs.folder import Description, RunFolder

from ..serving import Reply, Request, Server, serving

SECRET = "hf_secret_token"
CONFIG = {
    "env": {"name": "alfworld", "settings": {"data": "/home/somebody/games", "task_types": ["x"]}},
    "model": {"path": "/home/somebody/models/warm"},
    "warm": {"episodes": 0, "source": "/home/somebody/steps.jsonl"},
    "seed": 0,
}


class Hub:
    """Keeps what is committed to it, as the hub's web interface takes it."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.stored: dict[str, bytes] = {}
        self.url = ""

    def __call__(self, request: Request) -> Reply:
        path = request.path.partition("?")[0]
        if path.startswith("/store/"):
            self.stored[path.rpartition("/")[2]] = request.body
            return Reply()
        if request.headers.get("authorization") != f"Bearer {SECRET}":
            return Reply(401, b'{"error": "no"}', {"X-Error-Message": "Invalid token"})
        content: Any = json.loads(request.body) if request.body and "commit" not in path else None
        if path == "/api/whoami-v2":
            return self.answer({"name": "somebody", "type": "user", "orgs": []})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            name = f"{content.get('organization') or 'somebody'}/{content['name']}"
            self.repositories[name] = {}
            self.private[name] = bool(content.get("private") or content.get("visibility") == "private")
            return self.answer({"url": f"{self.url}/{name}", "id": "1"})
        if path.endswith("/info/lfs/objects/batch"):
            upload = {"href": f"{self.url}/store/{{}}"}
            objects = [
                {
                    "oid": o["oid"],
                    "size": o["size"],
                    "actions": {"upload": {"href": upload["href"].format(o["oid"])}},
                }
                for o in content["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects}, "application/vnd.git-lfs+json")
        name = "/".join(path.removeprefix("/api/models/").split("/")[:2])
        if name not in self.repositories:
            return Reply(
                404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            )
        files = self.repositories[name]
        if "/preupload/" in path:
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in content["files"]
            ]
            return self.answer({"files": modes})
        if "/commit/" in path:
            for line in map(json.loads, request.body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = self.stored[value["oid"]]
            return self.answer(
                {"commitUrl": f"{self.url}/{name}/commit/1", "commitOid": "1", "success": True}
            )
        if "/tree/" in path:
            return self.answer(
                [{"type": "file", "path": p, "size": len(c), "oid": "1"} for p, c in files.items()]
            )
        siblings = [{"rfilename": file} for file in files]
        return self.answer({"id": name, "modelId": name, "private": False, "siblings": siblings, "tags": []})

    def answer(self, content: Any, kind: str = "application/json") -> Reply:
        return Reply(200, json.dumps(content).encode(), {"Content-Type": kind})


def send(server: Server, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`hgpo models push` in a process of its own, with the variables that people set."""
    env = {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_TOKEN": SECRET,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "hgpo", "models", "push", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def save(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(1000))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that has ended, with things in its folders that are nobody's business."""
    folder = RunFolder(tmp_path / "runs" / "my run")
    folder.describe(Description("k2", CONFIG, {"name": "hgpo"}))
    folder.append_metrics({"iteration": 0, "success": 0.5})
    folder.write_results({"name": "k2"})
    folder.export(save, CONFIG, 3)
    (folder.model / "notes.txt").write_text("private")
    (folder.model / ".env").write_text("private")
    folder.rollouts.mkdir()
    (folder.rollouts / "000001.jsonl.gz").write_bytes(b"private")
    return folder


def test_a_model_arrives_with_its_card_and_nothing_else(run: RunFolder, tmp_path: Path) -> None:
    hub = Hub()
    with serving(hub) as server:
        hub.url = server.url
        done = send(server, tmp_path, str(run.path), "--private")
        assert done.returncode == 0, done.stderr
        assert set(hub.repositories) == {"somebody/my-run"}
        assert hub.private["somebody/my-run"]
        files = hub.repositories["somebody/my-run"]
        sent = {"model.safetensors", "config.json", "tokenizer.json", SETTINGS, CARD}
        assert set(files) == sent
        for name in sent - {SETTINGS}:
            assert files[name] == (run.model / name).read_bytes()
        for name in sent:
            assert f"  {name}  (" in done.stdout
        assert "notes.txt  stays here" in done.stdout
        for secret in (b"somebody/", b"private", SECRET.encode()):
            assert not any(secret in content for content in files.values())
        assert SECRET not in done.stdout + done.stderr
        # What evaluation needs is there, and whole.
        settings = unsealed(json.loads(files[SETTINGS]), Path(SETTINGS))
        assert settings["config"]["env"] == {"name": "alfworld", "settings": {"task_types": ["x"]}}
        assert settings["config"]["model"]["path"] == "warm"
        assert settings["files"]["model.safetensors"] == hashlib.sha256(bytes(1000)).hexdigest()
        # Again, to a repository that is ours: with the records that were asked for.
        again = send(server, tmp_path, str(run.path), "--to", "somebody/my-run", "--records")
        assert again.returncode == 0, again.stderr
        assert set(files) == {*sent, "run/metrics.jsonl", "run/results.json"}


def test_a_dry_run_asks_nobody(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "push", str(run.path), "--dry-run", "--records"]) == 0
    shown = capsys.readouterr().out
    for name in ("model.safetensors", CARD, "run/metrics.jsonl", "nothing was sent"):
        assert name in shown


def test_other_peoples_repositories_stay_as_they_are(run: RunFolder, tmp_path: Path) -> None:
    hub = Hub()
    hub.repositories["org/theirs"] = {"weights.bin": b"x"}
    with serving(hub) as server:
        hub.url = server.url
        done = send(server, tmp_path, str(run.path), "--to", "org/theirs")
    assert done.returncode == 2
    assert "holds something else" in done.stderr
    assert hub.repositories["org/theirs"] == {"weights.bin": b"x"}


def test_a_refusal_is_one_sentence(run: RunFolder, tmp_path: Path) -> None:
    with serving(lambda _: Reply(403, b"{}", {"X-Error-Message": "You may not"})) as server:
        done = send(server, tmp_path, str(run.path), "--to", "org/name")
    assert done.returncode == 2
    assert "refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert SECRET not in done.stderr


def test_an_answer_that_makes_no_sense_is_one_sentence(run: RunFolder, tmp_path: Path) -> None:
    with serving(lambda _: Reply(200, b"[1]", {"Content-Type": "application/json"})) as server:
        done = send(server, tmp_path, str(run.path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_without_a_token_nothing_is_asked(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert main(["models", "push", str(run.path), "--to", "org/name"]) == 2
    assert "HF_TOKEN" in capsys.readouterr().err


def test_a_run_of_an_earlier_version_gets_its_card(run: RunFolder) -> None:
    (run.model / CARD).unlink()
    uploads = {upload.name: upload for upload in plan(run.model, card="a card").uploads}
    assert uploads[CARD].content == b"a card"


@pytest.mark.parametrize("words", [["nowhere"], ["--to", "org"], ["--to", "../../x"], ["--to", "a/b/c"]])
def test_what_cannot_be_pushed(run: RunFolder, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = words if words[0] == "nowhere" else [str(run.path), *words]
    assert main(["models", "push", *given, "--dry-run"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_damaged_models_links_and_adapters_stay_here(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("private")
    (run.model / CARD).unlink()
    (run.model / CARD).symlink_to(tmp_path / "secret")
    with pytest.raises(BadFile, match="not a regular file"):
        plan(run.model)
    (run.model / CARD).unlink()
    (run.model / "config.json").write_text('{"other": 1}')
    with pytest.raises(BadFile, match="not the file that was written"):
        plan(run.model)
    write_model(tmp_path / "adapters", lambda folder: (folder / "adapter_config.json").touch(), CONFIG)
    with pytest.raises(BadFile, match="adapters alone"):
        plan(tmp_path / "adapters")
    write_model(tmp_path / "empty", lambda folder: (folder / "config.json").touch(), CONFIG)
    with pytest.raises(BadFile, match="no weights"):
        plan(tmp_path / "empty")
    outside = {"config": CONFIG, "files": {"../../secret": hashlib.sha256(b"private").hexdigest()}}
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / SETTINGS).write_text(json.dumps(outside))
    with pytest.raises(BadFile, match="not a file of the model's folder"):
        plan(tmp_path / "a" / "b")
