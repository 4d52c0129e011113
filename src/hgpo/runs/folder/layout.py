"""What lies in the folder of a run, and which trainer writes it."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL, VERL = "hgpo", "verl"
"""The trainers."""


@dataclass(frozen=True)
class Entry:
    """One file or folder of a run."""

    name: str
    """Its path in the run folder; N stands for a digit of an iteration."""
    content: str
    """What it holds."""
    trainer: str = ""
    """The only trainer that writes it; empty for both."""


LAYOUT = (
    Entry("config.json", "settings, estimator, task panels, trainer, package versions and commit"),
    Entry("metrics.jsonl", "one line per iteration"),
    Entry(
        "rollouts/NNNNNN.parquet",
        "steps and advantages of every `rollout.keep_every`-th iteration and of the last (`.jsonl.gz` without pyarrow)",
    ),
    Entry("start/", "the policy that the run began with, if the run made it (`model=tiny`, `warm.episodes`)"),
    Entry(
        "checkpoints/NNNNNN/",
        "`trainer.safetensors` (weights and optimiser), `state.json` and `model/` (of a LoRA run the adapters alone); "
        "the best and the last are kept",
        LOCAL,
    ),
    Entry(
        "checkpoints/global_step_N/", "verl's own checkpoints, with the model in Hugging Face format", VERL
    ),
    Entry(
        "model/",
        "the policy at the end, in Hugging Face format, with its settings in `hgpo.json` and a card in `README.md`",
    ),
    Entry("results.json", "the outcome: how the run ended, success at the start, at the end and at best"),
    Entry("curves.png", "learning curves (with matplotlib)"),
    Entry("not_finite.jsonl.gz", "the batch that gave a loss or gradient that is not finite", LOCAL),
    Entry("tensorboard/", "TensorBoard's files (`track.tensorboard=true`)", LOCAL),
    Entry("data/", "the dataset rows: one per group to play", VERL),
    Entry("verl.log", "everything that verl printed", VERL),
    Entry("hydra/", "verl's resolved configuration", VERL),
    Entry("rows.parquet", "of a dry run: all steps with the advantages that verl trained on", VERL),
)
