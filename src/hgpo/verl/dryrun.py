"""A real verl run of a few steps on the CPU, to test a config before renting GPUs.

verl's own entry point, trainer, data plane, weight push, validation and checkpoints; only the model is a tiny random
one, the sizes are small, and the platform and rollout server are those of `cpu`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..config import estimator_settings, load
from ..config.schema import Config
from ..errors import BadSetting, NumbersDiffer
from ..estimators.estimate import estimate
from ..estimators.scale import root_mean_square
from ..models.folder import write_model
from ..runs.folder import RunFolder
from ..steps.batch import StepBatch
from .launch import launch, local_environment, make_start, resumed
from .names import CPU_ROLLOUT, CPU_SWITCH
from .overrides import Cluster
from .play import isolated

# What makes any preset small; settings on the command line come after these.
SMALL = (
    "rollout.tasks=2",
    "rollout.group_size=4",
    "rollout.keep_every=1",
    "agent.max_steps=4",
    "agent.max_response_tokens=8",
    "model.path=tiny",
    "model.hidden=32",
    "model.layers=2",
    "model.heads=2",
    "model.intermediate=64",
    "model.tokenizer=bpe",
    "model.dtype=float32",
    "model.attention=sdpa",
    "model.lora_rank=0",
    "model.gradient_checkpointing=false",
    "warm.episodes=0",
    "eval.tasks=2",
    "device=cpu",
)
TOLERANCE = 1e-6


def dry_config(preset: str, words: Sequence[str], steps: int) -> Config:
    """The preset made small, then changed by `words`."""
    length = (f"iterations={steps}", f"save_every={steps}", f"eval.every={steps}")
    return load(preset, [*SMALL, *length, *words])


def dry_run(
    preset: str,
    words: Sequence[str],
    extra: Sequence[str],
    folder: Path,
    *,
    processes: int = 1,
    steps: int = 2,
    resume: bool = False,
    echo: bool = False,
    quiet: bool = False,
    allow_env: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Run verl for `steps` steps (after those already done, with `resume`) and check what it trained on.

    Returns:
        steps done, rows, the largest difference between the advantages verl trained on and `estimate`, and how
        many of them are not zero (a random model may never do anything that is rewarded).
    """
    if processes < 1 or steps < 1:
        raise BadSetting(f"--processes {processes} --steps {steps}: expected 1 or more of each.")
    run = RunFolder(folder.resolve())
    done = run.verl_step() if resume else 0
    config = resumed(run, done + steps, allow_env=allow_env) if resume else dry_config(preset, words, steps)
    began = time.monotonic()
    launch(
        config,
        run,
        Cluster(gpus=processes, workers=1),
        [*cpu_overrides(processes), *extra],
        resume=resume,
        environment=local_environment(CPU_SWITCH),
        prepare=_model,
        echo=echo,
        quiet=quiet,
    )
    batch = trained_steps(run)
    batch.write(run.rows_file)
    largest = check_advantages(batch, config)
    return {
        "steps": run.verl_step(),
        "rows": len(batch),
        "largest_difference": largest,
        "nonzero_advantages": float(np.mean(batch["advantage"].astype(float) != 0.0)),
        "processes": processes,
        "seconds": time.monotonic() - began,
        "run": str(run.path),
    }


def cpu_overrides(processes: int) -> list[str]:
    """What a run needs on the CPU, on top of the overrides of a run on GPUs."""
    ref = "actor_rollout_ref"
    return [
        "trainer.device=cpu",
        f"{ref}.rollout.name={CPU_ROLLOUT}",
        f"{ref}.actor.use_torch_compile=False",
        f"{ref}.actor.fsdp_config.use_torch_compile=False",
        f"{ref}.ref.fsdp_config.use_torch_compile=False",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        # Every worker reserves several CPUs and one GPU; the numbers are Ray's books, not the machine's.
        "ray_kwargs.ray_init.num_cpus=32",
        f"+ray_kwargs.ray_init.num_gpus={processes}",
        "+ray_kwargs.ray_init.runtime_env.env_vars.CUDA_VISIBLE_DEVICES='-1'",
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init.object_store_memory=500000000",
    ]


def _model(config: Config, run: RunFolder) -> None:
    """A tiny random model whose tokenizer knows the environment's words; warm-started only where asked for."""
    from ..config.load import as_dict
    from ..config.stage import open_stage
    from ..models.load import save_model
    from ..models.tiny import make_tiny, make_tokenizer
    from ..runs.start import makes_start, wander

    if run.start.is_dir() or not makes_start(config):
        return
    if config.warm.episodes:
        make_start(config, run)
        return
    stage = open_stage(isolated(config))
    tokenizer = make_tokenizer(wander(stage, config, 8), config.model.tokenizer, config.model.vocabulary)
    stage.close()
    positions = config.agent.max_prompt_tokens + config.agent.max_response_tokens
    model = make_tiny(config.model, len(tokenizer), tokenizer.eos_token_id, config.seed, positions)
    write_model(run.start, lambda partial: save_model(model, tokenizer, partial), as_dict(config))


def trained_steps(run: RunFolder) -> StepBatch:
    """All kept steps up to the last checkpoint as one batch."""
    done = run.verl_step()
    files = [path for path, iteration in run.rollout_files().items() if iteration <= done]
    return StepBatch.from_rows(row for path in files for row in StepBatch.read(path).rows())


def check_advantages(batch: StepBatch, config: Config) -> float:
    """The largest difference between the advantages that verl trained on and `estimate` on the same steps.

    Raises:
        NumbersDiffer: it is larger than 1e-6.
    """
    settings, largest = estimator_settings(config), 0.0
    for iteration in np.unique(batch["iteration"]):
        part = batch.take(np.flatnonzero(batch["iteration"] == iteration))
        expected = estimate(part, config.estimator.name, **settings).advantages
        if config.update.normalise_advantages:
            expected = expected / root_mean_square(expected)
        trained = part["advantage"].astype(float)
        known = np.isfinite(trained)
        largest = max(largest, float(np.abs(trained[known] - expected[known]).max(initial=0.0)))
    if largest > TOLERANCE:
        raise NumbersDiffer(
            f"The advantages that verl trained on differ from `hgpo.estimate` on the same steps by {largest:.2e}; "
            f"expected at most {TOLERANCE:.0e}. Look at rows.parquet."
        )
    return largest
