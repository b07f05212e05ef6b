"""Tagged texts from CoNLL files and JSON, and the spans of their tags."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.data import read_tagged, tag_spans
from keras_transformer.errors import InputError
from keras_transformer.text import split_words

SENTENCES = [(("EU", "rejects", "it", "."), ("B-ORG", "O", "O", "O")), (("Peter", "#"), ("B-PER", "O"))]
# Of the form of CoNLL-2003.
CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
it PRP B-NP O
. . O O

Peter NNP B-NP B-PER
# # O O
"""
CONLLU = """# sent_id = 1
# text = EU rejects it.
1\tEU\t_\tPROPN\t_
2\trejects\t_\tVERB\t_
3\tit\t_\tPRON\t_
4\t.\t_\tPUNCT\t_

# newpar
1\tPeter\t_\tPROPN\t_
2\t#\t_\tSYM\t_
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("eng.train", CONLL),
        ("x.conll", "\ufeff" + CONLL.replace("\n", "\r\n") + "\r\n \r\n"),
        ("x.bio", CONLL.replace(" ", "\t")),
        ("x.conll#1,4", CONLL),
        ("x.conll", CONLL.replace("rejects", "re\u00a0jects")),  # a no-break space separates no columns
        (
            "x.jsonl",
            (
                '{"id": "0", "tokens": ["EU", "rejects", "it", "."], "ner_tags": ["B-ORG", "O", "O", "O"]}\n'
                '{"id": "1", "tokens": ["Peter", "#"], "ner_tags": ["B-PER", "O"]}\n'
            ),
        ),
        (
            "x.json#words,kinds",
            (
                '[{"words": ["EU", "rejects", "it", "."], "kinds": ["B-ORG", "O", "O", "O"], "tags": []},'
                '{"words": ["Pe ter", "#"], "kinds": ["B-PER", "O"], "tags": []}]'
            ),
        ),
    ],
)
def test_forms(tmp_path: Path, name: str, content: str) -> None:
    file, _, columns = name.partition("#")
    (tmp_path / file).write_bytes(content.encode())
    assert read_tagged(f"{tmp_path / file}#{columns}" if columns else tmp_path / file) == SENTENCES


def test_half_a_character_of_json_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(rb'{"tokens": ["\ud800x"], "tags": ["O"]}')
    assert read_tagged(tmp_path / "x.jsonl") == [(("\N{REPLACEMENT CHARACTER}x",), ("O",))]


def test_columns_of_a_treebank(tmp_path: Path) -> None:
    (tmp_path / "x.conllu").write_text(CONLLU, encoding="utf-8")
    tokens, tags = zip(*read_tagged(f"{tmp_path}/x.conllu#2,4"), strict=True)
    assert tokens == tuple(tokens for tokens, _ in SENTENCES)
    assert tags == (("PROPN", "VERB", "PRON", "PUNCT"), ("PROPN", "SYM"))


TAB_8 = "\t_" * 8


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        # MultiCoNER
        ("x.conll", "# id 1f\tdomain=en\nEU _ _ B\n# _ _ O\n\n# id 2\tdomain=en\nx _ _ O\n", ["EU #", "x"]),
        ("x.conll", "# id 4\tdomain=en\n# id 5\nEU\tB\n#\tO\n", ["EU #"]),
        # CoNLL-2012
        ("x.conll", "#begin document (x); part 000\nEU _ _ _ B\n#end document\n", ["EU"]),
        # Words
        ("x.conll", "EU NNP B\n#hash O\nx NN O\n", ["EU #hash x"]),
        ("x.conll", "# B\n#a O\n", ["# #a"]),
        ("x.conll", f"won{' _' * 8} O\n3-1{' _' * 8} O\n2.5{' _' * 8} B\n", ["won 3-1 2.5"]),
        ("x.conllu", "EU NNP I-NP B-ORG\n", ["EU"]),
        ("x.conll", f"1{' a' * 9}\nhouse{' b' * 9}\n", ["1 house"]),
        # CoNLL-U by its columns
        ("x.conll", f"1-2\tau{TAB_8}\n1\tà{TAB_8}\n2\tle{TAB_8}\n2.1\tnew{TAB_8}\n", ["à le"]),
        (
            "x.conllu",
            (
                "# text = au parc\n1-2\tau\t_\t_\t_\t_\t_\t_\t_\t_\n1\tà\tà\tADP\t_\t_\t_\t_\t_\t_\n"
                "2\tle\tle\tDET\t_\t_\t_\t_\t_\t_\n2.1\tnew\t_\t_\t_\t_\t_\t_\t_\t_\n"
            ),
            ["à le"],
        ),
    ],
)
def test_comments_and_what_is_no_word(tmp_path: Path, name: str, content: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert [" ".join(tokens) for tokens, _ in read_tagged(tmp_path / name)] == texts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.conll", "EU B-ORG\nrejects\n", r"x.conll:2: needs a token and a tag. Received: 'rejects'"),
        ("x.conll", "EU\tB\n#tag\n", r"x.conll:2: needs a token and a tag. Received: '#tag'"),
        ("x.conll", "EU\t\n", r"x.conll:1: a token and its tag must not be empty. Received: 'EU', ''"),
        ("x.conll", "\n\n", "must have tagged tokens. Received: no token"),
        ("x.conll#token,tag", "EU B-ORG\n", "columns of lines are numbers from 1. Received: token,tag"),
        ("x.conll", b"EU\xff B-ORG\n", r"x.conll:1:3: not valid UTF-8"),
        ("x.jsonl", '{"tokens": ["EU"], "tags": []}', r"Received: 1 tokens, 0 tags"),
        ("x.jsonl", '{"tokens": ["EU"], "tags": [3]}', r"must be lists of strings. Received: \[3\]"),
        ("x.jsonl", '{"tokens": ["EU"], "what": ["O"]}', r"do not say which are tokens and tags"),
        ("x.jsonl", '{"tokens": ["EU"], "tags": [""]}', r"must not be empty. Received: 'EU', ''"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    file, _, columns = name.partition("#")
    (tmp_path / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message):
        read_tagged(f"{tmp_path / file}#{columns}" if columns else tmp_path / file)


@pytest.mark.parametrize(
    ("tags", "spans"),
    # The second to the seventh are cases of the README and of the tests of the package `seqeval`.
    [
        ("", []),
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("O O O B-MISC I-MISC I-MISC O", [("MISC", 3, 6)]),
        ("B-PER I-PER O", [("PER", 0, 2)]),
        ("I-PER I-PER I-LOC", [("PER", 0, 2), ("LOC", 2, 3)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("B-X I-X E-X S-X E-X I-X", [("X", 0, 3), ("X", 3, 4), ("X", 4, 5), ("X", 5, 6)]),
        ("B-X L-X U-X B-X I-X L-X", [("X", 0, 2), ("X", 2, 3), ("X", 3, 6)]),  # BILOU
        ("B-X M-X E-X S-X", [("X", 0, 3), ("X", 3, 4)]),  # BMES
        ("NOUN VERB", []),
        ("B-", []),
    ],
)
def test_spans(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert tag_spans(tags.split()) == spans


def test_a_token_is_a_word_of_its_text_whatever_it_contains(tmp_path: Path) -> None:
    characters = [chr(code) for code in (*range(1, 0x3400), 0xFEFF, 0xFFFD)]  # JSON escapes them
    path = tmp_path / "x.jsonl"
    path.write_text(
        json.dumps({"tokens": [f"a{c}b" for c in characters], "tags": ["O"] * len(characters)}), "utf-8"
    )
    [(tokens, _)] = read_tagged(path)
    words = split_words(tf.constant([" ".join(tokens)]), split_punctuation=False).words
    assert [word.decode() for word in words.to_list()[0]] == [*tokens]
    assert sum(len(token) == 2 for token in tokens) > 50
    path.write_text('{"tokens": ["a", "\\u200b"], "tags": ["O", "O"]}', "utf-8")
    with pytest.raises(InputError, match=r"x.jsonl:1: a token .* not be empty. Received: '\\u200b', 'O'"):
        read_tagged(path)
