"""Colour names by which the original compares options: a value stands for the first colour found in it."""

from __future__ import annotations

# In alphabetical order, which decides: "navy blue" stands for "blue".
_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel
camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry
cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green
grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot
midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple
rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan
taupe teal tiger turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_NAMES.split())


def plain_colour(value: str) -> str:
    """The first colour name inside a value, or the value itself.

    >>> plain_colour("deep navy blue"), plain_colour("3x-large")
    ('blue', '3x-large')
    """
    return next((colour for colour in COLOURS if colour in value), value)
