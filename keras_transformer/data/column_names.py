"""Guess from column names which column holds sources, targets, texts, labels or tags."""

import re
from collections.abc import Sequence

_SOURCE = {"source", "sources", "src", "original", "input", "question", "prompt", "from"}
_TARGET = {
    "target",
    "targets",
    "tgt",
    "trg",
    "translation",
    "translated",
    "output",
    "answer",
    "response",
    "to",
}
_TEXT = {"text", "texts", "sentence", "sentences", "segment", "language", "lang", "phrase"}
_OTHER = {
    "id",
    "ids",
    "index",
    "idx",
    "no",
    "nr",
    "number",
    "unnamed",
    "key",
    "score",
    "url",
    "line",
    "split",
}
_OTHER |= {"attribution", "license", "domain", "corpus", "date", "notes", "note", "comment"}
# For labelled texts, because some names have a different meaning than in tables of pairs.
_LABEL = """
label labels class classes category categories sentiment intent topic topics tag tags genre emotion
emotions rating stars polarity spam toxic gold target targets y label_text label_name class_name
"""
_LABELLED = """
text texts sentence sentences review reviews comment comments message messages document documents content
body tweet utterance query question headline abstract description input sms email x phrase
"""
_TOKENS = ["tokens", "words", "token", "word", "form", "text"]
_TAGS = ["tags", "ner_tags", "pos_tags", "labels", "ner", "tag", "upos", "pos", "label"]
_CODES = """
aa ab af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee
el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia ie ig ii ik io is
it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr
ms mt my na nb nd ne ng nl nn nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si
sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh
yi yo za zh zu ara ben bul cat ces cze dan deu ger ell gre eng est fin fra fre heb hin hrv hun ind isl
ita jpn kor lav lit nld dut nor pol por ron rum rus slk slv spa srp swe tur ukr urd vie zho chi
"""
_LANGUAGES = """
afrikaans albanian amharic arabic armenian azerbaijani basque belarusian bengali bosnian bulgarian
catalan chinese croatian czech danish dutch english esperanto estonian finnish french galician georgian
german greek gujarati hausa hebrew hindi hungarian icelandic indonesian irish italian japanese kannada
kazakh khmer korean kurdish latin latvian lithuanian macedonian malay malayalam maltese marathi mongolian
nepali norwegian persian polish portuguese punjabi romanian russian serbian slovak slovenian somali
spanish swahili swedish tagalog tamil telugu thai turkish ukrainian urdu uzbek vietnamese welsh yoruba
zulu
"""
_CODE = re.compile(rf"({'|'.join(_CODES.split())})([-_][a-z]{{2,4}})?", re.I)


def role(name: str) -> str | None:
    """Return what a column name means: source, target, language, text or other; None if unknown."""
    # For a nested JSON object such as `translation.de`, use the inner name.
    inner = name.rpartition(".")[2].strip()
    if _CODE.fullmatch(inner) and inner.lower() not in _OTHER:
        return "language"
    words = re.findall(r"[^\W\d_]+", inner.casefold())
    kinds = [_word_role(word) for word in words]
    if None in kinds:
        return None
    for kind in ("other", "source", "target", "language"):
        if kind in kinds:
            return kind
    return "text" if words else "other"  # an index column has no name


def _word_role(word: str) -> str | None:
    words = {
        "other": _OTHER,
        "source": _SOURCE,
        "target": _TARGET,
        "text": _TEXT,
        "language": _LANGUAGES.split(),
    }
    found = next((kind for kind, members in words.items() if word in members), None)
    return found or ("language" if _CODE.fullmatch(word) else None)


def is_header(cells: Sequence[str]) -> bool:
    """Return whether a row is a header: all names are known, and at least two name text columns."""
    roles = [role(cell) for cell in cells]
    is_known = None not in roles and not any(cell.strip()[:1].isdigit() for cell in cells)
    are_texts = sum(kind != "other" for kind in roles) >= 2
    names = [cell.strip().casefold() for cell in cells]
    # In a text such as "to be", a language code is a word.
    are_words = any(_CODE.fullmatch(word) for name in names if " " in name for word in name.split())
    return is_known and are_texts and not are_words and len({*names}) == len(names)


def is_short_code(cell: str) -> bool:
    """Return whether a cell has two letters: a language code or a word, such as *it*, *es*, *is*."""
    return len(cell.strip()) == 2


def source_and_target(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the indices of the source and target columns; None if ambiguous."""
    roles = [role(name) for name in names]
    sources, targets = (
        [index for index, kind in enumerate(roles) if kind == side] for side in ("source", "target")
    )
    if len(sources) == len(targets) == 1:
        return sources[0], targets[0]
    texts = [index for index, kind in enumerate(roles) if kind != "other"]
    if len(texts) != 2:
        return None
    first, second = texts
    return (second, first) if roles[first] == "target" or roles[second] == "source" else (first, second)


def text_and_label(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the indices of the text and label columns; None if ambiguous."""
    plain = [name.rpartition(".")[2].strip().casefold() for name in names]
    texts, labels = (
        [index for index, name in enumerate(plain) if name in known.split()] for known in (_LABELLED, _LABEL)
    )
    return (texts[0], labels[0]) if len(texts) == len(labels) == 1 else None


def tokens_and_tags(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of the token and tag columns, by priority; None if one is missing."""
    tokens, tags = ([name for name in known if name in names] for known in (_TOKENS, _TAGS))
    return (tokens[0], tags[0]) if tokens and tags else None
