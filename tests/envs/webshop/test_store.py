"""The store: whole or not there, noticed when damaged, built again by itself, shared by all."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo.envs import make
from hgpo.envs.webshop import catalogue
from hgpo.envs.webshop.catalogue import Catalogue
from hgpo.envs.webshop.store import END, Store, write
from hgpo.errors import DamagedStore

from .conftest import row


@pytest.fixture(autouse=True)
def _forget_open_catalogues(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(catalogue, "_open", {})


def example(path: Path) -> Path:
    with write(path, {"name": "example"}) as writer:
        writer.add("numbers", np.arange(1000, dtype=np.int32))
        with writer.stream("letters") as put:
            put(b"abc")
            put(b"def")
        writer.add("nothing", np.empty(0, dtype=np.float64))
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store = Store.open(example(tmp_path / "store"))
    assert store.about == {"name": "example"}
    assert store.array("numbers").tolist() == list(range(1000))
    assert store.array("numbers").dtype == np.int32
    assert store.bytes("letters", 1, 5) == b"bcde"
    assert len(store.array("nothing")) == 0
    assert not store.array("numbers").flags.writeable


def test_cut_anywhere_it_is_damaged(tmp_path: Path) -> None:
    path = example(tmp_path / "store")
    whole = path.read_bytes()
    for size in [0, 1, 10, 20, 26, 27, 100, 1000, len(whole) // 2, len(whole) - len(END), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedStore):
            Store.open(path)


def test_a_wrong_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    path = example(tmp_path / "store")
    whole = path.read_bytes()
    sections = Store.open(path)._sections
    places = [0, 12, 16, 20, *(section["start"] for section in sections.values() if section["bytes"])]
    places += [len(whole) - 1, len(whole) - 20]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with pytest.raises(DamagedStore):
            Store.open(path)


def test_zeros_where_data_should_be_are_noticed_without_reading_all(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with write(path, {}) as writer:
        writer.add("numbers", np.arange(1 << 20))
    whole = bytearray(path.read_bytes())
    start = Store.open(path)._sections["numbers"]["start"]
    whole[start + (4 << 20) : start + (8 << 20)] = bytes(4 << 20)
    path.write_bytes(whole)
    with pytest.raises(DamagedStore, match="'numbers'"):
        Store.open(path, thorough=False)


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with write(tmp_path / "store", {}) as writer:
            writer.add("numbers", np.arange(10))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["truncated", "half written", "emptied", "old format"])
def test_a_damaged_store_is_built_again(
    folder: Callable[..., Path], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder([row("B1"), row("B2", name="Red thing")])
    path = Catalogue.open(data).store.path
    assert path.parent == data
    whole = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "half written":
        path.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    elif damage == "emptied":
        path.write_bytes(b"")
    else:
        monkeypatch.setattr(catalogue, "FORMAT", catalogue.FORMAT + 1)
    catalogue._open.clear()
    with pytest.warns(UserWarning, match=r"store .*\. It is built again\.") as said:
        assert Catalogue.open(data).search("red") == ["B2"]
    assert len(said) == 1
    if damage != "old format":
        assert path.read_bytes() == whole


def test_damage_under_an_open_catalogue_is_noticed(folder: Callable[..., Path]) -> None:
    data = folder([row("B1")])
    path = Catalogue.open(data).store.path
    whole = path.read_bytes()
    with open(path, "r+b") as file:
        file.truncate(len(whole) // 2)
    with pytest.warns(UserWarning, match="truncated"):
        assert Catalogue.open(data).search("thing") == ["B1"]
    path.unlink()
    assert Catalogue.open(data).search("thing") == ["B1"]
    assert path.read_bytes() == whole


def _build_until_killed(data: str, started: Any) -> None:
    original = catalogue.IndexBuilder.write

    def wait(self: Any, writer: Any) -> Any:
        started.set()
        time.sleep(60)
        return original(self, writer)

    catalogue.IndexBuilder.write = wait  # type: ignore[method-assign]
    Catalogue.open(data)


def test_a_build_that_was_killed(folder: Callable[..., Path]) -> None:
    data = folder([row("B1"), row("B2")])
    context = multiprocessing.get_context("fork")
    started = context.Event()
    worker = context.Process(target=_build_until_killed, args=(str(data), started))
    worker.start()
    assert started.wait(60)
    worker.kill()
    worker.join()
    assert len(list(data.glob(".*.part"))) == 2
    assert not list(data.glob("*.hgpo-store"))
    assert Catalogue.open(data).search("thing") == ["B1", "B2"]
    assert not list(data.glob(".*.part"))


def test_a_good_store_is_not_built_again(
    folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder([row("B1")])
    first = Catalogue.open(data)
    assert Catalogue.open(data) is first
    catalogue._open.clear()
    monkeypatch.setattr(catalogue, "build_store", None)
    assert Catalogue.open(data).search("thing") == ["B1"]


def test_changed_data_files_are_noticed(folder: Callable[..., Path]) -> None:
    data = folder([row("B1")])
    assert len(Catalogue.open(data)) == 1
    folder([row("B1"), row("B2")])
    with pytest.warns(UserWarning, match="made from other files"):
        assert len(Catalogue.open(data)) == 2


def test_a_folder_that_stays_as_it_is(
    folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder([row("B1")])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data.chmod(0o555)
    try:
        opened = Catalogue.open(data)
        chosen = Catalogue.open(data, store=tmp_path / "chosen")
    finally:
        data.chmod(0o755)
    assert opened.store.path.parent == tmp_path / "cache" / "hgpo"
    assert chosen.store.path.parent == tmp_path / "chosen"
    assert opened.search("thing") == chosen.search("thing") == ["B1"]


def test_environments_of_a_process_share_one_catalogue(folder: Callable[..., Path]) -> None:
    about = {"B1": {"attributes": ["soft"], "instruction": "Find me", "instruction_attributes": ["soft"]}}
    data = folder([row("B1")], about)
    envs: list[Any] = [make("webshop", data=data) for _ in range(20)]
    assert len({id(env.catalogue) for env in envs}) == 1


def _open_and_report(data: str, queue: Any) -> None:
    built = []
    original = catalogue.build_store

    def count(*arguments: Any) -> None:
        built.append(1)
        original(*arguments)

    catalogue.build_store = count
    queue.put((len(built), Catalogue.open(data).search("thing"), len(built), os.getpid()))


def test_of_many_processes_one_builds(folder: Callable[..., Path]) -> None:
    data = folder([row(f"B{number:04d}", name=f"Thing number {number}") for number in range(300)])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_open_and_report, args=(str(data), queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert sum(after for _, _, after, _ in found) == 1
    assert len({tuple(top) for _, top, _, _ in found}) == 1
