"""Rows of realistic lengths for the other benchmarks: ALFWorld played by the expert with mistakes, as token ids.

    python benchmarks/rows.py --data GAMES --tokenizer FOLDER --out rows30.npz
    python benchmarks/rows.py --data GAMES --tokenizer FOLDER --out rows50.npz --max-steps 50 --noise 0.6
    python benchmarks/rows.py --data GAMES --tokenizer FOLDER --out rows-env.npz agent.prompt=env agent.show_status=true

16 games x 8 rollouts, compact prompts with K = 4 unless settings say otherwise; --noise is the share of the steps that
are mistakes. The advantages are those of HGPO-lambda. Writes arrays `prompts`, `prompt_lengths`, `replies`,
`reply_lengths` (ids end to end) and `advantage`; prints how much of the rows is left when beginnings that several share
count once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hgpo.config import estimator_settings, load
from hgpo.config.stage import open_stage
from hgpo.envs.actors import expert
from hgpo.estimators.estimate import arrange, compute
from hgpo.models.load import load_tokenizer
from hgpo.models.packing import packs
from hgpo.play import Job, record
from hgpo.policies.encoding import PromptEncoder
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.steps.columns import Ragged


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of what the agent sees")
    parser.add_argument("--data", required=True, help="ALFWorld's games")
    parser.add_argument("--tokenizer", required=True, help="folder of a tokenizer")
    parser.add_argument("--max-steps", type=int, default=30)
    parser.add_argument("--noise", type=float, default=0.4)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_intermixed_args()
    words = ["history_length=4", "estimator=hgpo_lambda", f"max_steps={args.max_steps}", *args.settings]
    config = load("alfworld-smollm2", [f"env.data={args.data}", *words])
    stage = open_stage(config)
    tasks = stage.tasks("train")
    drawn = np.random.default_rng(1).choice(len(tasks), 16, replace=False).tolist()
    jobs = [Job(tasks[i], tasks[i], index, i * 100 + index, i) for i in drawn for index in range(8)]
    policy = ScriptedPolicy(lambda: expert(stage.expert_source), stage.style, args.noise)
    batch = record(stage.play(policy, jobs).episodes)
    advantages = arrange(batch, compute(batch, "hgpo_lambda", estimator_settings(config))).advantages
    tokenizer = load_tokenizer(args.tokenizer)
    prompts = PromptEncoder(tokenizer).many(batch["prompt"].tolist())
    said = tokenizer(batch["response"].tolist(), add_special_tokens=False)["input_ids"]
    replies = [[*reply, tokenizer.eos_token_id] for reply in said]
    asked, answered = Ragged.of(prompts, np.int64), Ragged.of(replies, np.int64)
    np.savez_compressed(
        args.out,
        prompts=asked.values.astype(np.int32),
        prompt_lengths=asked.lengths,
        replies=answered.values.astype(np.int32),
        reply_lengths=answered.lengths,
        advantage=advantages,
    )
    rows = Ragged.of([[*prompt, *reply] for prompt, reply in zip(prompts, replies)], np.int64)
    total = len(rows.values)
    sizes = f"{asked.lengths.mean():.0f} of a prompt, {answered.lengths.mean():.1f} of a reply"
    print(f"{len(rows)} rows, {total} tokens, {sizes}")
    for budget in (16384, 32768, 65536):
        parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), 4)
        left = sum(tokens for part in parts for _, tokens in packs(rows, part, budget))
        print(f"computed in passes of {budget} tokens, four updates: {left / total:.1%}")


if __name__ == "__main__":
    main()
