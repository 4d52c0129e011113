"""Every setting of a run: the schema, presets and how they are read."""
