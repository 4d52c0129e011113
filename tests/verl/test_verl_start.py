"""Starting a run of verl: what is said before, while and after it; nothing here needs verl."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hgpo.cli import main
from hgpo.config import load
from hgpo.errors import BadFile, EngineFailed
from hgpo.models.shape import KNOWN, Shape, find_shape
from hgpo.runs.tracking import Screen
from hgpo.verl import doctor
from hgpo.verl.memory import GB, MACHINES, reckon
from hgpo.verl.narration import Narrator, Silent
from hgpo.verl.overrides import Cluster
from hgpo.verl.processes import FAMILY, execute
from hgpo.verl.voice import MARK, heard, say

TINY = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.intermediate=32"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """verl and all that it needs, as far as versions go; nothing else is installed."""
    versions = dict.fromkeys(("verl", *doctor.NEEDED, "torch", "ray", "pyarrow"), "1.0")
    versions |= {"verl": "0.9.1", "transformers": "5.10.4"}
    monkeypatch.setattr(doctor, "installed", versions.get)
    monkeypatch.setattr(doctor, "misfit", str)
    monkeypatch.setattr(doctor, "conflict", str)
    return versions


def test_without_gpus_and_engine_a_launch_ends_at_once_with_doctors_sentences(
    installed: dict[str, str],
) -> None:
    config = load("quickstart")
    began = time.monotonic()
    with pytest.raises(EngineFailed) as told:
        doctor.require_ready(config, Cluster())
    assert time.monotonic() - began < 10
    said = str(told.value)
    for finding in [*doctor._engines(), *doctor._gpus("")]:
        if finding.level == "error":
            assert finding.sentence in said
            assert finding.fix in said
    assert "GPUs: none found" in said
    assert "neither vllm nor sglang is installed" in said


def test_a_model_that_is_not_there_is_named_before_anything_starts(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed["vllm"] = "0.24"
    monkeypatch.setattr(doctor, "_gpus", lambda *_: iter([doctor.Finding("GPUs", "ok", "1")]))
    config = load("alfworld-smollm2", ["model=models/none"])
    with pytest.raises(EngineFailed, match="There is no model folder 'models/none'"):
        doctor.require_ready(config, Cluster())
    with pytest.raises(
        EngineFailed, match=r"sglang is not installed \(vllm is\); pip install 'verl\[sglang\]'"
    ):
        doctor.require_ready(load("quickstart"), Cluster(engine="sglang"))
    assert doctor.require_ready(load("quickstart", ["warm.episodes=0"]), Cluster(gpus=1)) is not None


def test_too_few_gpus_and_cores_are_counted(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    (found,) = doctor._gpus("", 4)
    assert (found.level, found.detail) == ("error", "2 found, --gpus 4 asked for")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(3)))
    (cores,) = doctor._cores(Cluster(gpus=4))
    assert cores.level == "warning"
    assert cores.detail.startswith("3 for 4 GPUs")
    assert list(doctor._cores(Cluster(gpus=4, ray_address="auto"))) == []


def test_ray_is_given_as_many_cpus_as_verl_books(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verl", "launch", "quickstart", "--run", str(tmp_path), "--print"]
    assert main([*words, "--gpus", "8"]) == 0
    booked = int(capsys.readouterr().out.partition("ray_kwargs.ray_init.num_cpus=")[2].split()[0])
    # Three for each GPU, nine of the data plane, the rollout workers and the trainer itself.
    assert booked >= 3 * 8 + 9 + 8 + 2
    assert main([*words, "--ray-address", "auto"]) == 0
    assert "num_cpus" not in capsys.readouterr().out


def screen() -> tuple[Screen, io.StringIO]:
    stream = io.StringIO()
    return Screen(4, stream), stream


def test_the_terminal_shows_stages_and_iterations_and_none_of_verls_own_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown, stream = screen()
    now = [100.0]
    narrator = Narrator(shown, lambda: now[0])
    row = {"iteration": 1, "success": 0.25, "return": 2.5, "seconds": 8.0, "pg_loss": -0.01, "ppo_kl": 0.002}
    row |= {"tokens_per_second": 100.0, "seconds/rollout": 5.0, "seconds/update": 2.0}
    for line in (
        "(pid=12) UserWarning: torchtitan engine is not available",
        f"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m {MARK}workers, model and rollout servers are up",
        "(WorkerDict pid=9) Loading checkpoint shards: 100%",
        f"(TaskRunnerV1 pid=7) {MARK}row {json.dumps({'iteration': 0, 'eval/in-domain/success': 0.5})}",
        f"(TaskRunnerV1 pid=7) {MARK}row {json.dumps(row)}",
    ):
        narrator.line(line)
    text = stream.getvalue()
    assert "workers, model and rollout servers are up" in text
    assert "success on in-domain 50.0%" in text
    assert "iteration    1/4" in text
    assert "success  25.0%" in text
    assert "100 tok/s" in text
    assert "loss -0.0100" in text
    assert "(play 5.0, update 2.0)" in text
    assert "torchtitan" not in text
    assert "shards" not in text
    now[0] += 31
    narrator.tick()
    still = stream.getvalue()[len(text) :]
    assert "still: workers, model and rollout servers are up" in still
    assert "Loading checkpoint shards" in still
    say("something")
    assert heard(capsys.readouterr().out) == "something"


STUBBORN = """
import os, subprocess, sys, time
child = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; print('child', flush=True); "
child += "time.sleep(300)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
print("started", flush=True)
time.sleep(300)
"""


def family(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_leaves_no_process_behind(tmp_path: Path, number: int) -> None:
    """verl's own child in a session of its own, deaf to signals, as a worker of Ray may be."""
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN, encoding="utf-8")
    driver = (
        "import sys; from pathlib import Path; from hgpo.verl.processes import execute; "
        "from hgpo.verl.narration import Silent; "
        f"execute([sys.executable, {str(script)!r}], Path({str(tmp_path / 'log')!r}), {{}}, Silent())"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", driver],
        env={**os.environ, "HGPO_TEST_FAMILY": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    mark = f"HGPO_TEST_FAMILY={tmp_path}"
    for _ in range(200):
        if (tmp_path / "log").exists() and "child" in (tmp_path / "log").read_text():
            break
        time.sleep(0.05)
    assert len(family(mark)) >= 3
    started.send_signal(number)
    assert started.wait(60) != 0
    assert family(mark) == []


def test_a_command_that_ends_by_itself_gives_its_status_and_its_log(tmp_path: Path) -> None:
    heard_lines: list[str] = []

    class Listening(Silent):
        def line(self, text: str) -> None:
            heard_lines.append(text)

    words = [sys.executable, "-c", f"import os, sys; print(len(os.environ[{FAMILY!r}])); sys.exit(3)"]
    assert execute(words, tmp_path / "log", {}, Listening()) == 3
    assert heard_lines == ["32"]
    assert (tmp_path / "log").read_text() == "32\n"
    assert threading.current_thread() is threading.main_thread()


def test_the_memory_of_the_presets_is_a_sum_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    small, large = KNOWN["Qwen/Qwen2.5-1.5B-Instruct"], KNOWN["Qwen/Qwen2.5-7B-Instruct"]
    assert small.weights == pytest.approx(1.54e9, rel=0.01)
    assert large.weights == pytest.approx(7.62e9, rel=0.01)
    fits = {
        (preset, name): reckon(load(preset), MACHINES[name], shape).fits()
        for preset, shape in (("alfworld-qwen2.5-1.5b", small), ("alfworld-qwen2.5-7b", large))
        for name in MACHINES
    }
    assert [name for (preset, name), fit in fits.items() if preset.endswith("1.5b") and fit] == list(MACHINES)
    # 7.6 billion weights with their optimiser take 122 GB.
    assert [name for (preset, name), fit in fits.items() if preset.endswith("7b") and fit] == [
        "2x80gb",
        "8x80gb",
    ]
    lora = load("alfworld-qwen2.5-7b", ["model.lora_rank=16", "update.micro_tokens=8192"])
    assert reckon(lora, MACHINES["1x80gb"], large).update[0].bytes < 35 * GB
    # Without a kernel for packing, padding is reckoned with.
    kernels = ([], ["model.attention=flash_attention_2"], ["model.attention=eager"])
    parts = [
        reckon(load("alfworld-qwen2.5-1.5b", words), Cluster(), small).update[1].bytes for words in kernels
    ]
    assert parts[2] == 4 * parts[1] == 4 * parts[0]
    assert main(["verl", "memory", "alfworld-qwen2.5-1.5b", "--machine", "2x80gb"]) == 0
    shown = capsys.readouterr().out
    assert "1.54 billion weights x 16 bytes (float32 weight, gradient, two moments) / 2 GPUs" in shown
    assert shown.rstrip().endswith("it fits")
    assert main(["verl", "memory", "alfworld-qwen2.5-7b", "--gpus", "1"]) == 1
    assert "does NOT fit" in capsys.readouterr().out
    assert main(["verl", "memory", "quickstart"]) == 2


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "verl.md").read_text(encoding="utf-8")
    command, _, printed = page.partition("$ hgpo verl memory")[2].partition("```")[0].partition("\n")
    assert main(["verl", "memory", *command.split()]) == 0
    assert capsys.readouterr().out == printed
    for machine in MACHINES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{machine}`")]
        main(["verl", "memory", "alfworld-qwen2.5-1.5b", "--machine", machine])
        said = capsys.readouterr().out
        assert [line.split()[1] for line in said.splitlines() if " of 80 GB" in line] == (
            row.split("|")[4].replace("GB", "").replace(",", "").split()
        )


def test_options_beside_a_machine_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "verl",
        "launch",
        "alfworld-qwen2.5-1.5b",
        "--run",
        str(tmp_path),
        "--print",
        "--machine",
        "8x80gb",
    ]
    assert main([*words, "--gpu-memory", "0.4"]) == 0
    shown = capsys.readouterr().out
    assert "trainer.n_gpus_per_node=8" in shown
    assert "gpu_memory_utilization=0.4" in shown
    assert "use_fused_kernels=true" in shown
    assert "ppo_max_token_len_per_gpu=32768" in shown
    assert main([*words[:-1], "9x80gb"]) == 2
    assert "Unknown machine '9x80gb'" in capsys.readouterr().err


def peft_folder(folder: Path) -> tuple[Any, Any]:
    """A tiny model with trained adapters, written as verl writes it; the model with them merged, and without."""
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import save_file

    from hgpo.models.tiny import make_tiny, make_tokenizer

    torch.manual_seed(0)
    tokenizer = make_tokenizer(["take the apple"], "word", 64)
    model = make_tiny(load("quickstart", TINY).model, len(tokenizer), tokenizer.eos_token_id, 0, 64)
    plain = {name: one.clone() for name, one in model.state_dict().items()}
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    for name, one in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(one, std=0.1)
    named = {name: one.contiguous() for name, one in adapted.state_dict().items() if "lm_head" not in name}
    folder.mkdir(parents=True)
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    half = len(named) // 2
    places = {}
    for number, part in enumerate((list(named)[:half], list(named)[half:])):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: named[name] for name in part}, folder / file, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return adapted.merge_and_unload().state_dict(), plain


def test_adapters_are_merged_as_peft_merges_them(tmp_path: Path) -> None:
    import torch

    from hgpo.models.load import load_weights
    from hgpo.verl.adapters import merge_folder, merged

    folder = tmp_path / "actor" / "huggingface"
    expected, plain = peft_folder(folder)
    with pytest.raises((ValueError, OSError)):
        load_weights(str(folder), torch.float32)
    assert merge_folder(folder, 8.0)
    found = load_weights(str(folder), torch.float32).state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-6, rtol=1e-6)
    assert any((found[name] - plain[name]).abs().max() > 1e-2 for name in plain)
    assert not merge_folder(folder, 8.0)
    assert [path.name for path in folder.glob("*.safetensors*")] == ["model.safetensors"]
    with pytest.raises(BadFile, match=r"has no .*lora_B.weight; expected both its halves"):
        merged({"a.weight": torch.zeros(2, 2)}, {"a.lora_A.weight": torch.zeros(1, 2)}, 1.0)


def test_a_note_of_verl_about_the_scale_wins(tmp_path: Path) -> None:
    from hgpo.verl.adapters import merge_folder

    folders = [tmp_path / name / "huggingface" for name in ("a", "b")]
    for folder in folders:
        _, plain = peft_folder(folder)
    (tmp_path / "b" / "lora_train_meta.json").write_text('{"r": 4, "lora_alpha": 8}')
    from safetensors.torch import load_file

    assert merge_folder(folders[0], 16.0)
    assert merge_folder(folders[1], 16.0)
    name = next(name for name in plain if "q_proj" in name)
    doubled, noted = (load_file(folder / "model.safetensors")[name] - plain[name] for folder in folders)
    assert (doubled - 2 * noted).abs().max() < 1e-5
    assert noted.abs().max() > 1e-3


def test_the_shape_of_a_model_is_read_from_its_folder(tmp_path: Path) -> None:
    settings = {
        "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 10,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert find_shape(str(tmp_path)) == Shape(2, 8, 16, 2, 2, 4, 10, False)
    (tmp_path / "config.json").write_text("{}")
    assert find_shape(str(tmp_path)) is None
