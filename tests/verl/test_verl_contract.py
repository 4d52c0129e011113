"""What we expect of verl, checked in seconds and without Ray: hooks, registries, config, the loop, the estimator.

A new verl release that moves something fails here first, with the name of what moved.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.config import estimator_settings, load, preset_names
from hgpo.errors import BadSetting, EnvironmentFailed
from hgpo.hooks import Hook, check
from hgpo.play import Job
from hgpo.verl.hooks import CPU_HOOKS, HOOKS
from hgpo.verl.overrides import Cluster, overrides
from hgpo.verl.settings import read
from hgpo.verl.translation import LOSS_MODES

pytestmark = pytest.mark.verl
verl = pytest.importorskip("verl")

WORLD = "tests.verl.worlds:Corridor"
SMALL = [
    "agent.prompt=generic",
    "agent.reasoning=false",
    "agent.max_steps=5",
    f"env={WORLD}",
    "warm.episodes=0",
]


@pytest.mark.parametrize("hook", [*HOOKS, *CPU_HOOKS], ids=lambda hook: hook.path)
def test_hook_is_as_expected(hook):
    assert check(hook) == ""


def test_a_hook_that_moved_is_named():
    module = "verl.trainer.ppo.v1.trainer_base"
    gone = check(Hook(module, "PPOTrainer._compute_advantages", ("self",), "trainer.py"))
    assert "PPOTrainer._compute_advantages does not exist" in gone
    other = check(Hook(module, "PPOTrainer._update_actor", ("self", "data"), "trainer.py"))
    assert "takes (self, batch, metrics); trainer.py expects (self, data)" in other
    inside = check(
        Hook(module, "PPOTrainer._update_actor", ("self", "batch", "metrics"), "x.py", ("no such",))
    )
    assert "no longer contains 'no such'" in inside
    assert "cannot be imported" in check(Hook("verl.nowhere", "f", (), "x.py"))


def test_everything_is_registered_by_import_alone():
    code = (
        "import verl; from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY as t; "
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as e; "
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry as a; "
        "from verl.workers.rollout.replica import RolloutReplicaRegistry as r; "
        "import json; print(json.dumps([sorted(t), 'hgpo' in e, a['hgpo'], sorted(r._registry)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    trainers, estimator, loop, rollouts = json.loads(done.stdout.splitlines()[-1])
    assert {"hgpo_sync", "hgpo_colocate_async", "hgpo_separate_async"} <= set(trainers)
    assert estimator
    assert loop == {"_target_": "hgpo.verl.loop.HgpoAgentLoop"}
    # The CPU platform and its rollout server are not there unless a dry run asked for them.
    assert "hgpo_cpu" not in rollouts


def test_a_version_that_does_not_fit_is_said_loudly():
    code = "from hgpo.verl import versions; versions.LOWEST = (99,); import verl; print('verl goes on')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert "the plug-in for verl was NOT loaded" in done.stderr
    assert "verl>=0.9.1,<0.10" in done.stderr
    assert "verl goes on" in done.stdout


def composed(words):
    """verl's config with overrides applied, as its entry point composes it."""
    from hydra import compose, initialize_config_module

    words = [word for word in words if not word.startswith("hydra.")]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=words)


def words_of(config, tmp_path, cluster=None):
    return overrides(
        config,
        cluster or Cluster(gpus=2),
        model="some/model",
        train=tmp_path / "train.parquet",
        validation=[tmp_path / "validation.parquet"],
        run=tmp_path,
        resume=False,
    )


@pytest.mark.parametrize("preset", preset_names())
def test_verl_takes_every_override_and_our_settings_come_back(preset, tmp_path):
    config = load(preset, ["name=it's ${a} \\ test", "seed=5"])
    found = composed(words_of(config, tmp_path))
    assert read(found) == config
    assert found.data.train_batch_size == config.rollout.tasks
    assert found.actor_rollout_ref.actor.optim.lr == config.update.lr
    assert found.actor_rollout_ref.rollout.response_length == config.agent.max_response_tokens


def test_verl_finds_the_config_of_every_mode_valid(tmp_path):
    from verl.utils.config import validate_config

    config = load("alfworld-qwen2.5-1.5b")
    for cluster in (
        Cluster(gpus=2),
        Cluster(gpus=2, mode="colocate_async", engine="sglang"),
        Cluster(gpus=2, mode="separate_async", rollout_gpus=2),
        Cluster(nodes=2, gpus=8, ray_address="auto", tensor_parallel=2, offload=True),
    ):
        found = composed(words_of(config, tmp_path, cluster))
        validate_config(config=found, use_reference_policy=True, use_critic=False)


class Servers:
    """Stands in for verl's rollout servers: fixed replies, and a record of what was asked."""

    def __init__(self, replies):
        self.replies, self.asked = list(replies), []

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        from verl.workers.rollout.replica import TokenOutput

        self.asked.append((request_id, prompt_ids, sampling_params))
        ids = self.replies[(len(self.asked) - 1) % len(self.replies)]
        steps = {"min_global_steps": 3, "max_global_steps": 3}
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=steps)


@pytest.fixture(scope="module")
def tokenizer():
    from hgpo.models.tiny import make_tokenizer

    return make_tokenizer(["cell 0 1 2 3 4 left right your task is to reach the end"], "bpe", 300)


def make_loop(config, servers, tokenizer, tmp_path):
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset

    from hgpo.verl.loop import HgpoAgentLoop

    whole = DictConfigWrap(composed(words_of(config, tmp_path)))
    return HgpoAgentLoop(
        trainer_config=whole,
        server_manager=servers,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(whole.config.data),
        hf_model_type="llama",
    )


def row(session=0, uid="u1", **extra):
    info = {
        "index": 0,
        "task": "train/3",
        "group": "train/3",
        "seed": 11,
        "split": "train",
        "purpose": "train",
    }
    return {"uid": uid, "session_id": session, "global_steps": 4, "extra_info": {**info, **extra}}


def test_a_worker_reads_settings_and_chat_template_once(tokenizer, tmp_path, monkeypatch):
    """verl makes an agent loop for every rollout; the config it hands over is the worker's one object."""
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    import hgpo.verl.play as play

    counts = {"read": 0, "template": 0}

    def read(config, original=play.read):
        counts["read"] += 1
        return original(config)

    class Counting(play.PromptEncoder):
        def _fixed_ends(self):
            counts["template"] += 1
            return super()._fixed_ends()

    monkeypatch.setattr(play, "read", read)
    monkeypatch.setattr(play, "PromptEncoder", Counting)
    servers = Servers([tokenizer.encode("<action>right!</action>")])
    loop = make_loop(load("quickstart", SMALL), servers, tokenizer, tmp_path)
    again = type(loop)(
        trainer_config=DictConfigWrap(loop.config),
        server_manager=servers,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=loop.dataset_cls,
        data_config=DictConfigWrap(loop.config.data),
        hf_model_type="llama",
    )

    async def run():
        for one in (loop, again):
            await one.run({"temperature": 1.0, "logprobs": True}, **row())

    asyncio.run(run())
    assert counts == {"read": 1, "template": 1}


def test_the_loop_returns_one_output_per_step(tokenizer, tmp_path):
    config = load("quickstart", SMALL)
    right, wrong = tokenizer.encode("<action>right!</action>"), tokenizer.encode("hm")
    servers = Servers([right, wrong, right, right])
    loop = make_loop(config, servers, tokenizer, tmp_path)

    async def play():
        return await loop.run({"temperature": 1.0, "logprobs": True}, **row())

    found = asyncio.run(play())
    assert 1 < len(found) <= 5
    for number, output in enumerate(found):
        record = output.extra_fields["hgpo"]
        assert record["step"] == number
        assert output.prompt_ids == servers.asked[number][1] == tokenizer.encode(record["prompt"])
        assert output.response_mask == [1] * len(output.response_ids)
        assert len(output.response_logprobs) == len(output.response_ids)
        # verl's metrics read these.
        assert output.extra_fields["max_global_steps"] == 3
    # The episode's return is on the last output alone; verl copies it.
    assert [output.reward_score for output in found[:-1]] == [None] * (len(found) - 1)
    rewards = [output.extra_fields["hgpo"]["reward"] for output in found]
    assert found[-1].reward_score == pytest.approx(sum(rewards))
    assert set(found[-1].extra_fields["reward_extra_info"]) == {"success", "return", "score", "steps"}
    assert found[1].extra_fields["hgpo"]["outcome"] == "malformed"
    # All requests of a rollout go to one server, with our limit on the reply.
    assert len({request for request, _, _ in servers.asked}) == 1
    assert servers.asked[0][2]["max_tokens"] == config.agent.max_response_tokens


def test_repeats_of_a_row_start_alike_and_long_prompts_are_cut_by_our_rule(tokenizer, tmp_path):
    config = load("quickstart", [*SMALL, "history_length=3", "agent.max_prompt_tokens=230"])
    servers = Servers([tokenizer.encode("<action>up</action>"), tokenizer.encode("<action>upp</action>")])
    loop = make_loop(config, servers, tokenizer, tmp_path)

    async def play():
        return await asyncio.gather(*(loop.run({}, **row(session)) for session in range(4)))

    groups = asyncio.run(play())
    first = [outputs[0].extra_fields["hgpo"] for outputs in groups]
    assert len({record["prompt"] for record in first}) == 1
    assert len({record["episode_seed"] for record in first}) == 4
    assert len({record["task"] for record in first}) == 1
    every = [output for outputs in groups for output in outputs]
    assert all(len(output.prompt_ids) <= 230 for output in every)
    cut = [output.extra_fields["hgpo"] for output in every if output.extra_fields["hgpo"]["shortened"]]
    assert cut, "the limit should bite in this test"
    assert all("reach the end" in record["prompt"] for record in cut)


def test_a_row_that_we_did_not_write_is_refused(tokenizer, tmp_path):
    loop = make_loop(load("quickstart", SMALL), Servers([[1]]), tokenizer, tmp_path)
    with pytest.raises(BadSetting, match="hgpo verl data"):
        asyncio.run(loop.run({}, uid="u", session_id=0, global_steps=1, extra_info={"index": 0}))


def test_a_failing_environment_is_retried_then_named(tokenizer, tmp_path, monkeypatch):
    from hgpo.verl import loop as module

    config = load("quickstart", [*SMALL, "env=tests.verl.worlds:Faulty", "env.attempts=2"])
    tags = []

    async def put(**given):
        tags.append(given)

    monkeypatch.setattr(module.tq, "async_kv_put", put)
    loop = make_loop(config, Servers([tokenizer.encode("x")]), tokenizer, tmp_path)
    with pytest.raises(EnvironmentFailed, match="lost its game file"):
        asyncio.run(loop.run({}, **row(task="train/0")))
    assert tags[0]["key"] == "u1"
    assert tags[0]["partition_id"] == "train"
    assert "lost its game file" in tags[0]["tag"]["hgpo_failure"]
    assert tags[0]["tag"]["hgpo_failures_0"] == 2


def test_an_environment_that_hangs_in_a_thread_gives_the_episode_up():
    from hgpo.verl.play import TimedPool

    released = threading.Event()
    pool = TimedPool(lambda: None, 2, max_reuse=0, timeout=0.2)

    async def call():
        began = time.monotonic()
        with pytest.raises(EnvironmentFailed, match=r"within 0\.2 s"):
            await pool.call(lambda: released.wait(20))
        return time.monotonic() - began

    try:
        assert asyncio.run(asyncio.wait_for(call(), 10)) < 5
    finally:
        released.set()
        pool.close()


def test_only_our_own_environments_share_the_workers_process():
    from hgpo.verl.play import WorkerStage

    async def kinds():
        return [WorkerStage(load("quickstart", words), 4).stage.blocking for words in ([], [f"env={WORLD}"])]

    assert asyncio.run(kinds()) == [False, True]


def records(count=6, seed=0):
    """Steps of made-up episodes, as the loop records them."""
    random = np.random.default_rng(seed)
    found = []
    for episode in range(count):
        length = int(random.integers(2, 6))
        for step in range(length):
            found.append(
                {
                    "task": f"t{episode % 2}",
                    "trajectory": f"t{episode % 2}/{episode}",
                    "step": step,
                    "observation": f"cell {random.integers(3)}",
                    "action": "go",
                    "reward": float(random.normal()),
                    "valid": bool(random.random() < 0.8),
                    "outcome": "ok",
                    "success": False,
                    "score": 0.0,
                    "shortened": False,
                    "environment_failures": 0,
                }
            )
    return found


@pytest.mark.parametrize("name", ["hgpo", "gigpo", "grpo", "rloo"])
def test_advantages_do_not_depend_on_order_or_padding(name):
    from hgpo.verl.advantage import advantages

    config = load("quickstart", [f"estimator={name}"])
    steps = records()
    expected = estimate(StepBatch.from_rows(steps), name, **estimator_settings(config)).advantages
    assert np.abs(expected).max() > 0.1
    order = np.random.default_rng(1).permutation(len(steps))
    padded = [None, *(steps[place] for place in order[:5]), None, *(steps[place] for place in order[5:])]
    found = advantages(padded, config)
    assert found.values[0] == found.values[6] == 0.0
    real = np.delete(found.values, [0, 6])
    np.testing.assert_allclose(real, expected[order], atol=1e-12)
    assert found.metrics["hgpo/padding_rows"] == 2
    assert found.metrics["hgpo/steps"] == len(steps)


def test_the_registered_estimator_spreads_what_it_was_handed():
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from hgpo.verl.advantage import handed_over

    estimator = get_adv_estimator_fn("hgpo")
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    with handed_over(np.array([0.5, -2.0])):
        advantage, returns = estimator(
            token_level_rewards=mask.float(), response_mask=mask, config=None, index=None
        )
    assert advantage.tolist() == returns.tolist() == [[0.5, 0.5, 0.0], [-2.0, 0.0, 0.0]]
    with pytest.raises(BadSetting, match="hgpo_sync"):
        estimator(token_level_rewards=mask.float(), response_mask=mask)


def buffer(monkeypatch, tags, refilled, **more):
    """Our synchronous buffer over an in-memory stand-in for TransferQueue."""
    from verl.trainer.ppo.v1 import replay_buffer

    from hgpo.verl import buffer as ours

    store = defaultdict(dict, {"train": dict(tags)})

    class Queue:
        @staticmethod
        def kv_list(partition_id=None):
            return store if partition_id is None else {partition_id: store[partition_id]}

        @staticmethod
        def kv_clear(partition_id, keys):
            for key in keys:
                store[partition_id].pop(key, None)

        @staticmethod
        def kv_batch_get(keys, partition_id, select_fields):
            assert select_fields == ["rm_scores"]
            return {"rm_scores": [np.array(store[partition_id][key]["score"]) for key in keys]}

    monkeypatch.setattr(replay_buffer, "tq", Queue)
    monkeypatch.setattr(ours, "tq", Queue)

    def refill(count):
        refilled.append(count)
        for _ in range(count):
            refilled_as = f"new{len(store['train'])}"
            store["train"] |= group(refilled_as, "finished", 2)
        return count

    return ours.WholeGroups(
        trainer_mode="sync",
        trainer_config={},
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs=more,
        poll_interval=0.01,
        refill_fn=refill,
    )


def group(uid, status, rollouts, **more):
    """Tags of a group and of the steps of its rollouts."""
    prompt = {uid: {"is_prompt": True, "status": status, "global_steps": 1, **more}}
    scores = range(rollouts) if uid != "same" else [1] * rollouts
    return prompt | {
        f"{uid}_{session}_0": {"status": "success", "score": float(score)}
        for session, score in enumerate(scores)
    }


def test_a_group_that_lost_a_rollout_is_replaced_whole_and_counted(monkeypatch):
    refilled: list[int] = []
    tags = group("a", "finished", 2) | group(
        "b", "failure", 1, hgpo_failure="it died", hgpo_failures_0=2, hgpo_failures_1=1
    )
    found, metrics = buffer(monkeypatch, tags, refilled).sample(1, "train", 2)
    assert refilled == [1]
    assert Counter(key.split("_")[0] for key in found.keys)["b"] == 0
    assert len(found.keys) == 4
    assert metrics["hgpo/lost_groups"] == 1
    assert metrics["hgpo/environment_failures"] == 3


def test_silent_groups_are_replaced_where_asked(monkeypatch):
    refilled: list[int] = []
    more = {"train_batch_size": 2, "filter_groups_metric": "reward", "max_inflight_gen_batches": 1}
    tags = group("same", "finished", 2) | group("b", "finished", 2)
    found, metrics = buffer(monkeypatch, tags, refilled, **more).sample(1, "train", 2)
    # Two are played for each one lost; which of the three good groups is then too many is verl's choice.
    assert len({key.split("_")[0] for key in found.keys}) == 2
    assert refilled == [2]
    assert not any(key.startswith("same") for key in found.keys)
    assert metrics["training/filter_groups/evicted_samples"] == 1
    assert metrics["hgpo/lost_groups"] == 0


def test_a_world_in_which_nothing_can_be_played_ends_the_run(monkeypatch):
    refilled: list[int] = []
    made = buffer(monkeypatch, group("a", "failure", 0, hgpo_failure="it died"), refilled)

    def only_failures(count):
        refilled.append(count)
        from verl.trainer.ppo.v1 import replay_buffer

        number = len(refilled)
        replay_buffer.tq.kv_list()["train"].update(group(f"g{number}", "failure", 0, hgpo_failure="it died"))

    made.refill_fn = only_failures
    with pytest.raises(EnvironmentFailed, match="it died"):
        made.sample(1, "train", 1)
    assert len(refilled) == 4


def test_validation_keeps_what_could_be_played(monkeypatch):
    made = buffer(monkeypatch, {}, [])
    from verl.trainer.ppo.v1 import replay_buffer

    replay_buffer.tq.kv_list()["val"].update(group("v", "failure", 1) | group("w", "finished", 1))
    found, metrics = made.sample(1, "val", 2)
    assert len(found.keys) == 2
    assert metrics == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm.adv_estimator=grpo"], "choose the estimator"),
        (["algorithm.use_kl_in_reward=True"], "KL loss"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(words, message, tmp_path):
    from hgpo.verl.trainer import HgpoTrainerSync

    config = composed([*words_of(load("quickstart"), tmp_path), *words])
    with pytest.raises(BadSetting, match=message):
        HgpoTrainerSync(config)


def test_without_our_section_the_trainer_says_how_to_start():
    with pytest.raises(BadSetting, match="hgpo verl launch"):
        read(composed([]))


def test_every_mode_is_built_with_our_buffer(tmp_path):
    from hgpo.verl import buffer as ours
    from hgpo.verl import trainer

    kinds = {
        "sync": (trainer.HgpoTrainerSync, ours.WholeGroups),
        "colocate_async": (trainer.HgpoTrainerColocateAsync, ours.WholeGroupsAsync),
        "separate_async": (trainer.HgpoTrainerSeparateAsync, ours.WholeGroupsAsync),
    }
    for mode, (kind, expected) in kinds.items():
        config = composed(words_of(load("quickstart"), tmp_path, Cluster(mode=mode, rollout_gpus=1)))
        made = kind(config)
        # `load_extern_type` loads the module anew, so classes compare by name.
        assert type(made.replay_buffer).__name__ == expected.__name__
        assert made.replay_buffer.poll_interval == ours.POLL < 1
        assert made.trainer_mode == mode
        made.rows, made.global_steps = 100, 1
        # Four updates (as the preset asks) of 26 rows, 13 for each process.
        assert made._get_required_batch_multiple(2) == 104
        with made._mini_batch(50):
            assert made.config.actor_rollout_ref.actor.ppo_mini_batch_size == 50
        assert made.config.actor_rollout_ref.rollout.n == load("quickstart").rollout.group_size


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [1, 1, 1, 1, 1]),
        (["update.warmup=8"], [1 / 2, 1, 1, 1, 1]),
        (["update.warmup=12", "update.lr_end=0.5"], [1 / 3, 2 / 3, 1, 1, 1]),
        (["update.schedule=cosine"], [1, 0.905, 0.655, 0.345, 0.095]),
        (["update.schedule=cosine", "update.warmup=4", "update.lr_end=0.2"], [1, 0.883, 0.6, 0.317, 0.2]),
    ],
)
def test_the_learning_rate_of_each_iteration_is_never_0(words, expected, tmp_path):
    """verl counts its warm-up from 0: our first iteration trained at rate 0, that is, not at all."""
    import torch
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    words = ["update.lr=0.25", "update.updates=4", "update.warmup=0", "update.schedule=constant", *words]
    made = composed(words_of(load("quickstart", words), tmp_path)).actor_rollout_ref.actor.optim
    made.total_training_steps = 5
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=made.lr)
    engine = type("Engine", (), {"optimizer_config": made, "rank": 1})()
    scheduler = FSDPEngine._build_lr_scheduler(engine, optimiser)
    rates = []
    for _ in expected:
        rates.append(scheduler.get_last_lr()[0])
        optimiser.step()
        scheduler.step()
    assert rates == pytest.approx([0.25 * share for share in expected], abs=1e-3)


def test_doctor_finds_a_dry_run_possible_and_training_without_gpus_not(capsys):
    import torch

    from hgpo.cli import main

    assert main(["verl", "doctor", "--cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ready"]
    assert {"verl", "hooks", "plug-in", "agent loop", "estimator", "trainer modes", "memory"} <= {
        one["name"] for one in found["findings"]
    }
    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    assert main(["verl", "doctor", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    missing = [one for one in findings if one["level"] == "error"]
    assert {"GPUs", "rollout engine"} <= {one["name"] for one in missing}
    assert all(one["fix"] for one in missing)


def test_doctor_names_a_plug_in_that_was_turned_off(monkeypatch):
    from hgpo.verl.doctor import examine

    monkeypatch.setitem(os.environ, "VERL_USE_EXTERNAL_PLUGINS", "none")
    problem = next(one for one in examine(cpu=True) if one.name == "plug-in")
    assert problem.level == "error"
    assert "VERL_USE_EXTERNAL_PLUGINS" in problem.fix


def test_the_seeds_are_those_of_the_local_trainer():
    from hgpo.seeds import derive
    from hgpo.verl.loop import make_job

    config = replace(load("quickstart"), seed=9)
    job = make_job(config, row(session=2))
    assert job == Job("train/3", "train/3#u1", 2, derive(9, "rollout", 4, "train/3", 2), 11)


@pytest.mark.parametrize("aggregate", ["token-mean", "step-mean"])
@pytest.mark.parametrize("name", LOSS_MODES)
def test_policy_losses_are_ours(name, aggregate):
    """Value and gradient of every loss, with rows of unequal length."""
    import torch
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    from hgpo.config.schema import UpdateConfig
    from hgpo.learn.objective import LOSSES

    clips = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.3, "clip_ratio_c": 3.0}
    actor = ActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **clips)
    random = torch.Generator().manual_seed(0)
    old = -torch.rand(6, 5, generator=random)
    mask = (torch.arange(5) < torch.randint(1, 6, (6, 1), generator=random)).float()
    advantages = torch.randn(6, generator=random)
    logs = (old + 0.8 * torch.randn(6, 5, generator=random)).requires_grad_()
    theirs, _ = get_policy_loss_fn(LOSS_MODES[name])(
        old_log_prob=old,
        log_prob=logs,
        advantages=advantages[:, None].expand(6, 5),
        response_mask=mask,
        loss_agg_mode={"step-mean": "seq-mean-token-mean"}.get(aggregate, aggregate),
        config=actor,
    )
    terms, _ = LOSSES[name](logs, old, advantages, mask, UpdateConfig(clip_low=0.2, clip_high=0.3))
    weights = mask / mask.sum(1, keepdim=True) / 6 if aggregate == "step-mean" else mask / mask.sum()
    ours = (terms * weights).sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, logs), torch.autograd.grad(theirs, logs))


def test_rollouts_of_a_group_ask_the_same_server_as_long_as_all_servers_have_groups(tmp_path):
    from hgpo.verl.loop import session_of

    config = load("quickstart", [*SMALL, "rollout.tasks=16"])
    few = composed(words_of(config, tmp_path, Cluster(gpus=8)))
    assert session_of(few, row(0)) == session_of(few, row(1)) == "u1"
    many = composed(words_of(config, tmp_path, Cluster(gpus=16)))
    assert session_of(many, row(0)) != session_of(many, row(1))
    shared = composed(words_of(config, tmp_path, Cluster(gpus=16, tensor_parallel=2)))
    assert session_of(shared, row(0)) == session_of(shared, row(1))
    sure = composed([*words_of(config, tmp_path), "actor_rollout_ref.rollout.full_determinism=true"])
    assert session_of(sure, row(0)) != session_of(sure, row(1))


def test_the_gap_between_sampler_and_trainer_counts_trained_tokens_only():
    import torch

    from hgpo.verl.advantage import logprob_gap

    ours = [torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-5.0])]
    theirs = [torch.tensor([-1.5, -2.0, -9.0]), torch.tensor([0.0])]
    masks = [torch.tensor([1, 1, 0]), torch.tensor([0])]
    assert logprob_gap(ours, theirs, masks) == {"engine/logprob_gap": 0.25, "engine/logprob_gap_max": 0.5}
    assert logprob_gap(ours, theirs, [torch.zeros(3), torch.zeros(1)]) == {}


@pytest.mark.parametrize("old", ["sampled", "recomputed"])
def test_truncated_weights_need_recomputed_log_probabilities(old, tmp_path):
    """With the sampler's own log-probabilities as the old ones verl would leave the correction out without a word."""
    from hgpo.verl.trainer import _check

    config = load("quickstart", [f"update.old_logprobs={old}"])
    found = composed([*words_of(config, tmp_path), "algorithm.rollout_correction.rollout_is=token"])
    if old == "recomputed":
        _check(found)
    else:
        with pytest.raises(BadSetting, match=r"set update\.old_logprobs=recomputed"):
            _check(found)
