"""Everything of TRL that we call, are called by or replace, with what we expect of it (`hgpo.hooks.check` looks).

TRL calls this part of itself experimental: it may move with any release.
"""

from __future__ import annotations

from ..hooks import Hook, check

_TRAINER = "trl.experimental.async_grpo.async_grpo_trainer"
_WORKER = "trl.experimental.async_grpo.async_rollout_worker"
_PACKING = "trl.experimental.async_grpo.packing"
_GRPO = "trl.trainer.grpo_trainer"

HOOKS = (
    Hook(
        _TRAINER,
        "AsyncGRPOTrainer.__init__",
        None,
        "worker.py",
        ("rollout_worker", "weight_transfer", "self.rollout_worker.rollout_buffer"),
    ),
    Hook(_TRAINER, "RolloutWorkerProtocol", None, "worker.py", ("rollout_buffer", "metrics_queue")),
    Hook(_TRAINER, "RolloutWorkerProtocol.start", ("self",), "worker.py"),
    Hook(_TRAINER, "RolloutWorkerProtocol.stop", ("self",), "worker.py"),
    Hook(_TRAINER, "RolloutWorkerProtocol.update_model_version", ("self", "model_version"), "worker.py"),
    Hook(_TRAINER, "RolloutWorkerProtocol.check_health", ("self", "stale_after_s"), "worker.py"),
    Hook(_TRAINER, "WeightTransferProtocol.init_weight_transfer", ("self",), "local.py"),
    Hook(_TRAINER, "WeightTransferProtocol.pause", ("self",), "local.py"),
    Hook(_TRAINER, "WeightTransferProtocol.send_weights", ("self", "iterator"), "local.py"),
    Hook(_TRAINER, "WeightTransferProtocol.resume", ("self",), "local.py"),
    Hook(_TRAINER, "WeightTransferProtocol.destroy", ("self",), "local.py"),
    Hook(
        _WORKER,
        "RolloutSample",
        (
            "prompt",
            "completion",
            "input_ids",
            "completion_mask",
            "old_log_probs",
            "advantage",
            "model_version",
            "group_id",
            "metrics",
            "enqueued_at",
        ),
        "samples.py",
    ),
    Hook(
        _TRAINER,
        "RolloutQueueDataset.__iter__",
        ("self",),
        "samples.py",
        ('"advantage": sample.advantage', "staleness > self.max_staleness"),
    ),
    Hook(
        _TRAINER,
        "AsyncGRPOTrainer.compute_loss",
        ("self", "model", "inputs"),
        "samples.py",
        ("log_probs - old_log_probs", "coef_1 * advantages"),
    ),
    Hook(
        _TRAINER,
        "AsyncGRPOTrainer._sync_weight_merged",
        ("self", "t0"),
        "local.py",
        ("self.weight_transfer.send_weights", "update_model_version"),
    ),
)
CPU_HOOKS = (
    Hook(_PACKING, "_flash_attn", (), "cpu.py"),
    Hook(
        _PACKING, "tree_attention", None, "cpu.py", ("_flash_attn().flash_attn_varlen_func", "softmax_scale=")
    ),
    Hook(_TRAINER, "get_peak_flops_per_device", None, "cpu.py"),
)
RECIPE_HOOKS = (
    Hook(_GRPO, "GRPOTrainer._generate_and_score_completions", ("self", "inputs"), "docs/trl.md"),
    Hook(
        _GRPO,
        "GRPOTrainer._compute_loss",
        ("self", "model", "inputs"),
        "docs/trl.md",
        ("advantages.dim() == 1", '"prompt_mask"', '"completion_mask"', '"num_items_in_batch"'),
    ),
    Hook("trl.trainer.utils", "pad", ("tensors",), "docs/trl.md"),
)


def misfit() -> str:
    """What of the installed TRL does not fit, with its version; empty when all fits."""
    return next((problem for problem in map(check, HOOKS) if problem), "")
