"""verl as the distributed engine: a plug-in of released verl, no fork.

`plugin` is what verl loads by itself (entry point `verl.plugins`) in the driver and in every Ray worker. It registers

- the agent loop `hgpo` (`loop`): our episode runner on verl's rollout servers, one output per step;
- the estimator `hgpo` (`advantage`): our `estimate` on the recorded steps;
- the trainer modes `hgpo_sync`, `hgpo_colocate_async`, `hgpo_separate_async` (`trainer`).

`overrides`, `data`, `launch`, `doctor` and `dryrun` are behind `hgpo verl`. Nothing here is imported by the rest of
the package, and nothing in this file imports verl.
"""
