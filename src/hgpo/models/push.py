"""Putting a model on a hub: its files, its card and the records that were asked for, and nothing else.

The hub, its address and the token are those of `huggingface_hub` (`HF_ENDPOINT`, `HF_TOKEN`, `hf auth login`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..digests import DIGEST, sealed, unsealed
from ..errors import BadFile, BadSetting
from ..files import read_json
from .card import shown_name
from .folder import CARD, SETTINGS, check_model, model_settings

WEIGHTS = (".safetensors", ".safetensors.index.json")
# Of folders that were written before digests: what transformers writes.
KNOWN = re.compile(
    r"(?:[\w.-]+\.safetensors(?:\.index\.json)?|config\.json|generation_config\.json|tokenizer[\w.]*|vocab\.(?:json|txt)"
    r"|merges\.txt|special_tokens_map\.json|added_tokens\.json|chat_template\.(?:jinja|json))"
)
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
PRIVATE_SETTINGS = ("data", "python", "store")
"""Settings of an environment that say how this machine is laid out."""


@dataclass(frozen=True)
class Upload:
    """A file that goes to the hub."""

    name: str
    """Its path in the repository."""
    source: Path
    content: bytes | None = None
    """What is sent, where that is not the file itself."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.source.stat().st_size if self.content is None else len(self.content)


@dataclass(frozen=True)
class Plan:
    """What goes to the hub and what stays."""

    uploads: Sequence[Upload]
    stays: Sequence[str]
    """Files of the model's folder that are not sent."""


def plan(model: Path, records: Iterable[Path] = (), card: str = "") -> Plan:
    """What a push of a model's folder sends.

    The files that `hgpo.json` lists, each compared with its digest; `hgpo.json` itself without the paths of this
    machine; the card in the folder, or else the text `card`; and `records`, under `run/`.

    Raises:
        BadFile: the folder holds no whole model, or something that is not a regular file.
    """
    if not model.is_dir():
        raise BadFile(f"There is no model in {model}. Give a run that has ended, or a model's folder.")
    if (model / "adapter_config.json").exists():
        raise BadFile(
            f"{model} holds adapters alone, whose base others do not have. Push the model that the run exports."
        )
    check_model(model)
    listed = _listed(model)
    if not any(name.endswith(WEIGHTS) for name in listed):
        raise BadFile(f"There are no weights in {model} (no .safetensors file). Give a model's folder.")
    uploads = [Upload(name, model / name) for name in listed]
    if (model / SETTINGS).is_file():
        uploads.append(Upload(SETTINGS, model / SETTINGS, public_settings(model)))
    if (model / CARD).is_file():
        uploads.append(Upload(CARD, model / CARD))
    elif card:
        uploads.append(Upload(CARD, model / SETTINGS, card.encode("utf-8", "backslashreplace")))
    uploads += [Upload(f"run/{path.name}", path) for path in records]
    for upload in uploads:
        if upload.source.is_symlink() or not upload.source.is_file():
            raise BadFile(
                f"{upload.source} is not a regular file. Put the file itself there, or take it away."
            )
    sent = {upload.name for upload in uploads}
    names = sorted(path.relative_to(model).as_posix() for path in model.rglob("*") if not path.is_dir())
    return Plan(uploads, [name for name in names if name not in sent])


def _listed(model: Path) -> list[str]:
    """The files that make up the model, by `hgpo.json` or, where that does not say, by name."""
    content = read_json(model / SETTINGS, "the settings of a model") if (model / SETTINGS).is_file() else {}
    files = content.get("files")
    if isinstance(files, dict):
        for name in files:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise BadFile(
                    f"{model / SETTINGS} lists {name!r}, which is not a file of the model's folder."
                )
        return sorted(name for name in files if name != CARD)
    return sorted(path.name for path in model.iterdir() if KNOWN.fullmatch(path.name))


def public_settings(model: Path) -> bytes:
    """`hgpo.json` without the paths of this machine: models by their names, no places of data."""
    path = model / SETTINGS
    content = read_json(path, "the settings of a model")
    rest = unsealed(content, path)
    config = json.loads(json.dumps(model_settings(model) or {}))
    source = config.get("model", {}).get("path")
    if isinstance(source, str):
        config["model"]["path"] = shown_name(source)
    settings = config.get("env", {}).get("settings")
    if isinstance(settings, dict):
        config["env"]["settings"] = {
            key: value for key, value in settings.items() if key not in PRIVATE_SETTINGS
        }
    if isinstance(config.get("warm", {}).get("source"), str):
        config["warm"]["source"] = Path(config["warm"]["source"]).name
    public = {**rest, "config": config}
    return (json.dumps(sealed(public) if DIGEST in content else public, indent=1) + "\n").encode()


def check_repository(name: str) -> None:
    """Refuse what cannot name a repository.

    Raises:
        BadSetting: expected `owner/name`.
    """
    if not REPOSITORY.fullmatch(name):
        raise BadSetting(f"--to {name!r} was given; expected a repository as the hub names it: owner/name.")


def default_repository(name: str) -> str:
    """`owner/name` for the owner of the token.

    Raises:
        BadFile: there is no token, or the hub does not know it.
    """
    owner = _asked(lambda hub: hub.whoami()["name"])
    clean = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.") or "model"
    return f"{owner}/{clean}"


def push(uploads: Sequence[Upload], repository: str, *, private: bool) -> str:
    """Make the repository if needed and commit the files to it in one step; returns its address.

    Raises:
        BadFile: the hub refuses, or the repository holds something else than a model of ours.
    """

    def send(hub: Any) -> str:
        from huggingface_hub import CommitOperationAdd

        if hub.repo_exists(repository):
            present = set(hub.list_repo_files(repository))
            if present - {".gitattributes", CARD} and SETTINGS not in present:
                raise BadFile(
                    f"The repository {repository} is there already and holds something else (no {SETTINGS} in it). "
                    "Choose another with --to."
                )
        else:
            hub.create_repo(repository, private=private)
        operations = [
            CommitOperationAdd(upload.name, str(upload.source) if upload.content is None else upload.content)
            for upload in uploads
        ]
        return str(
            hub.create_commit(repository, operations, commit_message="Model, card and settings").repo_url
        )

    return str(_asked(send))


def _asked(question: Any) -> Any:
    """The hub's answer, or a sentence."""
    from ..errors import MissingExtra

    try:
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    except ModuleNotFoundError as error:
        raise MissingExtra("huggingface_hub", "train", "Pushing a model") from error
    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    token = get_token()
    if not token:
        raise BadFile(
            "There is no token for the hub. Make one with write access, then set HF_TOKEN or run `hf auth login`."
        )
    try:
        return question(HfApi(endpoint=endpoint, token=token))
    except HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "?")
        raise BadFile(f"The hub at {endpoint} refused: {_first_line(error)} (status {status}).") from error
    except (OSError, ValueError, OfflineModeIsEnabled) as error:
        raise BadFile(f"The hub at {endpoint} cannot be used: {_first_line(error)}.") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BadFile(
            f"The hub at {endpoint} gave an answer that a hub does not give ({_first_line(error)})."
        ) from error
    except Exception as error:  # the HTTP library's own errors, which are not the system's
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpcore", "requests"):
            raise
        raise BadFile(f"The hub at {endpoint} cannot be reached: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    lines: Mapping[int, str] = dict(enumerate(str(error).strip().splitlines()))
    return lines.get(0, type(error).__name__).rstrip(".")[:300]
