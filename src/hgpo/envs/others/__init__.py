"""Environments of other packages behind our contract: the extra `envs`.

| name | package | licence |
| --- | --- | --- |
| `gym` | Gymnasium | MIT |
| `babyai` | Minigrid | Apache-2.0 |
| `textworld-express` | TextWorldExpress, Java | Apache-2.0 |
| `scienceworld` | ScienceWorld, Java | Apache-2.0 |
| `textworld` | TextWorld | MIT |

None of them is part of this package, and none is imported before it is asked for.
"""
