"""The server gives runs to this machine alone, only reads, and answers whatever is asked."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hgpo.errors import BadSetting
from hgpo.watch import board as boards
from hgpo.watch.server import Server
from tests.inspect.rollouts import HOSTILE, hostile, house

from .runs import Written

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def run(tmp_path: Path) -> Written:
    made = Written(tmp_path / "run").begin()
    made.lines(0, 12)
    made.rollouts(10, house(tasks=3, rollouts=4))
    return made


@pytest.fixture
def server(run: Written, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(boards, "LOOK", 0.0)
    with Server([run.folder.path]) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(
        method, path, skip_host="Host" in given, skip_accept_encoding="Accept-Encoding" in given
    )
    for name, value in given.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, reply.headers, content


def asked(server: Server, path: str) -> Any:
    status, _, content = ask(server, path)
    assert status == 200
    return json.loads(content)


def test_it_listens_on_the_loopback_address_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_address[1]}/"
    with pytest.raises(OSError):
        socket.create_connection((_outside(), server.server_address[1]), timeout=2)


def _outside() -> str:
    """An address of this machine that others can reach; where it has none, another of the loopback net."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:80", "[::1]"]
)
def test_hosts_of_this_machine_are_answered(server: Server, host: str) -> None:
    assert ask(server, "/news", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8000",
        "",
        "127.0.0.1:80@evil",
        "127.0.0.1 evil",
        "10.0.0.1",
        "[::1",
        "127.0.0.1:x",
    ],
)
@pytest.mark.parametrize("path", ["/", "/news", "/watch.js", "/inspect?run=0&key=000010"])
def test_other_hosts_are_refused(server: Server, host: str, path: str) -> None:
    status, _, content = ask(server, path, Host=host)
    assert status == 403
    assert b"served to this machine alone" in content


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_get_no_data(server: Server, site: str) -> None:
    for path in ("/news", "/groups?run=0&key=000010", "/inspect?run=0&key=000010", "/watch.js"):
        assert ask(server, path, Sec_Fetch_Site=site)[0] == 403
    assert ask(server, "/news", Sec_Fetch_Site="same-origin")[0] == 200
    assert ask(server, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 200  # a link may lead here
    assert ask(server, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors")[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "", "http://[::1"])
def test_browsers_that_only_say_their_origin(server: Server, origin: str) -> None:
    assert ask(server, "/news", Origin=origin)[0] == 403
    assert ask(server, "/news", Origin=server.address.rstrip("/"))[0] == 200


@pytest.mark.parametrize("path", ["/", "/news", "/watch.css", "/groups?run=0&key=000010", "/nowhere"])
def test_every_reply_is_closed_to_everything_else(server: Server, path: str) -> None:
    _, headers, _ = ask(server, path)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Access-Control-Allow-Origin"] is None
    assert headers["Cache-Control"] == "no-store"


def test_the_page_needs_nothing_from_elsewhere(server: Server) -> None:
    for path in ("/", "/watch.css", "/watch.js", "/icon.svg"):
        status, _, content = ask(server, path)
        assert status == 200
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text
        assert "innerHTML" not in text
        assert "insertAdjacent" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_reads(server: Server, method: str) -> None:
    assert ask(server, "/news", method)[0] == 405


def test_head_gives_no_body(server: Server) -> None:
    status, headers, content = ask(server, "/", "HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["Content-Length"]) > 500


def test_nothing_in_the_folder_changes(server: Server, run: Written) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.folder.path.rglob("*")}
    asked(server, "/news")
    asked(server, "/groups?run=0&key=000010")
    asked(server, "/episode?run=0&key=000010&number=0")
    ask(server, "/inspect?run=0&key=000010")
    assert {path: path.stat().st_mtime_ns for path in run.folder.path.rglob("*")} == before


def test_long_replies_are_compressed_for_who_can_read_them(server: Server) -> None:
    _, headers, content = ask(server, "/watch.js", Accept_Encoding="gzip, br")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(content) == ask(server, "/watch.js")[2]


ODD = [
    "/news?have=" + "9" * 5000,
    "/news?have=0.0.0",
    "/news?have=0.-1.0.0,x.y.z.w,1e3.1.1.1,²." + "1.1.1",
    "/news?have=0.999999999999999.99.9",
    "/column?run=0&name=../../etc/passwd",
    "/column?run=0",
]


def raw(server: Server, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=20) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("path", ODD)
def test_odd_questions_have_an_answer(server: Server, path: str) -> None:
    reply = raw(server, path)
    assert reply.startswith(b"HTTP/1.1 200")
    assert b"Traceback" not in reply


@pytest.mark.parametrize(
    "path", ["http://[", "http://localhost/news", "*", "/[", "/%00", "/news%3f", "/\xff"]
)
def test_odd_addresses_lead_nowhere(server: Server, path: str) -> None:
    assert raw(server, path).startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "path",
    [
        "/groups?run=0&key=000011",
        "/groups?run=0&key=../../config",
        "/groups?run=7&key=000010",
        "/groups?run=x&key=000010",
        "/groups?run=" + "9" * 400,
        "/groups",
        "/episode?run=0&key=000010&number=999",
        "/episode?run=0&key=000010&number=-1",
        "/inspect?run=0&key=nothing",
    ],
)
def test_what_is_not_there_is_a_sentence(server: Server, path: str) -> None:
    found = asked(server, path)
    assert list(found) == ["problem"]
    assert found["problem"].endswith(".")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/page/watch.html",
        "/news/",
        "/run/config.json",
    ],
)
def test_no_path_leads_to_a_file(server: Server, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_a_port_that_is_taken(server: Server, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"cannot be had: .*Choose another"):
        Server([tmp_path / "run"], server.server_address[1])


def test_groups_and_episodes_of_kept_rollouts(server: Server, run: Written) -> None:
    rows = [row for row in house(tasks=3, rollouts=4) if row["iteration"] == 1]
    found = asked(server, "/groups?run=0&key=000010")
    assert found["iteration"] in (1, 10)
    assert found["steps"] == len(rows)
    assert [level["level"] for level in found["levels"]] == [0, 1, 2]
    assert sum(found["histogram"]["steps"]) == len(rows)
    assert [task["task"] for task in found["tasks"]] == ["task-0", "task-1", "task-2"]
    episode = found["tasks"][1]["episodes"][2]
    own = [row for row in rows if row["trajectory"] == episode["name"]]
    assert len(episode["advantages"]) == len(own)
    read = asked(server, f"/episode?run=0&key=000010&number={episode['number']}")
    assert [step["observation"]["head"] for step in read["steps"]] == [row["observation"] for row in own]
    assert [step["action"]["head"] for step in read["steps"]] == [row["action"] for row in own]
    assert [step["reward"] for step in read["steps"]] == [row["reward"] for row in own]
    alike = [row for row in rows if row["task"] == "task-1" and row["observation"] == own[0]["observation"]]
    assert read["steps"][0]["groups"][0] == len(alike) >= 4  # all rollouts of a task begin in the same state
    assert read["steps"][0]["groups"][1] == 0  # and nothing came before
    status, headers, page = ask(server, "/inspect?run=0&key=000010")
    assert status == 200
    assert b"HGPO rollout report" in page
    assert "sha256-" in headers["Content-Security-Policy"]
    assert "connect-src" not in headers["Content-Security-Policy"]


def test_any_metric_with_what_it_means(server: Server) -> None:
    found = asked(server, "/column?run=0&name=success")
    assert found["iterations"] == list(range(13))
    assert found["values"][:2] == [0.2, 0.21]
    assert "succeeded" in found["meaning"]
    assert asked(server, "/column?run=0&name=nothing") == {**found, "values": [], "meaning": None}


def test_recorded_advantages_are_shown_as_they_were_trained_on(server: Server, run: Written) -> None:
    rows = [{**row, "advantage": 0.125 * number} for number, row in enumerate(house(tasks=1, rollouts=2))]
    run.rollouts(12, rows)
    (task,) = asked(server, "/groups?run=0&key=000012")["tasks"]
    assert [value for episode in task["episodes"] for value in episode["advantages"]] == pytest.approx(
        [row["advantage"] for row in rows]
    )


def test_an_error_of_ours_leaves_the_page_standing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.kept, "_open", lambda *_: 1 / 0)
    found = asked(server, "/groups?run=0&key=000010")
    assert "Something is wrong in hgpo itself (ZeroDivisionError" in found["problem"]


@pytest.mark.parametrize("content", [b"PAR1 nothing of the kind", b""])
def test_damaged_rollouts_are_a_sentence(server: Server, run: Written, content: bytes) -> None:
    (run.folder.rollouts / "000012.jsonl.gz").write_bytes(content or gzip.compress(content))
    assert "problem" in asked(server, "/groups?run=0&key=000012")
    (run.folder.rollouts / "000011.parquet").write_bytes(content)
    assert "problem" in asked(server, "/groups?run=0&key=000011")


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_travels_as_data(server: Server, run: Written, kind: str) -> None:
    (run.folder.rollouts / "000010.parquet").unlink()
    lines = "".join(json.dumps(row) + "\n" for row in hostile(HOSTILE[kind]))
    (run.folder.rollouts / "000010.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert "problem" not in asked(server, "/groups?run=0&key=000010")
    status, headers, content = ask(server, "/episode?run=0&key=000010&number=1")
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert content.isascii()
    assert len(content) < 300_000
    observation = json.loads(content)["steps"][1]["observation"]
    text = HOSTILE[kind]
    assert observation["head"] + observation["tail"] == (
        text if kind != "long" else text[:9000] + text[-3000:]
    )
