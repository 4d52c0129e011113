"""Our settings inside verl's config: a section `hgpo` that holds whatever differs from the defaults.

On the command line of verl they read `+hgpo.env.name=household +hgpo.agent.history_length=2`; `hgpo verl launch` writes
them, the agent loops and the trainer read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..config.load import as_dict, build
from ..config.schema import Config
from ..errors import BadSetting

SECTION = "hgpo"
RUN_FOLDER = "hgpo_run"
"""Top-level key of verl's config with the folder for our own files; no folder, no files."""
_BARE = re.compile(r"[A-Za-z_./][A-Za-z0-9_./:@+-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "nan", "inf"})


def read(config: Any) -> Config:
    """Our settings out of verl's config (an OmegaConf `DictConfig`)."""
    from omegaconf import OmegaConf

    section = OmegaConf.select(config, SECTION)
    if section is None:
        raise BadSetting(
            "verl's config has no section `hgpo`, so the environment and prompts are not known. Start the run with "
            "`hgpo verl launch PRESET`, or add what its --print shows (+hgpo.env.name=... and so on)."
        )
    return build(OmegaConf.to_container(section, resolve=True))


def run_folder(config: Any) -> str:
    """The folder for our own files, empty when there is none."""
    from omegaconf import OmegaConf

    return str(OmegaConf.select(config, RUN_FOLDER) or "")


def write(config: Config) -> list[str]:
    """Overrides that put `config` into verl's config; settings at their default are left out."""
    changed = dict(_differences(as_dict(config), as_dict(Config()), SECTION))
    # The section must exist even when everything is at its default.
    changed.setdefault(f"{SECTION}.seed", config.seed)
    return [f"+{key}={quote(value)}" for key, value in sorted(changed.items())]


def _differences(tree: Mapping[str, Any], default: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _differences(value, default.get(key, {}), f"{path}.{key}")
        elif key not in default or value != default[key]:
            yield f"{path}.{key}", value


def quote(value: Any) -> str:
    """A value as hydra's command line reads it back.

    >>> quote(True), quote(1e-6), quote("a b"), quote("1.5"), quote([1, "x"]), quote(None)
    ('true', '1e-06', "'a b'", "'1.5'", '[1,x]', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(quote(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{quote(item)}" for key, item in value.items()) + "}"
    text = str(value)
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    # `${` would be an interpolation; a backslash keeps it as it is.
    text = text.replace("${", "\\${")
    text = re.sub(r"(\\*)'", lambda match: match.group(1) * 2 + "\\'", text)
    text = re.sub(r"(\\+)$", lambda match: match.group(1) * 2, text)
    return f"'{text}'"
