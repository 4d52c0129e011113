"""Recorded steps: columns, the canonical order, files."""

from .batch import StepBatch

__all__ = ["StepBatch"]
