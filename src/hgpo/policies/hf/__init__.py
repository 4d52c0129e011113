"""The transformers decoder as a policy."""
