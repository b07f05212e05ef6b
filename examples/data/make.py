"""Make the files of this directory, which the pages of the guide train on. They are free to use.

python examples/data/make.py [DIRECTORY]
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import numpy as np

HERE = Path(__file__).parent
NUM_TRAINING, NUM_HELD_OUT = 1500, 60
T = TypeVar("T")


class Noun(NamedTuple):
    """A noun in English and German, singular and plural, and its German gender."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str


class Verb(NamedTuple):
    """A verb: infinitive and "-ing" form in English, third person singular and plural in German."""

    english: str
    english_ing: str
    german: str
    german_plural: str


class Phrase(NamedTuple):
    """The same words in English and German."""

    english: str
    german: str
    is_plural: bool = False
    is_definite: bool = False


PEOPLE = [
    Noun("man", "men", "Mann", "Männer", "m"),
    Noun("woman", "women", "Frau", "Frauen", "f"),
    Noun("child", "children", "Kind", "Kinder", "n"),
    Noun("girl", "girls", "Mädchen", "Mädchen", "n"),
    Noun("farmer", "farmers", "Bauer", "Bauern", "m"),
]
READABLE = [
    Noun("book", "books", "Buch", "Bücher", "n"),
    Noun("letter", "letters", "Brief", "Briefe", "m"),
    Noun("newspaper", "newspapers", "Zeitung", "Zeitungen", "f"),
]
FOOD = [
    Noun("apple", "apples", "Apfel", "Äpfel", "m"),
    Noun("pear", "pears", "Birne", "Birnen", "f"),
    Noun("egg", "eggs", "Ei", "Eier", "n"),
]
THINGS = [
    Noun("hat", "hats", "Hut", "Hüte", "m"),
    Noun("bag", "bags", "Tasche", "Taschen", "f"),
    Noun("picture", "pictures", "Bild", "Bilder", "n"),
]
# German adds an ending to the second word of each.
FOR_PEOPLE = {"": "", "old": "alt", "young": "jung", "tired": "müd", "happy": "glücklich"}
FOR_THINGS = {"": "", "old": "alt", "small": "klein", "big": "groß", "beautiful": "schön", "red": "rot"}
INTRANSITIVE = [
    Verb("talk", "talking", "redet", "reden"),
    Verb("sleep", "sleeping", "schläft", "schlafen"),
    Verb("laugh", "laughing", "lacht", "lachen"),
    Verb("wait", "waiting", "wartet", "warten"),
    Verb("sing", "singing", "singt", "singen"),
    Verb("work", "working", "arbeitet", "arbeiten"),
]
TRANSITIVE = [
    (Verb("read", "reading", "liest", "lesen"), READABLE),
    (Verb("eat", "eating", "isst", "essen"), FOOD),
    (Verb("buy", "buying", "kauft", "kaufen"), READABLE + FOOD + THINGS),
    (Verb("look for", "looking for", "sucht", "suchen"), READABLE + FOOD + THINGS),
    (Verb("draw", "drawing", "zeichnet", "zeichnen"), READABLE + FOOD + THINGS),
]
MODALS = [("wants to", "want to", "will", "wollen"), ("must", "must", "muss", "müssen")]
PLACES = {
    "": "",
    "in the park": "im Park",
    "in the kitchen": "in der Küche",
    "at the station": "am Bahnhof",
    "in the library": "in der Bibliothek",
    "in front of the house": "vor dem Haus",
}
TIMES = {"today": "heute", "now": "jetzt", "this evening": "heute Abend"}
# By gender: definite article and the ending of an adjective after it, then both for the indefinite article.
NOMINATIVE = {"m": ("der", "e", "ein", "er"), "f": ("die", "e", "eine", "e"), "n": ("das", "e", "ein", "es")}
ACCUSATIVE = {**NOMINATIVE, "m": ("den", "en", "einen", "en")}


def join(*words: str) -> str:
    """Join the words that are not empty."""
    return " ".join(filter(None, words))


def noun_phrase(
    random: Random, nouns: list[Noun], adjectives: dict[str, str], case: dict[str, tuple[str, ...]]
) -> Phrase:
    """Make a noun phrase: the old man, an apple, two red hats."""
    noun, article = random.choice(nouns), random.choice(["the", "a", "two"])
    adjective, stem = random.choice([*adjectives.items()])
    if article == "two":
        german = join("zwei", stem and f"{stem}e", noun.german_plural)
        return Phrase(join("two", adjective, noun.english_plural), german, is_plural=True)
    der, ending, ein, indefinite_ending = case[noun.gender]
    if article == "the":
        german = join(der, stem and stem + ending, noun.german)
        return Phrase(join("the", adjective, noun.english), german, is_definite=True)
    article = "an" if (adjective or noun.english)[0] in "aeiou" else "a"
    german = join(ein, stem and stem + indefinite_ending, noun.german)
    return Phrase(join(article, adjective, noun.english), german)


def subject(random: Random) -> Phrase:
    """Make a subject: the old man, two children."""
    return noun_phrase(random, PEOPLE, FOR_PEOPLE, NOMINATIVE)


def action(random: Random, *, has_place: bool = True) -> tuple[Verb, Phrase]:
    """Make a verb and its object and place: (read, a book in the park), (sleep, in the park)."""
    english, german = random.choice([*PLACES.items()]) if has_place else ("", "")
    if random.random() < 0.4:
        return random.choice(INTRANSITIVE), Phrase(english, german)
    verb, nouns = random.choice(TRANSITIVE)
    thing = noun_phrase(random, nouns, FOR_THINGS, ACCUSATIVE)
    # What is new comes last in German.
    german = join(thing.german, german) if thing.is_definite else join(german, thing.german)
    return verb, Phrase(join(thing.english, english), german)


def is_doing(who: Phrase, verb: Verb) -> str:
    """Return subject and verb in English: two men are reading."""
    return join(who.english, "are" if who.is_plural else "is", verb.english_ing)


def finite(who: Phrase, verb: Verb) -> str:
    """Return the German verb that agrees with the subject: liest, lesen."""
    return verb.german_plural if who.is_plural else verb.german


def statement(random: Random, *, has_place: bool = True) -> tuple[str, str]:
    """Make a main clause: der Mann liest im Park ein Buch."""
    who, (verb, rest) = subject(random), action(random, has_place=has_place)
    return join(is_doing(who, verb), rest.english), join(who.german, finite(who, verb), rest.german)


def with_time(random: Random) -> tuple[str, str]:
    """Put a time first, and the subject behind the verb: heute schläft der Mann."""
    (today, heute), who, (verb, rest) = random.choice([*TIMES.items()]), subject(random), action(random)
    german = join(heute, finite(who, verb), who.german, rest.german)
    return join(today, is_doing(who, verb), rest.english), german


def with_modal(random: Random) -> tuple[str, str]:
    """Put the infinitive last: der Mann will einen Hut kaufen."""
    who, (verb, rest), modal = subject(random), action(random), random.choice(MODALS)
    wants, will = modal[int(who.is_plural) :: 2]
    german = join(who.german, will, rest.german, verb.german_plural)
    return join(who.english, wants, verb.english, rest.english), german


def with_because(random: Random) -> tuple[str, str]:
    """Add a reason, with its verb last: der Mann lacht, weil ein Mädchen singt."""
    (english, german), who = statement(random, has_place=False), subject(random)
    verb, rest = action(random, has_place=False)
    german = join(f"{german}, weil", who.german, rest.german, finite(who, verb))
    return join(english, "because", is_doing(who, verb), rest.english), german


def with_speech(random: Random) -> tuple[str, str]:
    """Make direct speech: „Der Mann schläft“, sagt das Mädchen."""
    (english, german), who = statement(random, has_place=False), subject(random)
    says, sagt = ("say", "sagen") if who.is_plural else ("says", "sagt")
    return f'"{capital(english)}," {says} {who.english}', f"„{capital(german)}“, {sagt} {who.german}"


def capital(text: str) -> str:
    """Return a text with a capital letter."""
    return text[:1].upper() + text[1:]


FORMS: list[Callable[[Random], tuple[str, str]]] = [
    statement, statement, with_time, with_modal, with_because, with_speech
]  # fmt: skip


def pair(random: Random) -> tuple[str, str]:
    """Make an English sentence and its German translation."""
    english, german = random.choice(FORMS)(random)
    return f"{capital(english)}.", f"{capital(german)}."


GOOD = {
    "room": ["was clean", "was quiet", "had a beautiful view", "was large and bright"],
    "breakfast": ["was delicious", "was fresh", "was worth getting up for", "had everything we like"],
    "staff": ["were friendly", "helped us with everything", "were kind to our children"],
    "pool": ["was warm", "was wonderful", "was open all night"],
}
BAD = {
    "room": ["was dirty", "was loud", "had no window", "smelled of smoke"],
    "breakfast": ["was cold", "was not fresh", "was not worth the money", "came far too late"],
    "staff": ["were rude", "did not help us", "never answered the telephone"],
    "pool": ["was cold", "was closed", "was full of leaves"],
}
END = {
    "good": ["We will come back.", "Great value!", "A lovely stay.", ""],
    "bad": ["Never again!", "A waste of time.", "Not worth the money.", ""],
    "mixed": ["It was all right.", "Some things were fine.", ""],
}


def review(random: Random) -> tuple[str, str]:
    """Make a review of a hotel, and its label."""
    label = random.choice([*END])
    first, second = random.sample([*GOOD], 2)
    parts = {"good": (GOOD, "and", GOOD), "bad": (BAD, "and", BAD), "mixed": (GOOD, "but", BAD)}[label]
    before, word, after = parts if random.random() < 0.5 else parts[::-1]
    text = f"The {first} {random.choice(before[first])}, {word} the {second} {random.choice(after[second])}."
    return join(text, random.choice(END[label])), label


FIRST = ["Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jonas"]
LAST = ["Adler", "Baker", "Cook", "Fischer", "Hill", "Keller", "Miller", "Wagner", "Young"]
CITIES = [
    "Berlin",
    "Oslo",
    "Paris",
    "Rome",
    "Madrid",
    "New York",
    "San Francisco",
    "Cape Town",
    "Buenos Aires",
]
FIRMS = ["Baker and Sons", "North Sea Shipping", "Miller Books", "Sunrise Foods", "Alpine Rail"]
NEWS = [
    "PER lives in LOC .",
    "PER moved from LOC to LOC .",
    "PER works for ORG in LOC .",
    "Yesterday PER met PER in LOC .",
    "ORG opened a shop in LOC .",
    "The train from LOC to LOC was late .",
    "PER , who was born in LOC , sings well .",
    "A spokesman of ORG called PER .",
    "PER has bought ORG .",
    "It rained in LOC all day .",
]


def tagged(random: Random) -> tuple[tuple[str, str], ...]:
    """Make a sentence of tokens with their tags."""
    tokens = []
    for word in random.choice(NEWS).split():
        person = join(random.choice(FIRST), random.choice([*LAST, ""]))
        names = {"PER": person, "LOC": random.choice(CITIES), "ORG": random.choice(FIRMS)}
        for number, token in enumerate(names.get(word, word).split()):
            tokens.append((token, f"{'I' if number else 'B'}-{word}" if word in names else "O"))
    return tuple(tokens)


def tale(random: Random) -> str:
    """Make a short tale."""
    who = random.choice(["fox", "king", "girl", "miller", "dragon", "cat"])
    adjective = random.choice(["little", "clever", "lonely", "proud", "poor"])
    home = random.choice(["in the forest", "by the sea", "in a castle", "behind the mountains"])
    found = random.choice(["a golden key", "an old map", "a silver bell", "a sleeping bird"])
    then = random.choice(["opened a secret door", "found a friend", "went home", "sailed away", "slept well"])
    last = random.choice(["was never sad again", "lived happily ever after", "kept the secret"])
    return (
        f"Once upon a time there was a {adjective} {who} who lived {home}. "
        f"One day the {who} found {found}, {then} and {last}."
    )


# Each event changes the three channels of a sensor for some frames.
EVENTS = {
    "tap": [(0, 0, 60), (0, 0, 30)],
    "shake": [(50, 0, 0), (-50, 0, 0)] * 2,
    "turn": [(0, 20, 0), (0, 50, 0), (0, 50, 0), (0, 20, 0)],
    "drop": [(0, -40, -40)] * 3,
}


def window(random: Random) -> tuple[list[list[int]], str]:
    """Make the frames of one to three events with noise around them, and the names of the events."""
    names = random.choices([*EVENTS], k=random.randint(1, 3))
    frames: list[tuple[int, ...]] = []
    for name in names:
        frames += [(0, 0, 0)] * random.randint(2, 4) + EVENTS[name]
    frames += [(0, 0, 0)] * 2
    return [[value + random.randint(-8, 8) for value in frame] for frame in frames], " ".join(names)


def distinct(make: Callable[[Random], T], count: int) -> list[T]:
    """Return a number of different examples, the same ones at every call."""
    random, found = Random(0), {}
    while len(found) < count:
        example = make(random)
        found[str(example)] = example
    return [*found.values()]


def write_lines(path: Path, lines: list[str]) -> None:
    """Write a line for each text."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_table(path: Path, header: tuple[str, ...], rows: list[tuple[str, str]]) -> None:
    """Write a table as spreadsheets do."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main(directory: Path = HERE) -> None:
    """Write all files."""
    pairs = distinct(pair, NUM_TRAINING + 2 * NUM_HELD_OUT)
    training, held_out = pairs[:NUM_TRAINING], pairs[NUM_TRAINING:]
    parts = {"train": training, "validation": held_out[:NUM_HELD_OUT], "test": held_out[NUM_HELD_OUT:]}
    for name, part in parts.items():
        write_lines(directory / f"{name}.en", [english for english, _ in part])
        write_lines(directory / f"{name}.de", [german for _, german in part])
    write_table(directory / "phrases.csv", ("english", "german"), training)
    write_table(directory / "reviews.csv", ("text", "label"), distinct(review, 300))
    sentences = ["".join(f"{token}\t{tag}\n" for token, tag in each) for each in distinct(tagged, 200)]
    write_lines(directory / "names.conll", sentences)
    write_lines(directory / "tales.txt", distinct(tale, 300))
    frames, events = zip(*distinct(window, 1000), strict=True)
    np.savez_compressed(
        directory / "windows.npz",
        features=np.concatenate([np.array(each, "int8") for each in frames]),
        lengths=np.array([len(each) for each in frames]),
        targets=np.array(events),
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
