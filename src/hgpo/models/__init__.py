"""Models: loaded and saved, made on the spot, with adapters; two come from the package index, without a model hub."""
