"""How this package was installed, and so the command that adds an extra to it: no package index has it."""

from __future__ import annotations

import os
from typing import Any


def install_command(extra: str) -> str:
    """The pip command that installs this package again from where it came from, with an extra.

    Where that is not known, or not there any more, the command is the one for a checkout.
    """
    return extra_command(_origin(), extra)


def extra_command(origin: dict[str, Any], extra: str) -> str:
    """The same for a record of where a package came from (`direct_url.json`, as pip writes it); empty without one.

    >>> extra_command({"url": "https://example.org/hgpo.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}}, "train")
    "pip install 'hgpo[train] @ git+https://example.org/hgpo.git@1f'"
    >>> extra_command({}, "train")
    "pip install '.[train]' in a checkout of hgpo"
    """
    import shlex
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url = origin.get("url")
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme == "file":
        place = url2pathname(parts.path)
        if os.path.exists(place):
            editable = "-e " if (origin.get("dir_info") or {}).get("editable") else ""
            return f"pip install {editable}{shlex.quote(f'{place}[{extra}]')}"
    elif parts.scheme:
        vcs = origin.get("vcs_info") or {}
        prefix = f"{vcs['vcs']}+" if vcs.get("vcs") else ""
        commit = f"@{vcs['commit_id']}" if vcs.get("commit_id") else ""
        return f"pip install {shlex.quote(f'hgpo[{extra}] @ {prefix}{url}{commit}')}"
    return f"pip install '.[{extra}]' in a checkout of hgpo"


def _origin() -> dict[str, Any]:
    import json
    from importlib import metadata

    try:
        content = json.loads(metadata.distribution("hgpo").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
