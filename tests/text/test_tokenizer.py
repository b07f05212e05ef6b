"""What every kind of tokenizer promises, saving and loading included."""

import copy
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer.errors import InputError
from keras_transformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
)
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

AWKWARD = [
    b"",
    b" ",
    b"\x00",
    b"a\x00b",
    b"\xff\xfe",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    "\U0001f600".encode(),
    "שלום עולם".encode(),
    "e\u0301\u200d\u202e".encode(),
    b"[END] [PAD] <s> </s>",
    b"a" * 100_000,
    b"\xff" * 100_000,
    b"a cat sits",
]

ABC_SHA256 = (
    "024d32d539dfd59f27f8852c9a5cc6bb251501a1fc1c7af32227a9403069b9e7"  # of the vocabulary file of a, b, c
)


def ids(tokenizer: Tokenizer, *texts: str | bytes) -> list[list[int]]:
    return tokenizer.tokenize(tf.constant(list(texts))).to_list()


def texts(tokenizer: Tokenizer, token_ids: list[list[int]]) -> list[str]:
    return [text.decode() for text in tokenizer.detokenize(tf.constant(token_ids)).numpy()]


def test_texts_survive_the_round_trip(tokenizer: Tokenizer) -> None:
    rows = ["the cat runs", "A dog runs.", "", "it"]
    result = tokenizer.detokenize(tokenizer.tokenize(rows))
    assert [row.decode() for row in result.numpy()] == rows


def test_ids_are_int32_and_never_special_but_unknown(tokenizer: Tokenizer) -> None:
    result = tokenizer.tokenize(AWKWARD)
    assert (result.dtype, result.shape.rank, result.nrows()) == (tf.int32, 2, len(AWKWARD))
    values = set(result.flat_values.numpy().tolist())
    assert values <= {SPECIAL_IDS.unknown, *range(len(SPECIAL_TOKENS), tokenizer.vocabulary_size)}


def test_each_row_is_treated_alone(tokenizer: Tokenizer) -> None:
    together = ids(tokenizer, *AWKWARD)
    assert together == [ids(tokenizer, row)[0] for row in AWKWARD]
    assert together[::-1] == ids(tokenizer, *AWKWARD[::-1])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary() | st.text().map(lambda t: t.encode("utf-8", "surrogatepass")), min_size=1))
def test_any_bytes_get_an_answer(tokenizer: Tokenizer, rows: list[bytes]) -> None:
    token_ids = tokenizer.tokenize(tf.constant(rows))
    for row in tokenizer.detokenize(token_ids).numpy():
        row.decode()
    assert ids(tokenizer, rows[0]) == token_ids.to_list()[:1]


def test_lists_of_strings_may_hold_what_is_no_text(tokenizer: Tokenizer) -> None:
    rows = tokenizer.tokenize(["a", "a\ud800", b"a"]).to_list()
    assert rows[0] == rows[2] == tokenizer.tokenize(tf.constant(["a"])).to_list()[0]
    assert rows[1] == tokenizer.tokenize(tf.constant([b"a\xed\xa0\x80"])).to_list()[0]
    assert tokenizer.tokenize([]).to_list() == []


def test_graph_and_eager_agree(tokenizer: Tokenizer) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def run(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        token_ids = tokenizer.tokenize(rows)
        return token_ids.to_tensor(), tokenizer.detokenize(token_ids), tokenizer.tokens(token_ids)

    eager = tokenizer.tokenize(AWKWARD)
    token_ids, joined, pieces = run(tf.constant(AWKWARD))
    np.testing.assert_array_equal(token_ids, eager.to_tensor())
    np.testing.assert_array_equal(joined, tokenizer.detokenize(eager))
    np.testing.assert_array_equal(pieces, tokenizer.tokens(eager))


def test_the_special_tokens_have_the_first_ids(tokenizer: Tokenizer) -> None:
    assert SPECIAL_IDS == (0, 1, 2, 3)
    names = [piece.decode() for piece in tokenizer.tokens(tf.constant([[1, 2, 3]])).numpy()[0]]
    assert ("[PAD]", *names) == SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[START]", "[END]")


def test_padded_ids_end_each_text_and_cut_the_long_ones() -> None:
    tokenizer = CharacterTokenizer("ab")
    rows = tokenizer.padded_ids(tf.constant(["ab", "", "b"]), 10)
    assert (rows.dtype, rows.numpy().tolist()) == (tf.int32, [[4, 5, 3], [3, 0, 0], [5, 3, 0]])
    assert tokenizer.padded_ids(["ababab"], 4).numpy().tolist() == [[4, 5, 4, 3]]
    assert tokenizer.padded_ids(["ababab"], 1).numpy().tolist() == [[3]]
    assert tokenizer.padded_ids([], 10).shape == (0, 1)
    tokenizer.end_ids = (3, 5)
    assert tokenizer.padded_ids(["ababab"], 3).numpy().tolist() == [[4, 3, 5]]
    with pytest.raises(ValueError, match="`max_length` must be at least 2"):
        tokenizer.padded_ids(["ababab"], 1)


def test_of_a_long_text_no_more_is_tokenized_than_is_wanted(tokenizer: Tokenizer) -> None:
    """SentencePiece takes hours for ten megabytes of characters that it does not know."""
    [short] = tokenizer.padded_ids(["a cat " * 30], 20).numpy().tolist()
    for text in ("a cat " * 2_000_000, "a cat " * 30 + "\u2603" * 3_000_000):
        [long], [is_cut] = (part.numpy().tolist() for part in tokenizer.ended_ids([text], 20))
        assert (long, is_cut) == (short, True)


def test_a_round_trip_writes_texts_as_a_model_would() -> None:
    texts = ["A  B", "a\ud800b", "", "ac"]
    assert CharacterTokenizer("ab ", lowercase=True, normalize_spaces=True).round_trip(texts) == [
        "a b",
        "ab",
        "",
        "a",
    ]
    assert SubwordTokenizer.train(["ab...", "a b ."] * 5, 12).round_trip(["ab…"]) == ["ab..."]


def test_datasets_can_be_mapped(tokenizer: Tokenizer) -> None:
    rows = tf.data.Dataset.from_tensor_slices(["a cat", "the dog"]).batch(2).map(tokenizer.tokenize)
    assert next(iter(rows)).to_list() == ids(tokenizer, "a cat", "the dog")


def test_detokenize_stops_at_the_first_end(tokenizer: Tokenizer) -> None:
    (cat,) = ids(tokenizer, "cat")
    assert texts(
        tokenizer, [[SPECIAL_IDS.start, *cat, SPECIAL_IDS.end, *cat, SPECIAL_IDS.end, SPECIAL_IDS.pad]]
    ) == ["cat"]


def test_detokenize_leaves_out_special_and_foreign_ids(tokenizer: Tokenizer) -> None:
    (cat,) = ids(tokenizer, "cat")
    foreign = [
        SPECIAL_IDS.pad,
        SPECIAL_IDS.unknown,
        SPECIAL_IDS.start,
        -1,
        tokenizer.vocabulary_size,
        2**31 - 1,
    ]
    assert texts(tokenizer, [[*foreign, *cat, *foreign]]) == ["cat"]


def test_detokenize_takes_any_integers(tokenizer: Tokenizer) -> None:
    (cat,) = ids(tokenizer, "cat")
    for token_ids in ([cat], np.array([cat], np.int64), tf.constant([cat], tf.int64)):
        assert tokenizer.detokenize(token_ids).numpy().tolist() == [b"cat"]


def test_tokens_name_every_id(tokenizer: Tokenizer) -> None:
    token_ids = [
        [
            SPECIAL_IDS.start,
            len(SPECIAL_TOKENS),
            SPECIAL_IDS.unknown,
            999,
            -1,
            SPECIAL_IDS.end,
            SPECIAL_IDS.pad,
        ]
    ]
    result = [piece.decode() for piece in tokenizer.tokens(tf.constant(token_ids)).numpy()[0]]
    assert result[:1] + result[2:] == ["[START]", "[UNK]", "[UNK]", "[UNK]", "[END]", ""]
    assert result[1] not in ("", "[UNK]")


def test_empty_batches_keep_their_shapes(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.detokenize(tf.zeros([0, 3], tf.int32)).shape == [0]
    assert tokenizer.detokenize(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]
    assert tokenizer.tokens(tf.zeros([2, 0], tf.int32)).shape == [2, 0]


def test_wrong_ranks_are_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"`texts` must have shape \(b,\)\. Received: shape=\(1, 1\)"):
        tokenizer.tokenize(tf.constant([["a"]]))
    for method in (tokenizer.detokenize, tokenizer.tokens):
        with pytest.raises(
            ValueError, match=r"`token_ids` must have shape \(b, t\)\. Received: shape=\(3,\)"
        ):
            method(tf.constant([5, 6, 7]))


def test_saved_tokenizer_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(str(tmp_path))
    assert type(loaded) is type(tokenizer)
    assert loaded.options == tokenizer.options
    assert ids(loaded, *AWKWARD) == ids(tokenizer, *AWKWARD)
    assert (tmp_path / tokenizer.vocabulary_file).is_file()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_tokenizers_can_be_copied_and_pickled(
    tokenizer: Tokenizer, again: Callable[[Tokenizer], Tokenizer]
) -> None:
    assert ids(again(tokenizer), "a cat!") == ids(tokenizer, "a cat!")


def test_a_missing_vocabulary_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / tokenizer.vocabulary_file
    path.unlink()
    with pytest.raises(InputError, match=rf"Cannot read {path}: No such file or directory\."):
        Tokenizer.load(tmp_path)


def test_an_empty_vocabulary_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / tokenizer.vocabulary_file
    path.write_bytes(b"")
    with pytest.raises(InputError, match=rf"Cannot read {path}: the file is empty\."):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("end", [-1, 1, 50])
def test_a_vocabulary_cut_short_is_named(tokenizer: Tokenizer, tmp_path: Path, end: int) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / tokenizer.vocabulary_file
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(InputError) as error:
        Tokenizer.load(tmp_path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_fingerprint_is_of_vocabulary_and_options() -> None:
    tokenizers = [
        CharacterTokenizer(["a", "b"]),
        CharacterTokenizer(["a", "b"]),
        CharacterTokenizer(["a", "c"]),
        CharacterTokenizer(["a", "b"], lowercase=True),
    ]
    first, *others = (tokenizer.fingerprint() for tokenizer in tokenizers)
    assert [first == other for other in others] == [True, False, False]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    CharacterTokenizer("abc", lowercase=True).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_the_files_of_a_tokenizer(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == ["tokenizer.json", "vocabulary.txt"]
    assert json.loads((directory / CharacterTokenizer.options_file).read_text()) == {
        "kind": "character",
        "lowercase": True,
        "normalize_spaces": False,
        "vocabulary_sha256": ABC_SHA256,
    }


@pytest.mark.parametrize("kind", [None, "sentences", 7, []])
@pytest.mark.parametrize("module", [None, 3, "antigravity", "keras_transformer.absent"])
def test_an_unknown_kind_is_named(kind: object, module: object, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"kind": kind, "module": module}))
    message = r"tokenizer\.json: kind must be one of \(.*'character', .*'subword', .*\)\. "
    with pytest.raises(InputError, match=f"{message}Received: {re.escape(repr(kind))}"):
        Tokenizer.load(tmp_path)
    assert "antigravity" not in sys.modules  # a module of others is not imported


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stemming": True}, r"options must be among \('lowercase', .*\)\. Received: 'stemming'\."),
        ({"lowercase": "no"}, r"lowercase must be true or false\. Received: 'no'\."),
    ],
)
def test_a_wrong_option_is_named(directory: Path, options: dict[str, object], message: str) -> None:
    (directory / "tokenizer.json").write_text(json.dumps({"kind": "character", **options}))
    with pytest.raises(InputError, match=message):
        Tokenizer.load(directory)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"{'a': 1}", b"[" * 99999])
def test_options_must_be_json(directory: Path, content: bytes) -> None:
    (directory / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError, match=r"saved/tokenizer\.json is not valid JSON: "):
        Tokenizer.load(directory)


def test_options_must_be_an_object(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("[1]")
    with pytest.raises(InputError, match=r"must hold a JSON object\. Received: \[1\]\."):
        Tokenizer.load(directory)


def test_a_directory_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"Cannot read {tmp_path}/tokenizer\.json: No such file"):
        Tokenizer.load(tmp_path)


def test_a_changed_vocabulary_is_refused_unless_there_is_no_checksum(directory: Path) -> None:
    CharacterTokenizer("xyz").save(directory.parent / "other")
    (directory.parent / "other" / "vocabulary.txt").rename(directory / "vocabulary.txt")
    with pytest.raises(
        InputError,
        match=rf"vocabulary\.txt is damaged: SHA-256 must be {ABC_SHA256}\. Rec",
    ):
        Tokenizer.load(directory)
    (directory / "tokenizer.json").write_text('{"kind": "character"}')
    assert ids(Tokenizer.load(directory), "yz") == [[5, 6]]


@pytest.mark.slow
def test_importing_the_room_imports_no_subword_library() -> None:
    script = "import sys, keras_transformer.text; print({'keras_nlp', 'tensorflow_text'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_it_is_called_as_a_tokenizer_of_keras_hub_is(tokenizer: Tokenizer) -> None:
    theirs = pytest.importorskip("keras_hub").tokenizers.ByteTokenizer()
    for texts in ("a cat", ["a cat"], tf.constant(["a cat"]), tf.constant("a cat")):
        ours, expected = tokenizer(texts), theirs(texts)
        assert {np.ndim(each) for each in ours} == {np.ndim(each) for each in expected}
        flat = ours.flat_values if isinstance(ours, tf.RaggedTensor) else ours
        assert flat.numpy().tolist() == ids(tokenizer, "a cat")[0]
    dataset = tf.data.Dataset.from_tensor_slices(["a cat"]).map(tokenizer)
    assert [row.tolist() for row in dataset.as_numpy_iterator()] == ids(tokenizer, "a cat")


def test_it_shows_its_kind_and_size(tokenizer: Tokenizer) -> None:
    size, name = tokenizer.vocabulary_size, type(tokenizer).__name__
    assert repr(tokenizer) == f"<{name}: kind={tokenizer.kind!r}, vocabulary_size={size}>"
    lower = CharacterTokenizer(["a"], lowercase=True)
    assert repr(lower) == "<CharacterTokenizer: kind='character', vocabulary_size=5, lowercase=True>"
