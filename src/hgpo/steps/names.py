"""Columns of a file under our names: a map that is given wins, and nothing is lost or overwritten by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadSetting

KEPT = "original_"
"""Put before the name of a column whose place a mapped one takes."""


class Renaming:
    """`theirs -> ours`; a column that has the name `ours` already is kept under `original_ours`.

    >>> Renaming({"obs": "observation"}).row({"obs": "door", "observation": "pixels"})
    {'observation': 'door', 'original_observation': 'pixels'}
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns
        self.missing = set(columns)
        """Mapped columns that no row has had so far."""
        self.names: list[str] = []
        repeated = [ours for ours in columns.values() if list(columns.values()).count(ours) > 1]
        if repeated:
            theirs = [name for name, ours in columns.items() if ours == repeated[0]]
            raise BadSetting(
                f"--columns maps {', '.join(map(repr, theirs))} to {repeated[0]!r}; expected one column for each name."
            )
        self._moved = {ours: f"{KEPT}{ours}" for ours in columns.values() if ours not in columns}
        self._all = {**columns, **self._moved}

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The same values under our names; mapped columns take the place of those they shadow."""
        if not self.columns:
            return row
        if self.missing:
            self.missing -= row.keys()
            self.names += [name for name in row if name not in self.names]
        # Also where this row lacks the mapped column: another one must not stand in for it.
        renamed = {self._all.get(name, name): value for name, value in row.items()}
        if len(renamed) < len(row):
            lost = next(name for name in self._moved.values() if name in row)
            raise BadSetting(
                f"--columns gives one column the name of another, which would be kept as {lost!r}, a name that is "
                f"taken too. Map {lost!r} to another name."
            )
        return renamed

    def check_found(self, source: object) -> None:
        """Refuse a map of columns that no row had.

        Raises:
            BadSetting: says which, and what there is.
        """
        if self.missing:
            raise BadSetting(
                f"--columns maps {', '.join(map(repr, sorted(self.missing)))}, which {source} does not have; it has "
                f"{', '.join(self.names)}."
            )
