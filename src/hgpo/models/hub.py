"""Whether a model of the hub can be had, found out before anything is played for it."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ..errors import BadFile

SECONDS = 10.0
"""How long the hub may take to answer."""
IDENTIFIER = re.compile(r"[\w.-]+(/[\w.-]+)?")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def check_hub(name: str) -> None:
    """Ask for a model's config.json, once: transformers would try for half a minute, and only when it loads the model.

    Models in folders and in the cache are not asked for.

    Raises:
        BadFile: there is no such model, it is not for everybody, or the hub cannot be reached.
    """
    if Path(name).exists() or name.endswith(".gguf") or is_cached(name):
        return
    if not IDENTIFIER.fullmatch(name):
        raise _missing(name, "it is neither a folder that is there nor a name that the hub could know")
    if any(os.environ.get(variable, "").upper() in ("1", "TRUE", "YES", "ON") for variable in OFFLINE):
        raise _missing(
            name,
            "no folder has this name, it is not in the cache, and the hub is switched off (offline mode)",
        )
    from huggingface_hub import get_token

    place = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    address = f"{place.rstrip('/')}/{name}/resolve/main/config.json"
    token = get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(address, headers=headers, method="HEAD")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return
    except urllib.error.HTTPError as error:  # also a redirect, to where the file lies
        reasons = {
            401: "there is none of this name, or it needs a login",
            403: "it needs a login",
            404: "there is none",
        }
        if error.code in reasons:
            raise _missing(name, f"no folder has this name, and on the hub {reasons[error.code]}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _missing(name, f"no folder has this name, and the hub cannot be reached ({reason})") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Who is redirected knows what he wanted to know; the token goes nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def is_cached(name: str) -> bool:
    """Whether a model of this name was fetched from the hub to this machine."""
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # no name of the hub
        return False


def _missing(name: str, why: str) -> BadFile:
    return BadFile(
        f"There is no model {name!r}: {why}. Give a folder in Hugging Face format, a GGUF file, a name of the hub, or "
        "model=tiny."
    )
