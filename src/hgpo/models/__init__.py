"""Pretrained models: anything transformers loads, and two that install from the package index without a model hub."""
