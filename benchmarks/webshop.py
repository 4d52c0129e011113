"""What the native WebShop costs: time a step, memory a worker, and a catalogue of any size.

    python benchmarks/webshop.py                                # the generated shop: steps and memory
    python benchmarks/webshop.py --data FOLDER                  # the same on the official files
    python benchmarks/webshop.py --products 1180000 --work DIR  # build and search a synthetic catalogue

Each part prints a table; the last line is all of it as JSON. Times of the original (Flask, Lucene through
pyserini, HTML templating and parsing) for comparison: search 53 ms, click 36 ms, buy 20 ms, and one copy of
the catalogue and index in every worker. A step is one thread and no waiting, so its processor time is its time
on a machine with nothing else to do; the ratios are of processor time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hgpo.envs import make
from hgpo.envs.webshop.catalogue import Catalogue
from hgpo.envs.webshop.product import Product
from hgpo.envs.webshop.shopper import Shopper
from hgpo.envs.webshop.store import Store

ORIGINAL_MS = {"search": 53.0, "click": 36.0, "buy": 20.0}


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows as columns of equal width."""
    print(f"\n{title}")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def environment(data: str | None, store: str | None) -> Any:
    """The environment to measure."""
    return make("webshop", data=data, store=store, tagger="builtin") if data else make("shop")


def clocks() -> Any:
    """Seconds on the wall and of this process's processor time, which other programs do not lengthen."""
    return np.array([time.perf_counter(), time.process_time()])


def measure_steps(env: Any, sessions: int) -> dict[str, Any]:
    """Time each action of scripted sessions. Every session is a new goal, so queries are new as well."""
    spent: dict[str, list[Any]] = {"reset": [], "search": [], "click": [], "buy": []}
    policy = Shopper()
    tasks = list(env.tasks("train"))[:sessions]
    for task in [*list(env.tasks("test"))[:20], *tasks]:
        if task == tasks[0]:
            spent = {kind: [] for kind in spent}
        before = clocks()
        observation = env.reset(task)
        spent["reset"].append(clocks() - before)
        policy.reset(observation)
        for _ in range(15):
            action = policy.act(observation)
            before = clocks()
            observation = env.step(action)
            took = clocks() - before
            kind = "search" if action.startswith("search") else "buy" if "buy now" in action else "click"
            spent[kind].append(took)
            if observation.done:
                break
    steps = [took for kind in ORIGINAL_MS for took in spent[kind]]
    wall, used = np.sum(steps, axis=0)
    result: dict[str, Any] = {
        "sessions": len(tasks),
        "steps": len(steps),
        "steps_per_second": len(steps) / wall,
    }
    rows = [("action", "count", "wall ms", "processor ms", "original ms", "times faster (processor)")]
    for kind, times in spent.items():
        means = 1e3 * np.mean(times, axis=0)
        faster = ORIGINAL_MS.get(kind, 0.0) / means[1]
        result[kind] = {"wall_ms": means[0], "processor_ms": means[1], "times_faster": faster}
        original = [f"{ORIGINAL_MS[kind]:.0f}", f"{faster:.0f}"] if kind in ORIGINAL_MS else ["", ""]
        rows.append((kind, str(len(times)), f"{means[0]:.3f}", f"{means[1]:.3f}", *original))
    theirs = sum(ORIGINAL_MS[kind] * len(spent[kind]) for kind in ORIGINAL_MS) / len(steps)
    mean = 1e3 * used / len(steps)
    result["times_faster"] = theirs / mean
    cells = (f"{1e3 * wall / len(steps):.3f}", f"{mean:.3f}", f"{theirs:.0f}", f"{theirs / mean:.0f}")
    rows.append(("all steps", str(len(steps)), *cells))
    table(f"Steps: {len(tasks)} scripted sessions, {len(steps) / wall:,.0f} steps a second", rows)
    return result


def memory() -> dict[str, float]:
    """Megabytes of this process: resident, its share of it, and what is its alone."""
    fields = {"Rss:": "resident", "Pss:": "share", "Private_Clean:": "own", "Private_Dirty:": "own"}
    usage = {"resident": 0.0, "share": 0.0, "own": 0.0}
    try:
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            name, *rest = line.split()
            if name in fields:
                usage[fields[name]] += int(rest[0]) / 1024
    except OSError:
        usage["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return usage


def _live(data: str | None, store: str | None, environments: int, barrier: Any, results: Any) -> None:
    import hgpo.envs.webshop.env

    assert hgpo.envs.webshop.env
    before = memory()
    envs = [environment(data, store) for _ in range(environments)]
    policy = Shopper()
    for number, env in enumerate(envs):
        tasks = env.tasks("train")
        observation = env.reset(tasks[number % len(tasks)])
        policy.reset(observation)
        for _ in range(15):
            observation = env.step(policy.act(observation))
            if observation.done:
                break
    barrier.wait()
    after = memory()
    barrier.wait()
    results.put((before, after))


def measure_memory(data: str | None, store: str | None) -> list[dict[str, float]]:
    """Live environments in one and in several processes; all have played a session."""
    measured = []
    rows = [
        ("processes", "environments each", "resident MB", "share MB", "own MB", "added by the shop, own MB")
    ]
    context = multiprocessing.get_context("spawn")
    for processes, environments in ((1, 1), (1, 128), (4, 32)):
        barrier, results = context.Barrier(processes), context.Queue()
        workers = [
            context.Process(target=_live, args=(data, store, environments, barrier, results))
            for _ in range(processes)
        ]
        for worker in workers:
            worker.start()
        found = [results.get(timeout=300) for _ in workers]
        for worker in workers:
            worker.join()
        mean = {key: statistics.mean(after[key] for _, after in found) for key in found[0][1]}
        mean["added_own"] = statistics.mean(after["own"] - before["own"] for before, after in found)
        measured.append({"processes": processes, "environments": environments, **mean})
        cells = (mean["resident"], mean["share"], mean["own"], mean["added_own"])
        rows.append((str(processes), str(environments), *(f"{cell:.1f}" for cell in cells)))
    table("Memory a process", rows)
    return measured


def synthetic(count: int, seed: int = 0) -> Iterator[Product]:
    """Products with texts as long as a shop's and words as common as its search terms, all made up.

    Of a million forms the one of rank r has a share like 1 / (r + 30) ** 1.05, which gives the commonest a
    document frequency of four tenths, as in the official catalogue once stop words are gone. A title has about
    20 words, a description 70, a feature 25.
    """
    generator = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    forms = ["".join(row) for row in generator.choice(letters, size=(1_000_000, 9))]
    lengths = generator.integers(3, 10, len(forms)).tolist()
    # The common forms are short and may coincide; a rare one carries its number, as model names do.
    endings = ("" if number < 60_000 else f"{number:x}" for number in range(len(forms)))
    words = [form[:length] + ending for form, length, ending in zip(forms, lengths, endings)]
    shares = np.cumsum((np.arange(len(words)) + 30.0) ** -1.05)
    colours = ["black", "white", "red", "navy blue", "green", "grey", "rose gold", "silver"]
    sizes = ["small", "medium", "large", "x-large", "xx-large", "7", "7.5", "8", "8.5"]
    block = 4096
    for first in range(0, count, block):
        number = min(block, count - first)
        sizes_of = np.maximum(3, generator.poisson([20, 70, 25], (number, 3)))
        ends = np.cumsum(sizes_of.ravel())
        ranks = np.searchsorted(shares, generator.random(ends[-1]) * shares[-1])
        text = [words[rank] for rank in ranks.tolist()]
        starts = np.concatenate([[0], ends[:-1]]).reshape(number, 3).tolist()
        stops = ends.reshape(number, 3).tolist()
        kinds = generator.integers(0, 1000, number).tolist()
        for row in range(number):
            title, description, feature = (" ".join(text[a:b]) for a, b in zip(starts[row], stops[row]))
            position = first + row
            options = {"color": colours[: 1 + position % 8], "size": sizes[: 1 + position % 9]}
            yield Product(
                asin=f"B{position:09d}",
                title=title,
                description=description,
                features=[feature],
                prices=[5.0 + position % 90],
                price_tag=f"${5.0 + position % 90}",
                options=options if position % 3 else {},
                attributes=[words[500 + kinds[row]]],
                category="made up",
                query=words[100 + kinds[row]],
                product_category=f"made up › {words[100 + kinds[row]]}",
                instruction=f"Find me {words[500 + kinds[row]]} {words[100 + kinds[row]]}",
                instruction_attributes=[words[500 + kinds[row]]],
            )


def compare_stores(catalogue: Catalogue, work: Path, reads: int = 20_000) -> dict[str, float]:
    """Microseconds to fetch one product's row from the mapped store and from SQLite, rows alike."""
    offsets = catalogue.store.array("record_offsets").tolist()
    path = work / "rows.sqlite"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("create table rows (position integer primary key, row blob)")
    rows = (
        (position, catalogue.store.bytes("records", *offsets[position : position + 2]))
        for position in range(len(catalogue))
    )
    database.executemany("insert into rows values (?, ?)", rows)
    database.commit()
    database.close()
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.execute(f"pragma mmap_size={1 << 40}")
    generator = random.Random(2)
    positions = [generator.randrange(len(catalogue)) for _ in range(reads)]
    best = {"mapped": float("inf"), "sqlite": float("inf")}
    for _ in range(3):
        start = time.process_time()
        for position in positions:
            catalogue.store.bytes("records", *offsets[position : position + 2])
        best["mapped"] = min(best["mapped"], 1e6 * (time.process_time() - start) / reads)
        start = time.process_time()
        for position in positions:
            database.execute("select row from rows where position = ?", (position,)).fetchone()
        best["sqlite"] = min(best["sqlite"], 1e6 * (time.process_time() - start) / reads)
    database.close()
    table(
        f"Fetching one of {len(catalogue):,} product rows",
        [("mapped file", f"{best['mapped']:.1f} us"), ("SQLite", f"{best['sqlite']:.1f} us")],
    )
    path.unlink()
    return best


def worker_memory(path: Path, queries: list[str]) -> list[dict[str, float]]:
    """What two processes that search the same large store hold."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_searching, args=(path, queries, barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    table(
        f"Memory of two workers after {len(queries)} searches each in the same store",
        [("resident MB", "share MB", "own MB")]
        + [tuple(f"{cell[key]:.0f}" for key in ("resident", "share", "own")) for cell in found],
    )
    return found


def _searching(path: Path, queries: list[str], barrier: Any, results: Any) -> None:
    catalogue = Catalogue(Store.open(path))
    for query in queries:
        for position in catalogue.find(query, 50)[:10]:
            catalogue.product(position)
    barrier.wait()
    found = memory()
    barrier.wait()
    results.put(found)


def measure_size(count: int, work: Path, queries: int) -> dict[str, Any]:
    """Build a synthetic catalogue, then search it with titles, parts of titles and instructions."""
    path = work / f"synthetic-{count}.hgpo-store"
    generating = np.zeros(2)

    def products() -> Iterator[Product]:
        nonlocal generating
        source = synthetic(count)
        while True:
            before = clocks()
            product = next(source, None)
            generating += clocks() - before
            if product is None:
                return
            yield product

    before = clocks()
    catalogue = Catalogue.of(products(), path)
    building, used = (clocks() - before - generating).tolist()
    made = len(catalogue)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.perf_counter()
    opened = Catalogue(Store.open(path))
    opening = time.perf_counter() - start
    sizes = opened.store.sizes()
    index = sum(size for name, size in sizes.items() if name.startswith(("term_", "post_", "doc_")))
    generator = random.Random(1)
    kinds: dict[str, list[str]] = {"three words": [], "instruction": [], "whole title": []}
    for _ in range(queries):
        product = opened.product(generator.randrange(made))
        kinds["three words"].append(" ".join(generator.sample(product.title.split(), 3)))
        kinds["instruction"].append(opened.goals[generator.randrange(len(opened.goals))]["instruction_text"])
        kinds["whole title"].append(product.title)
    result: dict[str, Any] = {
        "products": made,
        "goals": len(opened.goals),
        "terms": opened.store.about["terms"],
        "tokens": opened.store.about["tokens"],
        "postings": len(opened.index.docs),
        "build_s": building,
        "build_cpu_s": used,
        "peak_gb": peak,
        "open_ms": 1e3 * opening,
        "store_gb": opened.store.size / 2**30,
        "index_gb": index / 2**30,
    }
    rows = [("query", "median ms", "95% ms", "most ms")]
    for kind, texts in kinds.items():
        times = []
        for text in texts:
            start = time.perf_counter()
            opened.index.search(text, 50)
            times.append(1e3 * (time.perf_counter() - start))
        times.sort()
        result[kind] = {"median_ms": statistics.median(times), "p95_ms": times[int(0.95 * len(times))]}
        rows.append((kind, *(f"{cell:.1f}" for cell in (*result[kind].values(), times[-1]))))
    table(
        f"{made:,} products, {result['tokens']:,} words, {result['terms']:,} terms",
        [
            ("build (store, index, goals)", f"{building:.0f} s, of processor time {used:.0f} s"),
            ("most memory while building", f"{peak:.1f} GB"),
            ("store", f"{result['store_gb']:.2f} GB, of it index {result['index_gb']:.2f} GB"),
            ("open the store", f"{result['open_ms']:.1f} ms"),
        ],
    )
    table(f"Search, 50 best, {queries} queries of each kind", rows)
    result["fetch_us"] = compare_stores(opened, work)
    result["workers"] = worker_memory(path, kinds["three words"])
    return result


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder with the official data files")
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--products", type=int, help="build and search a synthetic catalogue of this size")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--work", help="folder for stores; a temporary one by default, removed afterwards")
    settings = parser.parse_args()
    work = Path(settings.work or tempfile.mkdtemp(prefix="hgpo-bench-"))
    work.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"benchmark": "webshop", "python": sys.version.split()[0], "cpus": os.cpu_count()}
    try:
        if settings.products:
            found["size"] = measure_size(settings.products, work, settings.queries)
        else:
            env = environment(settings.data, str(work) if settings.data else None)
            found["catalogue"] = len(env.catalogue)
            found["steps"] = measure_steps(env, settings.sessions)
            found["memory"] = measure_memory(settings.data, str(work) if settings.data else None)
    finally:
        if not settings.work:
            shutil.rmtree(work, ignore_errors=True)
    print("\n" + json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
