"""Text without a download, as much as one wants: small tales of people and their trades, by a grammar.

A tale has eight sentences about one person. What it tells hangs together: a smith has a hammer and makes nails, boxes
of them, she mends *her* things, three *boxes* but one *box*, snow is in the winter. So a missing word can often be told
from the others, and what goes on with a tale from what does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TRADES = {  # place, tool, goods, one package of them, several
    "baker": ("bakery", "oven", "bread", "basket", "baskets"),
    "beekeeper": ("heath", "smoker", "honey", "jar", "jars"),
    "brewer": ("cellar", "kettle", "beer", "cask", "casks"),
    "fisher": ("harbour", "net", "fish", "barrel", "barrels"),
    "gardener": ("garden", "spade", "apples", "cart", "carts"),
    "joiner": ("workshop", "saw", "chairs", "wagon", "wagons"),
    "miller": ("mill", "wheel", "flour", "sack", "sacks"),
    "potter": ("yard", "kiln", "bowls", "crate", "crates"),
    "shepherd": ("meadow", "staff", "wool", "bundle", "bundles"),
    "smith": ("forge", "hammer", "nails", "box", "boxes"),
    "tailor": ("shop", "needle", "coats", "bag", "bags"),
    "weaver": ("loft", "loom", "cloth", "roll", "rolls"),
}
SEASONS = {"winter": ("snow", "cold"), "spring": ("rain", "wet"), "summer": ("sun", "hot"), "autumn": ("fog", "grey")}
PEOPLE = {
    ("she", "her"): ("anna", "berta", "clara", "dora", "ella", "frida", "greta", "hilda"),
    ("he", "his"): ("adam", "bruno", "conrad", "david", "emil", "felix", "georg", "hans"),
}
OTHERS = {  # who the tale's person is to somebody, and who that is to the person
    "kin": ("mother", "father", "sister", "brother", "aunt", "uncle"),
    "count": ("one", "two", "three", "four", "five", "six"),
    "state": ("old", "broken", "rusty", "heavy"),
    "hour": ("noon", "evening", "midnight", "dawn"),
    "mood": ("glad", "tired", "proud", "merry"),
}
TELLINGS = (  # what each sentence of a tale can be
    ("{name} the {trade} lived beside the {place} with {his} {kin} .",
     "beside the {place} lived {name} the {trade} , and with {name} lived {his} {kin} ."),
    ("in the {season} there was {weather} , and the {place} was {feel} .",
     "it was {season} , and the {weather} made the {place} {feel} ."),
    ("{his} {tool} was {state} , so {he} mended the {tool} .",
     "every morning {name} took {his} {state} {tool} and began to work ."),
    ("{he} worked in the {place} , and by {hour} there was a heap of {goods} .",
     "the {trade} made {goods} with {his} {tool} until {hour} ."),
    ("{name} gave {count} {packages} of {goods} to {his} {kin} .",
     "{his} {kin} carried {count} {packages} of {goods} to the market ."),
    ("there {he} met a {buyer} from the {sale} , who wanted {goods} .",
     "a {buyer} bought the {goods} and paid with {pay} ."),
    ("{name} went home to the {place} with {pay} from the {buyer} .",
     "so the {trade} had {pay} for the whole {season} ."),
    ("{his} {kin} thanked {name} , and both were {mood} .",
     "the {kin} was {mood} , and so was the {trade} ."),
)  # fmt: skip
SENTENCES = len(TELLINGS)
Sentence = list[str]


def facts(random: np.random.Generator) -> dict[str, str]:
    """What a tale is about, by names of the gaps in TELLINGS."""

    def one(of: Any) -> Any:
        choices = list(of)
        return choices[random.integers(len(choices))]

    trade, season, (he, his) = one(TRADES), one(SEASONS), one(PEOPLE)
    buyer = one([each for each in TRADES if each != trade])
    place, tool, goods, package, packages = TRADES[trade]
    weather, feel = SEASONS[season]
    told = {name: one(words) for name, words in OTHERS.items()}
    return told | {
        "trade": trade, "place": place, "tool": tool, "goods": goods, "season": season, "weather": weather,
        "feel": feel, "he": he, "his": his, "name": one(PEOPLE[he, his]), "buyer": buyer, "sale": TRADES[buyer][0],
        "pay": TRADES[buyer][2], "packages": package if told["count"] == "one" else packages,
    }  # fmt: skip


def sentence(random: np.random.Generator, about: dict[str, str], which: int) -> Sentence:
    """The words of one sentence, in one of its tellings, from 0 to SENTENCES - 1."""
    tellings = TELLINGS[which]
    return tellings[random.integers(len(tellings))].format(**about).split()


def tale(seed: tuple[int, ...]) -> list[Sentence]:
    """A tale, the same for the same seed."""
    random = np.random.default_rng(seed)
    about = facts(random)
    return [sentence(random, about, which) for which in range(SENTENCES)]
