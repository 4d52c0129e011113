"""Writing files so that a reader never sees half of one, and nothing is lost that somebody else made."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import BadFile, DiskFull

PARTIAL = ".hgpo-partial-"
"""How the names of folders that are being written begin."""
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path; move it to `path` when the block ends well, remove it otherwise.

    The move is atomic and the data is flushed to disk first, so a kill at any instant leaves either the old file or the
    new one. A link stays a link: the file that it leads to is replaced. What is not a regular file (a pipe, a device,
    standard output) is never replaced: the finished content is written into it.
    """
    target = Path(path)
    with _explained(target):
        into, place = writes_into(target), Path(os.path.realpath(target))
        temporary = _temporary(tempfile.gettempdir(), "output") if into else _beside(place)
    try:
        try:
            yield temporary
        except Exception as error:
            if is_full(error):
                raise DiskFull(target) from error
            raise
        with _explained(target):
            if into:
                _copy_into(temporary, target)
                return
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, atomically; what UTF-8 cannot carry (half a surrogate pair) is written as an escape."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new folder beside `path`; put it in the place of `path` when the block ends well.

    All its files are flushed to disk before it is renamed, so a kill at any instant leaves no half of a folder. What a
    kill left behind is removed the next time. A link stays a link: the folder that it leads to is replaced. Whoever may
    read new files may read these, whatever wrote them.
    """
    target = Path(os.path.realpath(path))
    partial, old = (target.with_name(f"{PARTIAL}{word}{target.name}") for word in ("", "old-"))
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    with _explained(target):
        partial.mkdir(parents=True)
    try:
        try:
            yield partial
            _let_read(partial)
            flush(partial)
        except Exception as error:
            if is_full(error):
                raise DiskFull(target) from error
            raise
        if target.exists():
            os.rename(target, old)
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)


def flush(folder: Path) -> None:
    """Force all files under `folder` to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as handle:
                os.fsync(handle.fileno())
        else:
            _sync_folder(path)
    _sync_folder(folder)


# Before the work


def check_outputs(
    outputs: Mapping[str, str | os.PathLike[str] | None], inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Find out before the work whether its results can be written.

    Args:
        outputs: paths of files to be written, by the option that names each; None for one that was not given.
        inputs: files that are read; they cannot be outputs.

    Raises:
        BadFile: an output cannot be written, or is an input or another output, directly or through links.
    """
    taken = {_identity(path): f"the input {os.fspath(path)}" for path in inputs if os.path.exists(path)}
    for option, path in outputs.items():
        if path is None:
            continue
        target = Path(path)
        if writes_into(target):
            continue
        mine = _identity(target)
        if mine in taken:
            raise BadFile(f"{option} {target} is {taken[mine]} too. Give the output a name of its own.")
        taken[mine] = f"the output of {option}"
        with _explained(target):
            _beside(Path(os.path.realpath(target))).unlink()


def check_folder(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether files can be written into a folder, which need not exist yet.

    Raises:
        BadFile: it is no folder, cannot be made or is not writable.
    """
    place = Path(os.path.realpath(path))
    with _explained(place):
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{place} is not a folder")
        _temporary(place, "check").unlink()


def check_new(paths: Iterable[str | os.PathLike[str]], fix: str) -> None:
    """Refuse to write over files that are there; `fix` says what to do instead.

    Raises:
        BadFile: one of them exists.
    """
    for path in paths:
        if os.path.lexists(path) and not writes_into(path):
            raise BadFile(f"{os.fspath(path)} is there already and would be overwritten. {fix}")


def writes_into(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is something to write into (a pipe, a device, standard output), not a file to replace."""
    if _descriptor(Path(path)) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_standard_output(path: str | os.PathLike[str] | None) -> bool:
    """Whether a path leads to where this process prints, so that nothing else may be printed there."""
    return path is not None and _descriptor(Path(path)) == STANDARD_OUTPUT


def safe_name(name: str) -> str:
    """A file's name made of any text: it stays in its folder and is not hidden.

    >>> safe_name("Qwen/Qwen2.5-1.5B"), safe_name("../../x"), safe_name("..")
    ('Qwen_Qwen2.5-1.5B', '_.._x', '_')
    """
    safe = re.sub(r"[^\w.+@=-]", "_", name.encode("utf-8", "replace").decode()).lstrip(".") or "_"
    if len(safe.encode()) <= 120:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{safe.encode()[:100].decode(errors='ignore')}-{digest}"


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room left on the disk (some libraries say so only in words)."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "errno", None) in full or any(
        f"{word} {code}" in str(error) for code in full for word in ("code:", "[Errno", "[errno", "os error")
    )


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
    """A sentence for whatever the system has against writing `target`."""
    try:
        yield
    except BrokenPipeError as error:
        raise BadFile(f"Cannot write {target}: its reader went away before the end.") from error
    except (OSError, ValueError) as error:
        if is_full(error):
            raise DiskFull(target) from error
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise BadFile(
            f"Cannot write {target}: {reason}. Choose a folder that exists and is writable."
        ) from error


def _plain_mode() -> int:
    """What a plain open() gives; a temporary file's own is 600."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _let_read(folder: Path) -> None:
    """Give all files under `folder` at least the mode of plain ones: safetensors, for one, writes temporary files."""
    mode = _plain_mode()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)


def _beside(place: Path) -> Path:
    """A new, empty file beside `place`, with the mode that the finished file should have."""
    mode = _plain_mode()
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if place.exists():
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is there and is write-protected")
        mode = stat.S_IMODE(place.stat().st_mode)
    # Cut, for the name of the temporary file may be too long where the file's own is not.
    temporary = _temporary(place.parent, place.name.encode()[:150].decode(errors="ignore"))
    temporary.chmod(mode)
    return temporary


def _temporary(folder: str | os.PathLike[str], name: str) -> Path:
    handle, path = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    os.close(handle)
    return Path(path)


def _descriptor(target: Path) -> int | None:
    """The descriptor of this process that a path names (`/dev/stdout`, `/dev/fd/3`), or whose open file it is."""
    own = {f"/proc/{os.getpid()}/fd", "/dev/fd"}
    place = os.fspath(target)
    for _ in range(40):  # as many links as the system follows
        folder, name = os.path.split(place)
        if name.isdecimal() and os.path.realpath(folder) in own:
            return int(name)
        if not os.path.islink(place):
            break
        place = os.path.join(folder, os.readlink(place))
    # Its name need not say so: `hgpo ... -o rows.jsonl > rows.jsonl`.
    for number in (STANDARD_OUTPUT, STANDARD_ERROR):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samestat(os.fstat(number), os.stat(target)):
                return number
    return None


def _copy_into(source: Path, target: Path) -> None:
    """Write the content of `source` into something that exists already."""
    number = _descriptor(target)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # what was printed before comes before
            stream.flush()
    # A descriptor is written itself: opening it anew would start at the beginning of the file behind it.
    handle = os.dup(number) if number is not None else os.open(target, os.O_WRONLY)
    with open(source, "rb") as content, open(handle, "wb", buffering=0) as out:
        while piece := content.read(1 << 20):
            view = memoryview(piece)
            while view:
                view = view[out.write(view) or 0 :]


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | str:
    """What two names of one file have in common."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Folders cannot be opened on some systems; the rename is then as durable as the system makes it.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path, content_name: str) -> dict[str, Any]:
    """A JSON object from a file; `content_name` says in errors what it should be."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read as {content_name}: {error}.") from error
    if not isinstance(content, dict):
        raise BadFile(f"{path} holds a JSON {type(content).__name__}; expected {content_name}, an object.")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON can hold them: a number that is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
