"""The folder of a run: what lies in it, and the only code that reads and writes it.

`hgpo train` and `hgpo verl launch` write the same files with the same fields, so `hgpo eval`, `hgpo compare`,
`hgpo inspect` and `--resume` need not know which of them trained a run. `LAYOUT` lists everything; docs/training.md
shows it.

Nothing is ever half there: files and folders are written under another name, flushed to disk and renamed, so a kill
at any instant leaves the last good state. Weights are safetensors, everything else is JSON or Parquet; no pickles.
"""

from .checkpoint import Checkpoint, TrainState
from .description import LENGTH, Description
from .evaluations import EvaluationFolder
from .layout import LAYOUT, LOCAL, VERL, Entry
from .policies import RunPolicies
from .run import RunFolder, success_key
from .tail import News, Tail

__all__ = [
    "LAYOUT",
    "LENGTH",
    "LOCAL",
    "VERL",
    "Checkpoint",
    "Description",
    "Entry",
    "EvaluationFolder",
    "News",
    "RunFolder",
    "RunPolicies",
    "Tail",
    "TrainState",
    "success_key",
]
