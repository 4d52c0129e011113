"""The fixed texts of the household game, word for word as the official grammar has them."""

from __future__ import annotations

from .house import CLEAN, COOL, HOT, SLICED, TOGGLED

NOTHING = "Nothing happens."
"""The reply to every command that is not admissible."""

HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

# Flags -> adjective, the first whose bits are all set wins.
LOOKS = (
    (CLEAN | HOT | SLICED, "This is a hot and clean sliced {}."),
    (CLEAN | COOL | SLICED, "This is a cool and clean sliced {}."),
    (CLEAN | SLICED, "This is a clean sliced {}."),
    (HOT | SLICED, "This is a hot sliced {}."),
    (COOL | SLICED, "This is a cool sliced {}."),
    (CLEAN | HOT, "This is a hot and clean {}."),
    (CLEAN | COOL, "This is a cool and clean {}."),
    (HOT, "This is a hot {}."),
    (CLEAN, "This is a clean {}."),
    (COOL, "This is a cold {}."),
    (TOGGLED, "This {} is on."),
    (SLICED, "This is a sliced {}."),
)


def listing(things: list[str]) -> str:
    """`nothing`, `a mug 1`, `a mug 1, and a pen 2`, ...: the official way to enumerate."""
    if not things:
        return "nothing"
    if len(things) == 1:
        return things[0]
    return f"{', '.join(things[:-1])}, and {things[-1]}"
