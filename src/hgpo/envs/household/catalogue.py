"""What generated houses are furnished with: rooms, receptacles, objects, and what fits where.

The kinds and the pairs that fit follow the ALFRED benchmark (Shridhar et al., 2020), from which ALFWorld's
games are made, so that an agent meets the same words here and there.
"""

from __future__ import annotations

# Receptacle -> the objects that may lie in or on it.
FITS: dict[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "armchair": "book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol",
        "bathtubbasin": "cloth dishsponge handtowel soapbar",
        "bed": "baseballbat basketball book cellphone laptop pillow teddybear tennisracket",
        "cabinet": "bowl box candle cloth cup dishsponge glassbottle handtowel kettle ladle mug pan"
        " peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle tissuebox"
        " toiletpaper vase winebottle",
        "cart": "candle cloth dishsponge handtowel plunger soapbar soapbottle spraybottle tissuebox"
        " toiletpaper",
        "coffeemachine": "mug",
        "coffeetable": "book bowl box candle cellphone creditcard keychain laptop newspaper pen pencil plate"
        " remotecontrol statue tissuebox vase watch wateringcan",
        "countertop": "apple bowl bread butterknife candle cellphone cloth creditcard cup dishsponge egg fork"
        " glassbottle handtowel kettle knife ladle lettuce mug pan peppershaker plate pot potato"
        " saltshaker soapbar soapbottle spatula spoon spraybottle tissuebox toiletpaper tomato"
        " vase winebottle",
        "desk": "alarmclock basketball book bowl box cd cellphone cloth creditcard keychain laptop mug"
        " pen pencil remotecontrol statue tennisracket tissuebox vase watch",
        "diningtable": "apple book bowl box bread butterknife candle cellphone creditcard cup dishsponge egg"
        " fork glassbottle kettle keychain knife ladle laptop lettuce mug newspaper pan pen pencil"
        " peppershaker plate pot potato remotecontrol saltshaker soapbottle spatula spoon statue"
        " tissuebox tomato vase watch wateringcan winebottle",
        "drawer": "book butterknife candle cd cellphone cloth creditcard dishsponge fork handtowel keychain"
        " knife ladle newspaper pen pencil peppershaker remotecontrol saltshaker soapbar"
        " soapbottle spatula spoon spraybottle tissuebox toiletpaper watch",
        "dresser": "alarmclock basketball book bowl box candle cd cellphone cloth creditcard keychain laptop"
        " mug newspaper pen pencil remotecontrol spraybottle statue tennisracket tissuebox"
        " toiletpaper vase watch wateringcan",
        "fridge": "apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle",
        "garbagecan": "apple bread cd cloth dishsponge egg handtowel lettuce newspaper pen pencil potato"
        " soapbar soapbottle spraybottle tissuebox toiletpaper tomato winebottle",
        "handtowelholder": "handtowel",
        "microwave": "apple bowl bread cup egg glassbottle mug plate potato tomato",
        "ottoman": "book box cellphone creditcard keychain laptop newspaper pillow remotecontrol",
        "safe": "cd cellphone creditcard keychain statue vase watch",
        "shelf": "alarmclock book bowl box candle cd cellphone cloth creditcard cup dishsponge glassbottle"
        " handtowel kettle keychain mug newspaper pen pencil peppershaker plate pot remotecontrol"
        " saltshaker soapbar soapbottle spraybottle statue tissuebox toiletpaper vase watch"
        " wateringcan winebottle",
        "sidetable": "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd"
        " cellphone cloth creditcard cup dishsponge egg fork handtowel keychain knife laptop"
        " lettuce mug newspaper pan pen pencil peppershaker plate pot potato remotecontrol"
        " saltshaker soapbar soapbottle spatula spoon spraybottle statue tennisracket tissuebox"
        " toiletpaper tomato vase watch wateringcan",
        "sinkbasin": "apple bowl butterknife cloth cup dishsponge egg fork glassbottle handtowel kettle knife"
        " ladle lettuce mug pan plate pot potato soapbar spatula spoon tomato",
        "sofa": "book box cellphone creditcard keychain laptop newspaper pillow remotecontrol",
        "stoveburner": "kettle pan pot",
        "toaster": "",
        "toilet": "candle cloth dishsponge handtowel soapbar soapbottle spraybottle tissuebox toiletpaper",
        "toiletpaperhanger": "toiletpaper",
        "towelholder": "towel",
        "tvstand": "remotecontrol tissuebox",
    }.items()
}

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
CLEANABLE = frozenset(
    {
        *("apple", "bowl", "butterknife", "cloth", "cup", "dishsponge", "egg", "fork", "kettle", "knife"),
        *(
            "ladle",
            "lettuce",
            "mug",
            "pan",
            "plate",
            "pot",
            "potato",
            "soapbar",
            "spatula",
            "spoon",
            "tomato",
        ),
    }
)
HEATABLE = frozenset({"apple", "bread", "cup", "egg", "mug", "plate", "potato", "tomato"})
COOLABLE = HEATABLE | {"bowl", "lettuce", "pan", "pot", "winebottle"}
SLICEABLE = frozenset({"apple", "bread", "egg", "lettuce", "potato", "tomato"})
VESSELS = frozenset({"bowl", "box", "cup", "mug", "pan", "plate", "pot"})
LAMPS = frozenset({"desklamp", "floorlamp"})

LAMP_SURFACES: dict[str, frozenset[str]] = {
    "desklamp": frozenset({"desk", "sidetable", "dresser", "shelf", "coffeetable", "diningtable"}),
    "floorlamp": frozenset({"sidetable", "armchair", "sofa", "coffeetable"}),
}
"""Where a lamp may stand; it cannot be picked up."""

OBJECTS: dict[str, tuple[str, ...]] = {
    room: tuple(words.split())
    for room, words in {
        "kitchen": "apple bowl bread butterknife cup dishsponge egg fork glassbottle kettle knife ladle"
        " lettuce mug pan peppershaker plate pot potato saltshaker soapbottle spatula spoon tomato"
        " winebottle",
        "livingroom": "book box candle cellphone creditcard keychain laptop newspaper pen pencil pillow plate"
        " remotecontrol statue tissuebox vase watch wateringcan",
        "bedroom": "alarmclock baseballbat basketball book bowl box cd cellphone cloth creditcard keychain"
        " laptop mug pen pencil pillow statue teddybear tennisracket tissuebox watch",
        "bathroom": "candle cloth dishsponge handtowel plunger soapbar soapbottle spraybottle tissuebox"
        " toiletpaper towel",
    }.items()
}
"""The objects found in each kind of room."""

FURNITURE: dict[str, dict[str, tuple[int, int]]] = {
    "kitchen": {
        "fridge": (1, 1),
        "microwave": (1, 1),
        "sinkbasin": (1, 1),
        "countertop": (1, 4),
        "cabinet": (4, 22),
        "drawer": (2, 10),
        "stoveburner": (2, 6),
        "coffeemachine": (1, 1),
        "toaster": (1, 1),
        "garbagecan": (1, 1),
        "diningtable": (0, 2),
        "shelf": (0, 3),
        "sidetable": (0, 1),
    },
    "livingroom": {
        "sidetable": (1, 3),
        "sofa": (1, 2),
        "armchair": (0, 2),
        "coffeetable": (0, 2),
        "drawer": (0, 10),
        "dresser": (0, 1),
        "shelf": (0, 8),
        "cabinet": (0, 4),
        "diningtable": (0, 1),
        "garbagecan": (1, 1),
        "ottoman": (0, 1),
        "tvstand": (0, 1),
        "safe": (0, 1),
    },
    "bedroom": {
        "bed": (1, 2),
        "desk": (0, 2),
        "sidetable": (1, 2),
        "drawer": (1, 14),
        "dresser": (0, 1),
        "shelf": (0, 8),
        "garbagecan": (1, 1),
        "armchair": (0, 1),
        "cabinet": (0, 4),
        "safe": (0, 1),
    },
    "bathroom": {
        "sinkbasin": (1, 2),
        "countertop": (1, 1),
        "toilet": (1, 1),
        "cabinet": (0, 5),
        "drawer": (0, 7),
        "garbagecan": (1, 1),
        "handtowelholder": (1, 2),
        "towelholder": (1, 2),
        "toiletpaperhanger": (1, 1),
        "bathtubbasin": (0, 1),
        "shelf": (0, 3),
        "cart": (0, 1),
    },
}
"""Per room, its receptacles with the least and the most of each in a house as large as ALFWorld's."""

ESSENTIAL: dict[str, tuple[str, ...]] = {
    "kitchen": ("fridge", "microwave", "sinkbasin"),
    "livingroom": ("sidetable",),
    "bedroom": ("sidetable",),
    "bathroom": ("sinkbasin",),
}
"""What even the smallest room has: the appliances of its tasks and a surface for a lamp."""
