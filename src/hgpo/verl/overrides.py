"""Every override that a run of verl needs: our settings translated, and where the run happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.schema import Config
from ..errors import BadSetting, UnknownName
from .names import AGENT, ESTIMATOR, MODES
from .settings import RUN_FOLDER, quote, write
from .translation import ACTOR, REF, ROLLOUT, Start, translate

# verl's own top-level sections: words on the command line that start with one of these go to verl as they are.
SECTIONS = (
    "actor_rollout_ref",
    "algorithm",
    "critic",
    "data",
    "distillation",
    "global_profiler",
    "hydra",
    "model_engine",
    "ray_kwargs",
    "reward",
    "skip",
    "trainer",
    "transfer_queue",
)


TRANSFER_QUEUE = 9
"""Processes of verl's data plane: eight that store and one that controls."""


@dataclass(frozen=True)
class Cluster:
    """Where a run happens; everything else is in the training settings."""

    nodes: int = 1
    """Machines."""
    gpus: int = 1
    """GPUs of each machine."""
    engine: str = "vllm"
    """Rollout server: `vllm` or `sglang`."""
    mode: str = "sync"
    """`sync`, `colocate_async` or `separate_async`."""
    tensor_parallel: int = 1
    """GPUs that share one rollout server."""
    gpu_memory: float = 0.6
    """Share of GPU memory for the rollout server."""
    offload: bool = False
    """Keep parameters and optimiser state in CPU memory while the GPU samples."""
    workers: int = 8
    """Processes that run episodes."""
    rollout_nodes: int = 1
    """Machines with GPUs for rollouts only (`separate_async`)."""
    rollout_gpus: int = 0
    """GPUs for rollouts only on each of them (`separate_async`)."""
    ray_address: str = ""
    """Address of an existing Ray cluster (`auto` on one of its machines); empty starts a local one."""

    @property
    def all_gpus(self) -> int:
        """Of all machines, those for rollouts only included."""
        more = self.rollout_nodes * self.rollout_gpus if self.mode == "separate_async" else 0
        return self.nodes * self.gpus + more

    @property
    def cpus(self) -> int:
        """CPUs that verl books with Ray, generously: three for each GPU, one for each of its other processes.

        They are books, not cores. With fewer of them Ray waits for ever, without a word.
        """
        return 4 * self.all_gpus + self.workers + TRANSFER_QUEUE + 8

    def __post_init__(self) -> None:
        for name in ("nodes", "gpus", "tensor_parallel", "workers"):
            if getattr(self, name) < 1:
                raise BadSetting(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected 1 or more.")
        if self.mode not in MODES:
            raise UnknownName("mode", self.mode, MODES)
        if not 0.0 < self.gpu_memory < 1.0:
            raise BadSetting(f"--gpu-memory is {self.gpu_memory}; expected a share between 0 and 1.")
        if (self.nodes * self.gpus) % self.tensor_parallel:
            raise BadSetting(
                f"--tensor-parallel {self.tensor_parallel} does not divide the {self.nodes * self.gpus} GPUs."
            )
        if self.nodes > 1 and not self.ray_address:
            raise BadSetting(
                f"--nodes {self.nodes} needs a Ray cluster: start it with `ray start --head` and `ray start "
                "--address=HEAD:6379`, then give --ray-address auto."
            )
        if self.mode == "separate_async" and self.rollout_gpus < 1:
            raise BadSetting(
                "--mode separate_async needs GPUs of its own for rollouts: give --rollout-gpus N."
            )


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of the command line: those for our settings, those that verl gets as they are.

    >>> split_words(["group_size=8", "trainer.project_name=x", "+ray_kwargs.ray_init.num_gpus=1"])
    (['group_size=8'], ['trainer.project_name=x', '+ray_kwargs.ray_init.num_gpus=1'])
    """
    ours: list[str] = []
    theirs: list[str] = []
    for word in words:
        section = word.lstrip("+~").partition("=")[0].partition(".")[0]
        (theirs if word[:1] in "+~" or section in SECTIONS else ours).append(word)
    return ours, theirs


def overrides(
    config: Config,
    cluster: Cluster,
    *,
    model: str,
    train: Path,
    validation: Sequence[Path],
    run: Path,
    resume: bool,
) -> list[str]:
    """All overrides of a run on GPUs, ours first (`+hgpo...`), then verl's."""
    settings: dict[str, Any] = {
        "trainer.v1.trainer_mode": MODES[cluster.mode],
        "algorithm.adv_estimator": ESTIMATOR,
        "data.train_files": str(train),
        "data.val_files": [str(path) for path in validation],
        # The rows are in the order of training already.
        "data.shuffle": False,
        "data.dataloader_num_workers": 0,
        "data.trust_remote_code": False,
        f"{REF}.model.trust_remote_code": False,
        **translate(config, Start(model, run, resume)),
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.fsdp_config.strategy": "fsdp2",
        f"{ACTOR}.fsdp_config.param_offload": cluster.offload,
        f"{ACTOR}.fsdp_config.optimizer_offload": cluster.offload,
        f"{REF}.ref.fsdp_config.strategy": "fsdp2",
        # Log-probabilities and entropy from the hidden states, some hundred tokens at a time: the logits of a whole
        # pass (vocabulary x tokens, several copies) would be most of a GPU's memory.
        f"{REF}.model.use_fused_kernels": True,
        f"{REF}.model.fused_kernel_options.impl_backend": "torch",
        f"{ACTOR}.shuffle": True,
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{ACTOR}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{ROLLOUT}.name": cluster.engine,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.tensor_model_parallel_size": cluster.tensor_parallel,
        f"{ROLLOUT}.gpu_memory_utilization": cluster.gpu_memory,
        f"{ROLLOUT}.agent.default_agent_loop": AGENT,
        f"{ROLLOUT}.agent.num_workers": cluster.workers,
        "reward.num_workers": 1,
        "trainer.nnodes": cluster.nodes,
        "trainer.n_gpus_per_node": cluster.gpus,
        # Steps end the run, not passes over the rows.
        "trainer.total_epochs": 1_000_000,
        "trainer.default_local_dir": str(run / "checkpoints"),
        "trainer.resume_mode": "auto" if resume else "disable",
        f"+{RUN_FOLDER}": str(run),
        "hydra.run.dir": str(run / "hydra"),
    }
    if cluster.mode == "separate_async":
        settings |= {
            "trainer.v1.separate_async.parameter_sync_step": 1,
            f"{ROLLOUT}.nnodes": cluster.rollout_nodes,
            f"{ROLLOUT}.n_gpus_per_node": cluster.rollout_gpus,
            f"{ROLLOUT}.checkpoint_engine.backend": "nccl",
        }
    if cluster.ray_address:
        settings["+ray_kwargs.ray_init.address"] = cluster.ray_address
    else:
        settings["ray_kwargs.ray_init.num_cpus"] = cluster.cpus
    return [*write(config), *(f"{key}={quote(value)}" for key, value in settings.items())]
