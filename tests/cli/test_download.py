"""Fetching a file: resumed, bounded, whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgpo.download import PART, download
from hgpo.errors import BadFile

from ..serving import Reply, Request, serving

CONTENT = bytes(range(256)) * 5000


def ranged(request: Request) -> Reply:
    """A server that can go on in the middle."""
    asked = request.headers.get("range")
    if not asked:
        return Reply(body=CONTENT)
    start = int(asked.removeprefix("bytes=").rstrip("-"))
    where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
    return Reply(206, CONTENT[start:], {"Content-Range": where})


def test_a_file_is_fetched_once(tmp_path: Path) -> None:
    with serving(ranged) as server:
        for _ in range(2):
            file = download(f"{server.url}/file", tmp_path / "deep" / "file", 10_000_000)
            assert file.read_bytes() == CONTENT
        assert len(server.requests) == 1
    assert [path.name for path in file.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("resumes", [True, False])
def test_an_interrupted_download_goes_on(tmp_path: Path, resumes: bool) -> None:
    cut = True

    def answer(request: Request) -> Reply:
        if cut:
            return Reply(
                body=CONTENT[:300_000], headers={"Content-Length": str(len(CONTENT)), "Connection": "close"}
            )
        return ranged(request) if resumes else Reply(body=CONTENT)

    target = tmp_path / "file"
    with serving(answer) as server:
        with pytest.raises(BadFile, match="it goes on where it stopped"):
            download(f"{server.url}/file", target, 10_000_000)
        assert not target.exists()
        assert (tmp_path / f"file{PART}").stat().st_size == 300_000
        cut = False
        assert download(f"{server.url}/file", target, 10_000_000).read_bytes() == CONTENT
        assert server.requests[-1].headers["range"] == "bytes=300000-"
    assert not (tmp_path / f"file{PART}").exists()


def test_sizes_are_bounded_whatever_the_server_says(tmp_path: Path) -> None:
    with (
        serving(lambda _: Reply(body=CONTENT)) as server,
        pytest.raises(BadFile, match="expected 1000 at most"),
    ):
        download(server.url, tmp_path / "file", 1000)
    silent = Reply(body=CONTENT, headers={"Content-Length": "", "Connection": "close"})
    with serving(lambda _: silent) as server, pytest.raises(BadFile, match="more than the 1000 bytes"):
        download(server.url, tmp_path / "file", 1000)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.org/x", "expected an https address"),
        ("file:///etc/passwd", "expected an https address"),
        ("http://127.0.0.1:9/x", "cannot be fetched"),
    ],
)
def test_other_addresses_are_refused(tmp_path: Path, url: str, reason: str) -> None:
    with pytest.raises(BadFile, match=reason):
        download(url, tmp_path / "file", 1000)


def test_an_error_of_the_server_is_said(tmp_path: Path) -> None:
    with serving(lambda _: Reply(404)) as server, pytest.raises(BadFile, match="404"):
        download(server.url, tmp_path / "file", 1000)
    (tmp_path / f"file{PART}").write_bytes(b"x" * 10)
    with serving(lambda _: Reply(416)) as server, pytest.raises(BadFile, match="416"):
        download(server.url, tmp_path / "file", 1000)
    assert not (tmp_path / f"file{PART}").exists()
