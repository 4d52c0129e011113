"""The household world: houses, the simulation of an episode in one, and environments over sets of houses."""
