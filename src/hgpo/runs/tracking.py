"""Where numbers go besides the run folder: a line on the screen, TensorBoard and W&B by setting."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

from ..config.schema import TrackConfig
from ..errors import BadSetting, MissingExtra
from ..policies.engine import installed
from .folder import RunFolder


class Screen:
    """One line per iteration; on a terminal also a live line about what is going on."""

    def __init__(self, total: int, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.total, self.quiet = total, quiet
        self.stream = stream if stream is not None else sys.stderr
        self.live = self.stream.isatty() and not quiet
        self.width = 0
        self.last = 0.0
        self.pace: list[float] = []

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self._clear()
            print(text, file=self.stream, flush=True)

    def now(self, text: str) -> None:
        """What is going on; at most ten times a second, on terminals only."""
        if self.live and time.monotonic() - self.last > 0.1:
            self.last = time.monotonic()
            line = text[:118]
            self.stream.write("\r" + line.ljust(self.width))
            self.stream.flush()
            self.width = len(line)

    def iteration(self, row: dict[str, Any]) -> None:
        """The line of a finished iteration."""
        self.pace = [*self.pace[-9:], float(row["seconds"])]
        left = (self.total - row["iteration"]) * sum(self.pace) / len(self.pace)
        parts = [
            f"iteration {row['iteration']:>4}/{self.total}",
            f"success {row['success']:6.1%}",
            f"return {row['return']:6.2f}",
        ]
        if "loss/policy" in row:
            parts.append(f"loss {row['loss/policy']:+.4f}")
            parts.append(f"kl {row.get('loss/kl', row['kl_old']):.4f}")
        parts.append(f"{row.get('tokens_per_second', 0):7,.0f} tok/s")
        parts.append(f"{row['seconds']:5.1f} s")
        if "seconds/rollout" in row:
            of_it = f", of it generating {row['seconds/generate']:.1f}" if "seconds/generate" in row else ""
            parts.append(f"(play {row['seconds/rollout']:.1f}{of_it}, update {row['seconds/update']:.1f})")
        parts.append(f"left {_clock(left)}")
        parts += [
            f"{name.split('/')[1]} {value:.1%}"
            for name, value in row.items()
            if name.startswith("eval/") and name.endswith("/success")
        ]
        self.say("  ".join(parts))

    def _clear(self) -> None:
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.width = 0


def check_trackers(settings: TrackConfig) -> None:
    """Complain about a tracker whose package is not installed, before anything is done.

    Raises:
        MissingExtra: says which.
    """
    for wanted, package in ((settings.tensorboard, "tensorboard"), (settings.wandb, "wandb")):
        if wanted and not installed(package):
            raise MissingExtra(package, "track", f"track.{package}")


class Trackers:
    """TensorBoard and W&B; without either, nothing happens."""

    def __init__(self, settings: TrackConfig, run: RunFolder, name: str, config: dict[str, Any]) -> None:
        self.board: Any = None
        self.wandb: Any = None
        if settings.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(run.tensorboard))
        if settings.wandb:
            import wandb

            try:
                self.wandb = wandb.init(
                    project=settings.wandb,
                    name=name,
                    config=config,
                    dir=os.environ.get("WANDB_DIR", str(run.path)),
                    id=f"{name}-{run.path.name}".replace("/", "-")[:120],
                    resume="allow",
                )
            except Exception as error:  # no login, no network, a project that is none
                raise BadSetting(
                    f"track.wandb={settings.wandb}: W&B cannot be used ({type(error).__name__}: {error}). Log in with "
                    "`wandb login`, set WANDB_MODE=offline, or leave track.wandb out."
                ) from error

    def log(self, row: dict[str, Any]) -> None:
        """Send an iteration's numbers."""
        if self.board is not None:
            for name, value in row.items():
                if isinstance(value, int | float):
                    self.board.add_scalar(name, value, row["iteration"])
        if self.wandb is not None:
            self.wandb.log(row, step=row["iteration"])

    def close(self) -> None:
        """Flush."""
        if self.board is not None:
            self.board.close()
        if self.wandb is not None:
            self.wandb.finish()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
