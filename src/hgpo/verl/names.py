"""Names under which verl knows our parts, for modules that must not import verl."""

from __future__ import annotations

AGENT = "hgpo"
"""The agent loop."""
ESTIMATOR = "hgpo"
"""The advantage estimator."""
MODES = {
    "sync": "hgpo_sync",
    "colocate_async": "hgpo_colocate_async",
    "separate_async": "hgpo_separate_async",
}
"""verl's trainer modes, and ours on top of them."""
PACKED_ATTENTION = "hgpo_packed"
"""The attention over packed rows, in transformers."""
CPU_ROLLOUT = "hgpo_cpu"
"""The rollout server of dry runs."""
CPU_SWITCH = "HGPO_VERL_CPU"
"""Environment variable that `hgpo verl dry-run` sets to 1, and nothing else does: verl then runs on the CPU."""
