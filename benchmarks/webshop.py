"""What the native WebShop costs: time a step, memory a worker, and a catalogue of any size.

    python benchmarks/webshop.py                                # the generated shop: steps and memory
    python benchmarks/webshop.py --data FOLDER                  # the same on the official files
    python benchmarks/webshop.py --products 1180000 --work DIR  # build and search a synthetic catalogue

Each part prints a table; the last line is all of it as JSON. Times of the original (Flask, Lucene through
pyserini, HTML templating and parsing) for comparison: search 53 ms, click 36 ms, buy 20 ms, and one copy of
the catalogue and index in every worker.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
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


def measure_steps(env: Any, sessions: int) -> dict[str, Any]:
    """Time each action of scripted sessions. Every session is a new goal, so queries are new as well."""
    spent: dict[str, list[float]] = {"search": [], "click": [], "buy": []}
    resets: list[float] = []
    policy = Shopper()
    tasks = list(env.tasks("train"))[:sessions]
    warm = list(env.tasks("test"))[:20]
    for measured, task in [(False, task) for task in warm] + [(True, task) for task in tasks]:
        start = time.perf_counter()
        observation = env.reset(task)
        if measured:
            resets.append(time.perf_counter() - start)
        policy.reset(observation)
        for _ in range(15):
            action = policy.act(observation)
            start = time.perf_counter()
            observation = env.step(action)
            took = time.perf_counter() - start
            if measured:
                kind = "search" if action.startswith("search") else "buy" if "buy now" in action else "click"
                spent[kind].append(took)
            if observation.done:
                break
    count, seconds = sum(map(len, spent.values())), sum(map(sum, spent.values()))
    result: dict[str, Any] = {"sessions": len(tasks), "steps": count, "steps_per_second": count / seconds}
    rows = [("action", "median ms", "mean ms", "original ms", "times faster (mean)")]
    for kind, times in spent.items():
        median, mean = 1e3 * statistics.median(times), 1e3 * statistics.mean(times)
        result[kind] = {"median_ms": median, "mean_ms": mean, "times_faster": ORIGINAL_MS[kind] / mean}
        rows.append(
            (
                kind,
                f"{median:.3f}",
                f"{mean:.3f}",
                f"{ORIGINAL_MS[kind]:.0f}",
                f"{ORIGINAL_MS[kind] / mean:.0f}",
            )
        )
    mixed = sum(ORIGINAL_MS[kind] * len(times) for kind, times in spent.items()) / (1e3 * seconds)
    result["times_faster"] = mixed
    result["reset_ms"] = 1e3 * statistics.median(resets)
    rows.append(("reset", f"{result['reset_ms']:.3f}", f"{1e3 * statistics.mean(resets):.3f}", "", ""))
    rows.append(("all", "", f"{1e3 * seconds / count:.3f}", "", f"{mixed:.0f}"))
    table(f"Steps ({len(tasks)} sessions, {count} steps, {count / seconds:,.0f} steps a second)", rows)
    return result


def memory() -> dict[str, float]:
    """Megabytes of this process: resident, its share of it, and what is its alone."""
    fields = {"Rss:": "resident", "Pss:": "share", "Private_Clean:": "own", "Private_Dirty:": "own"}
    found = {"resident": 0.0, "share": 0.0, "own": 0.0}
    try:
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            name, *rest = line.split()
            if name in fields:
                found[fields[name]] += int(rest[0]) / 1024
    except OSError:
        found["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _live(data: str | None, store: str | None, environments: int, barrier: Any, results: Any) -> None:
    import hgpo.envs.webshop.env  # what any worker imports, counted before the catalogue is opened

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


def measure_size(count: int, work: Path, queries: int) -> dict[str, Any]:
    """Build a synthetic catalogue, then search it with titles, parts of titles and instructions."""
    path = work / f"synthetic-{count}.hgpo-store"
    generating = np.zeros(2)

    def clocks() -> Any:
        return np.array([time.perf_counter(), time.process_time()])

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
    opened = Catalogue(type(catalogue.store).open(path))
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
            (
                "build (reading, indexing, goals)",
                f"{building:.0f} s, {made / building:,.0f} products a second",
            ),
            ("most memory while building", f"{peak:.1f} GB"),
            ("store", f"{result['store_gb']:.2f} GB, of it index {result['index_gb']:.2f} GB"),
            ("open the store", f"{result['open_ms']:.1f} ms"),
        ],
    )
    table(f"Search, 50 best, {queries} queries of each kind", rows)
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
