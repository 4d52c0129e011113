"""Everything of verl that we override, call or read, with what we expect of it (`hgpo.hooks.check` looks)."""

from __future__ import annotations

from ..hooks import Hook

_BASE = "verl.trainer.ppo.v1.trainer_base"
_BUFFER = "verl.trainer.ppo.v1.replay_buffer"
_LOOP = "verl.experimental.agent_loop.agent_loop"
_TQ = "verl.trainer.ppo.v1.agent_loop_tq"

HOOKS = (
    Hook(_BASE, "register_trainer", ("name",), "trainer.py"),
    Hook(_BASE, "get_trainer_cls", ("name",), "doctor.py"),
    Hook(
        _BASE,
        "PPOTrainer.__init__",
        ("self", "config"),
        "trainer.py",
        ("trainer_mode", "_build_replay_buffer"),
    ),
    Hook(
        _BASE,
        "PPOTrainer._build_replay_buffer",
        ("self",),
        "trainer.py",
        ("custom_sampler", "load_extern_type", "sampler_kwargs", "refill_fn"),
    ),
    Hook(
        _BASE,
        "PPOTrainer._balance_batch",
        ("self", "batch", "metrics"),
        "trainer.py",
        ("_get_required_batch_multiple(dp_size)", "upsample_batch_to_divisible_size"),
    ),
    Hook(_BASE, "PPOTrainer._get_required_batch_multiple", ("self", "dp_size"), "trainer.py"),
    Hook(
        _BASE,
        "PPOTrainer._compute_advantage",
        ("self", "batch", "metrics"),
        "trainer.py",
        ("compute_advantage_for_multi_trajectories", "adv_estimator", '"advantages"', "kv_batch_put"),
    ),
    Hook(
        _BASE,
        "PPOTrainer._update_actor",
        ("self", "batch", "metrics"),
        "trainer.py",
        (
            "actor_rollout_ref.actor.ppo_mini_batch_size",
            "* self.config.actor_rollout_ref.rollout.n",
            '"mini_batch_size": ppo_mini_batch_size',
        ),
    ),
    Hook(
        _BASE,
        "PPOTrainer._compute_old_log_prob",
        ("self", "batch", "metrics"),
        "trainer.py",
        (
            "bypass_mode",
            "self.actor_rollout_wg.compute_log_prob(batch)",
            "response_from_nested",
            '"old_log_probs"',
        ),
    ),
    Hook(_BASE, "PPOTrainer.on_init_end", ("self",), "trainer.py"),
    Hook(_BASE, "PPOTrainer.on_validate_begin", ("self",), "trainer.py"),
    Hook(_BASE, "PPOTrainer.on_step_begin", ("self",), "trainer.py"),
    Hook("verl.workers.utils.padding", "response_from_nested", ("tensor", "response_mask"), "trainer.py"),
    Hook(_BASE, "PPOTrainer._validate", ("self",), "trainer.py", ("reward_extra_info", "data_source")),
    Hook(
        _BASE,
        "PPOTrainer._compute_metrics",
        ("self", "batch", "metrics", "timing_raw", "global_steps", "epoch"),
        "trainer.py",
    ),
    Hook(_BASE, "PPOTrainer._load_checkpoint", ("self",), "trainer.py", ("self.global_steps",)),
    Hook(
        _BASE, "PPOTrainer._save_checkpoint", ("self",), "launch.py", ("latest_checkpointed_iteration.txt",)
    ),
    Hook(
        "verl.utils.checkpoint.fsdp_checkpoint_manager",
        "FSDPCheckpointManager._save_lora_train_meta",
        ("self", "local_path", "unwrap_model"),
        "adapters.py",
        ("lora_train_meta.json",),
    ),
    Hook("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync", None, "trainer.py"),
    Hook("verl.trainer.ppo.v1.trainer_colocate_async", "PPOTrainerColocateAsync", None, "trainer.py"),
    Hook("verl.trainer.ppo.v1.trainer_separate_async", "PPOTrainerSeparateAsync", None, "trainer.py"),
    Hook(
        "verl.trainer.ppo.v1.utils",
        "compute_advantage_for_multi_trajectories",
        ("data", "batch_keys", "adv_estimator"),
        "advantage.py",
        ("AdvantageEstimator.GRPO",),
    ),
    Hook("verl.trainer.ppo.core_algos", "register_adv_est", ("name_or_enum",), "advantage.py"),
    Hook("verl.trainer.ppo.padding_utils", "upsample_batch_to_divisible_size", None, "trainer.py"),
    Hook(_BUFFER, "ReplayBuffer.__init__", None, "buffer.py", ("self.poll_interval = poll_interval",)),
    Hook(_BUFFER, "ReplayBuffer.sample", ("self", "global_steps", "partition_id", "batch_size"), "buffer.py"),
    Hook(
        _BUFFER,
        "ReplayBufferAsync.sample",
        ("self", "global_steps", "partition_id", "batch_size"),
        "buffer.py",
    ),
    Hook(
        _BUFFER,
        "ReplayBuffer._terminal_eviction_reasons",
        ("self", "global_steps", "partition_id"),
        "buffer.py",
        ("failure_keys",),
    ),
    Hook(
        _BUFFER,
        "ReplayBuffer._evict_terminal_groups",
        ("self", "global_steps", "partition_id", "eviction_reasons"),
        "buffer.py",
        ("_clear_groups", "stale_uids, dapo_uids, failed_uids"),
    ),
    Hook(_LOOP, "register", ("agent_name",), "loop.py"),
    Hook(
        _LOOP,
        "AgentLoopBase.__init__",
        ("self", "trainer_config", "server_manager", "tokenizer", "processor", "dataset_cls", "data_config"),
        "loop.py",
        ("self.rollout_config", "self.server_manager"),
    ),
    Hook(_LOOP, "AgentLoopBase.run", ("self", "sampling_params", "kwargs"), "loop.py"),
    Hook(_LOOP, "AgentLoopOutput", None, "loop.py", ("reward_score", "extra_fields", "response_logprobs")),
    Hook(
        _TQ,
        "AgentLoopWorkerTQ._agent_loop_postprocess",
        None,
        "loop.py",
        ("list[AgentLoopOutput]", "reward_extra_info", "{uid}_{session_id}_{i}", '"min_global_steps"'),
    ),
    Hook(
        "verl.workers.rollout.llm_server",
        "LLMServerClient.generate",
        ("self", "request_id", "prompt_ids", "sampling_params"),
        "policy.py",
    ),
    Hook(
        "verl.workers.engine.fsdp.transformer_impl",
        "FSDPEngine._build_lr_scheduler",
        ("self", "optimizer"),
        "translation.py",
        ("lr_warmup_steps", "min_lr_ratio", "zero_indexed_step"),
    ),
    Hook("verl.trainer.main_ppo", "run_ppo", ("config", "task_runner_class"), "launch.py"),
    Hook("verl.trainer.main_ppo", "main", None, "launch.py"),
    Hook("transfer_queue", "kv_batch_get", ("keys", "partition_id", "select_fields"), "trainer.py"),
    Hook("transfer_queue", "kv_list", ("partition_id",), "buffer.py"),
    Hook("transfer_queue", "async_kv_put", ("key", "partition_id", "fields", "tag"), "loop.py"),
)
CPU_HOOKS = (
    Hook("verl.plugin.platform.platform_manager", "set_platform", ("platform",), "cpu/__init__.py"),
    Hook("verl.plugin.platform.platform_base", "PlatformBase", None, "cpu/platform.py"),
    Hook(
        "verl.workers.rollout.base",
        "BaseRollout.update_weights",
        ("self", "weights", "wire_format"),
        "cpu/rollout.py",
    ),
    Hook(
        "verl.workers.engine_workers",
        "ActorRolloutRefWorker.update_weights",
        None,
        "cpu/rollout.py",
        ("peft_config=peft_config, base_sync_done=True",),
    ),
    Hook("verl.workers.rollout.base", "_ROLLOUT_REGISTRY", None, "cpu/__init__.py"),
    Hook(
        "verl.workers.rollout.replica",
        "RolloutReplicaRegistry.register",
        ("name", "loader"),
        "cpu/__init__.py",
    ),
    Hook("verl.workers.rollout.replica", "RolloutReplica.launch_servers", ("self",), "cpu/rollout.py"),
    Hook("verl.workers.engine", "EngineRegistry.register", None, "cpu/__init__.py"),
    Hook(
        "verl.workers.engine_workers",
        "initialize_global_process_group_ray",
        None,
        "cpu/__init__.py",
        ("backend",),
    ),
    Hook("verl.workers.engine.fsdp.transformer_impl", "CPUOffloadPolicy", None, "cpu/__init__.py"),
)
