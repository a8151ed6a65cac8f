"""Dictionary-encoded numbers: each distinct value is stored once, like texts in Labels."""

from __future__ import annotations

from dataclasses import dataclass

from ...cluster.columns import FloatArray, IntArray, Rows


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A column of numbers: row *i* holds ``values[codes[i]]``; code -1 is the last value.

    *values* of one model and history stay the same array, so results derived from them can be cached.
    """

    values: FloatArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> float:
        return float(self.values[self.codes[row]])

    def take(self, rows: Rows) -> DictionaryColumn:
        """Return the column of *rows* only."""
        return DictionaryColumn(self.values, self.codes[rows])

    def numbers(self) -> FloatArray:
        """Return the column row by row."""
        return self.values.take(self.codes)
