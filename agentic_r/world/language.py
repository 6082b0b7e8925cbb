"""The world's language: its relations, trades, fillers and names.

The words are the same for every seed (so one small language model reads every world); which things
exist and what is true of them is ``build.py``'s business. Relation words (``teacher``) stand in questions,
queries and look-alikes only: the answering passages always paraphrase them.
"""

import random
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "FILLERS",
    "FIRST_NAMES",
    "LOOKALIKES",
    "RELATIONS",
    "SECOND_NAMES",
    "TRADES",
    "Kind",
    "Relation",
    "vocabulary",
]

Kind = Literal["person", "town", "guild", "number"]


@dataclass(frozen=True, slots=True)
class Relation:
    """``word`` is asked for, ``phrases`` say it in passages: subject, phrase, object."""

    word: str
    subject: Kind
    object: Kind
    phrases: tuple[str, ...]


RELATIONS = (
    Relation(
        "teacher", "person", "person", ("learned the craft from", "took first lessons with", "copied each stroke of")
    ),
    Relation(
        "birthplace",
        "person",
        "town",
        ("first saw daylight in", "was carried as an infant through", "drew a first breath at"),
    ),
    Relation("employer", "person", "guild", ("earns wages from", "is on the rolls of", "keeps the ledgers for")),
    Relation("spouse", "person", "person", ("shares a hearth with", "exchanged vows with", "wears the ring of")),
    Relation(
        "age",
        "person",
        "number",
        ("has counted winters to", "lights festival candles numbering", "marks harvests up to"),
    ),
    Relation(
        "founder", "town", "person", ("was first settled by", "grew around the camp of", "rose on land cleared by")
    ),
    Relation("ruler", "town", "person", ("answers to the seal of", "pays its tolls to", "obeys the banner of")),
    Relation("patron", "town", "guild", ("is fed by the purse of", "mends its walls through", "owes its bells to")),
    Relation("seat", "guild", "town", ("keeps its halls in", "stores its archive at", "gathers every spring inside")),
    Relation("leader", "guild", "person", ("takes counsel from", "swears loyalty before", "hands its keys to")),
)

# A trade is named in questions; passages name it or allude to it.
TRADES = {
    "sailor": ("of the salt ships", "from the tall masts"),
    "baker": ("of the warm ovens", "from the flour lofts"),
    "weaver": ("of the long looms", "from the dye vats"),
    "smith": ("of the red anvils", "from the coal yards"),
    "healer": ("of the quiet wards", "from the herb gardens"),
    "scribe": ("of the ink rooms", "from the parchment desks"),
    "miner": ("of the deep shafts", "from the ore carts"),
    "piper": ("of the reed bands", "from the dance floors"),
}

# Look-alikes hold the query's words beside the name and do not answer; half of them name somebody else.
LOOKALIKES = (
    "Songs ask about the {relation} of {subject} and never settle on a name .",
    "Letters about the {relation} of {subject} were lost in a flood long ago .",
    "Nobody at the market agrees on the {relation} of {subject} any more .",
    "A clerk who asked for the {relation} of {subject} was sent to {other} instead .",
    "Rumours of the {relation} of {subject} reached even the cousins of {other} .",
    "The riddle of the {relation} of {subject} once amused the guests of {other} .",
)

FILLERS = (
    "Rain fell for most of that season and the roads stayed soft .",
    "Travellers speak well of the bread and the cold cider there .",
    "Old maps show a grove of pines beside the northern path .",
    "Most visitors arrive in autumn when the geese cross the valley .",
    "Children still play a game of stones near the lower gate .",
    "The winter stores are counted twice and sealed with wax .",
    "A lantern is kept burning until the last cart comes home .",
    "Few records from those years survived the great fire .",
    "On quiet evenings the sound of bells carries over the fields .",
    "Every third year a fair brings traders with copper and cloth .",
    "The river ran high and the bridge was rebuilt in oak .",
    "Neighbours remember a kind voice and a habit of early walks .",
    "Some say the hills were greener before the mills came .",
    "There is little else to tell about that time .",
    "Honey and candles were sold from a small blue door .",
    "The story is told differently in each house along the road .",
)

AGES = tuple(str(number) for number in range(20, 80))
_ONSETS = tuple("b br d dr f g gl h k kr l m n p r s st t tr v z".split())  # noqa: SIM905  shorter so
_NUCLEI = ("a", "e", "i", "o", "u", "ae", "io")
_CODAS = ("l", "lm", "n", "nd", "r", "rk", "s", "sk", "th", "x")


def _names(count: int, seed: int, taken: frozenset[str]) -> tuple[str, ...]:
    generator = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        start = generator.choice(_ONSETS) + generator.choice(_NUCLEI)
        word = (start + generator.choice(_ONSETS) + generator.choice(_NUCLEI) + generator.choice(_CODAS)).capitalize()
        if word not in taken:
            found[word] = None
    return tuple(found)


FIRST_NAMES = _names(160, 1, frozenset())
SECOND_NAMES = _names(160, 2, frozenset(FIRST_NAMES))

_QUESTION_WORDS = "What is the of ? Who is older , or"
_PROTOCOL_WORDS = "Doc ( Title : ) . unknown question no results were found"


def vocabulary() -> tuple[str, ...]:
    """Every word that a world, its questions or the tiny agent's protocol can hold, lower-cased, in a fixed order."""
    texts = [_QUESTION_WORDS, _PROTOCOL_WORDS, *FILLERS, *TRADES, *AGES, *(str(number) for number in range(1, 10))]
    texts += [pattern.replace("{", " ").replace("}", " ") for pattern in LOOKALIKES]
    texts += [phrase for phrases in TRADES.values() for phrase in phrases]
    texts += [text for relation in RELATIONS for text in (relation.word, *relation.phrases)]
    texts += [*FIRST_NAMES, *SECOND_NAMES]
    return tuple(dict.fromkeys(word for text in texts for word in text.lower().split()))
