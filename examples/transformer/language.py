"""A translation task without a download: English sentences by a grammar, and the same in an invented language.

    yesterday the old miller who had a boat saw three red birds near the river .
    ieri milo vetulo el ke botam hav-it avaim rubraim rus ripo el ne vid-it .

In the other language a sentence is in the order time, subject, object, place, verb. A noun comes before what belongs to
it: adjectives, which agree with it in gender, number and case, then a number or the article. Objects end in -m. Verbs
are at the end and agree with the subject in number and tense; relative clauses too. Prepositions follow their noun.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NOUNS = {  # singular, plural: stem, gender
    ("miller", "millers"): ("mil", "o"), ("queen", "queens"): ("regin", "a"), ("boy", "boys"): ("pul", "o"),
    ("girl", "girls"): ("puel", "a"), ("wolf", "wolves"): ("lup", "o"), ("cat", "cats"): ("felin", "a"),
    ("bird", "birds"): ("av", "a"), ("horse", "horses"): ("kaval", "o"), ("boat", "boats"): ("bot", "a"),
    ("river", "rivers"): ("rip", "o"), ("house", "houses"): ("dom", "a"), ("tree", "trees"): ("arb", "o"),
    ("hill", "hills"): ("kol", "a"), ("key", "keys"): ("klav", "o"),
}  # fmt: skip
ADJECTIVES = {
    "old": "vetul", "young": "iuven", "red": "rubr", "white": "blank", "small": "parv", "big": "grand", "poor": "paupr",
    "silver": "argent",
}  # fmt: skip
VERBS = {  # singular, plural, past: stem
    ("sees", "see", "saw"): "vid", ("has", "have", "had"): "hav", ("takes", "take", "took"): "prend",
    ("loves", "love", "loved"): "am", ("finds", "find", "found"): "trov", ("paints", "paint", "painted"): "ping",
    ("follows", "follow", "followed"): "sek", ("hears", "hear", "heard"): "aud",
}  # fmt: skip
PLACES = {"near": "ne", "behind": "tra", "on": "su", "under": "sub"}
COUNTS = {"two": "du", "three": "rus", "four": "kva"}
PAST = {"yesterday": "ieri", "then": "tum"}
PRESENT = {"today": "odi", "now": "nun"}

Words = list[str]


def sentence(seed: tuple[int, ...]) -> tuple[Words, Words]:
    """An English sentence and its translation, the same for the same seed. Up to 22 words each."""
    random = np.random.default_rng(seed)

    def one(of: dict[Any, Any]) -> tuple[Any, Any]:
        return list(of.items())[random.integers(len(of))]

    def verb(many: bool, past: bool) -> tuple[str, str]:
        (single, several, before), stem = one(VERBS)
        if past:
            return before, stem + ("-int" if many else "-it")
        return several if many else single, stem + ("-en" if many else "-e")

    def thing(case: str, past: bool, clause: float = 0.0) -> tuple[Words, Words, bool]:
        """A noun with what belongs to it, in both languages, and whether it is many. clause: how often it has one."""
        names, (stem, gender) = one(NOUNS)
        lot = random.random()
        many = lot < 0.45
        ending = gender + ("i" if many else "") + case
        english, other = [names[many]], [stem + ending]
        for k in random.permutation(len(ADJECTIVES))[: random.choice(3, p=(0.4, 0.4, 0.2))]:
            adjective, its = list(ADJECTIVES.items())[k]
            english.insert(0, adjective)
            other.append(its + ending)
        if lot < 0.2:
            count, its = one(COUNTS)
            english.insert(0, count)
            other.append(its)
        elif lot < 0.75:
            english.insert(0, "the")
            other.append("el")
        elif not many:
            english.insert(0, "a")
        if random.random() < clause:
            does, its = verb(many, past)
            object_english, object_other, _ = thing("m", past)
            english += ["who", does, *object_english]
            other += ["ke", *object_other, its]
        return english, other, many

    past = bool(random.random() < 0.5)
    subject, its_subject, many = thing("", past, clause=0.3)
    does, its_verb = verb(many, past)
    target, its_target, _ = thing("m", past)
    english, other = [*subject, does, *target], [*its_subject, *its_target]
    if random.random() < 0.5:
        at, its_at = one(PLACES)
        place, its_place, _ = thing("", past)
        english += [at, *place]
        other += [*its_place, its_at]
    if random.random() < 0.4:
        when, its_when = one(PAST if past else PRESENT)
        english, other = [when, *english], [its_when, *other]
    return [*english, "."], [*other, its_verb, "."]
