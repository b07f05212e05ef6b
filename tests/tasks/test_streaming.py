"""Pieces of text that together are the translation, each as soon as it is certain."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, SampleSearch
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, WhitespaceTokenizer

CORPUS = ["A dog runs.", "a cat sits\ton it", "the cat runs", "the dog sits"]
TOKENIZERS = {
    "character": lambda: CharacterTokenizer.train(CORPUS),
    "whitespace": lambda: WhitespaceTokenizer.train(CORPUS),
    "subword": lambda: SubwordTokenizer.train(CORPUS, vocabulary_size=30),
}
SEARCHES = [
    GreedySearch(),
    GreedySearch(constraints=Constraints(max_length_ratio=1.5, max_length_offset=2)),
    SampleSearch(1.3, top_k=5, seed=3, constraints=Constraints(no_repeat_ngram_size=2)),
]


@pytest.fixture(scope="module")
def translator(transformer: Any) -> kt.Translator:
    return kt.Translator(
        transformer,
        CharacterTokenizer("abcde"),
        CharacterTokenizer("wxyz"),
        search=GreedySearch(),
        max_source_length=40,
        max_target_length=6,
    )


class ScriptedModel:
    """Writes given tokens, one after the other, whatever the source is."""

    def __init__(self, token_ids: list[int], vocabulary_size: int) -> None:
        self.token_ids = np.array(token_ids, "int32")
        self.source_embedding = type("Embedding", (), {"vocabulary_size": 9})
        self.target_embedding = type("Embedding", (), {"vocabulary_size": vocabulary_size})
        self.variables: list[Any] = []

    def start_decoding(self, inputs: Any, max_length: Any, beam_size: int = 1, **options: Any) -> Any:
        def step(token_ids: Any, position: Any, cache: Any) -> Any:
            token_id = ops.take(ops.convert_to_tensor(self.token_ids), position)
            row = ops.one_hot(token_id, self.target_embedding.vocabulary_size) * 100
            return ops.repeat(row[None], ops.shape(token_ids)[0], axis=0), cache

        return step, ops.zeros((ops.shape(inputs)[0], 1))


def pieces(token_ids: list[int], tokenizer: Any) -> list[str]:
    """Stream a text of given tokens."""
    model = ScriptedModel(token_ids, tokenizer.vocabulary_size)
    translator = kt.Translator(
        model, CharacterTokenizer("abcde"), tokenizer, max_target_length=max(2, len(token_ids))
    )
    return list(translator.stream("a"))


class ByteTokenizer:
    """Stands for a tokenizer whose tokens are bytes: those that are no character are replaced."""

    vocabulary_size = 256
    prefix_ids = ()

    def detokenize(self, token_ids: list[list[int]]) -> Any:
        texts = [bytes(row).decode("utf-8", "replace").encode() for row in token_ids]
        return type("Texts", (), {"numpy": lambda self: texts})()


@pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_the_pieces_are_the_translation(translator: kt.Translator, search: Any) -> None:
    most = 0
    translator.search = search
    for text in ["abc", "\ud800", "ab" * 50, "abc", ""]:
        streamed = list(translator.stream(text, search))
        assert "".join(streamed) == translator.translate([text])[0]
        assert all(streamed)
        most = max(most, len(streamed))
    assert most > 1, "the pieces should come one by one"


def test_the_default_keeps_the_constraints(translator: kt.Translator) -> None:
    """Such as the language that each output of a multilingual model begins with."""
    constraints = Constraints(first_token_ids=(6, 5), min_length=3)
    translator = translator.with_changes(search=BeamSearch(2, constraints=constraints))
    streamed = "".join(translator.stream("abc"))
    assert streamed == "".join(translator.stream("abc", GreedySearch(constraints=constraints)))
    assert streamed.startswith("yx")


def test_pieces_come_before_the_output_is_complete() -> None:
    tokenizer = CharacterTokenizer("wxyz")
    model = ScriptedModel([4, 5] * 500, 8)
    steps = kt.Translator(model, CharacterTokenizer("abcde"), tokenizer, max_target_length=1000).stream("a")
    assert [next(steps) for _ in range(4)] == ["w", "x", "w", "x"]


def test_it_stops_at_the_end_token_and_at_the_longest_length() -> None:
    tokenizer = CharacterTokenizer("wxyz")
    assert pieces([4, 5, 3, 6, 7], tokenizer) == ["w", "x"]
    assert pieces([4, 5, 6], tokenizer) == ["w", "x", "y"]


@pytest.mark.slow
def test_without_a_seed_each_stream_is_another(translator: kt.Translator) -> None:
    assert len({"".join(translator.stream("cab e", SampleSearch(4.0))) for _ in range(8)}) > 1


def test_a_limit_that_is_changed_takes_effect(translator: kt.Translator) -> None:
    before = translator.max_target_length
    whole = "".join(translator.stream("abc"))
    translator.max_target_length = 3
    try:
        assert "".join(translator.stream("abc")) == whole[:3]
    finally:
        translator.max_target_length = before


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_of_every_tokenizer_are_the_text(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    rng = np.random.default_rng(7)
    for length in (2, 5, 11, 11):
        token_ids = rng.integers(3, tokenizer.vocabulary_size, length).tolist()
        expected = tokenizer.detokenize([token_ids]).numpy()[0].decode()
        assert "".join(pieces(token_ids, tokenizer)) == expected


def test_a_character_comes_when_it_is_complete() -> None:
    assert pieces([*"aé☃b".encode()], ByteTokenizer()) == ["a", "é", "☃", "b"]


def test_bytes_that_never_become_a_character_come_last() -> None:
    assert pieces([*b"a\xe2\x98"], ByteTokenizer()) == ["a", "\N{REPLACEMENT CHARACTER}"]


def test_a_text_that_is_cut_off_warns(translator: kt.Translator) -> None:
    with pytest.warns(TruncationWarning, match="longer than the translator's 40 tokens") as caught:
        list(translator.stream("a" * 40))
    assert caught[0].filename == __file__
    list(translator.stream("a" * 39))


def test_what_is_no_text_is_refused(translator: kt.Translator) -> None:
    with pytest.raises(TypeError, match=r"`text` must hold strings\. Received: text\[0\]=\['a'\]\."):
        translator.stream(["a"])


@pytest.mark.parametrize("search", [BeamSearch(3), BeamSearch(1), SampleSearch(num_samples=2)])
def test_a_search_that_decides_late_is_refused(translator: kt.Translator, search: Any) -> None:
    message = rf"Received: {type(search).__name__}, beam_size={search.beam_size}\."
    with pytest.raises(ValueError, match=message):
        translator.stream("a", search)


def test_weights_that_change_take_effect(translator: kt.Translator) -> None:
    before = "".join(translator.stream("abc"))
    weights = translator.model.get_weights()
    translator.model.set_weights([weight[::-1] for weight in weights])
    try:
        translator.search = GreedySearch()
        after = translator.translate(["abc"])[0]
        assert before != after == "".join(translator.stream("abc"))
    finally:
        translator.model.set_weights(weights)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts traces of TensorFlow")
def test_a_round_is_traced_a_few_times_at_most() -> None:
    traces = []

    class CountingModel(ScriptedModel):
        def start_decoding(self, inputs: Any, max_length: Any, beam_size: int = 1, **options: Any) -> Any:
            traces.append(inputs)
            return super().start_decoding(inputs, max_length, beam_size, **options)

    tokenizer = CharacterTokenizer("wxyz")
    translator = kt.Translator(CountingModel([4, 5, 3], 8), CharacterTokenizer("abcde"), tokenizer)
    for size in range(1, 9):
        assert "".join(translator.stream("a" * size)) == "wx"
    assert len(traces) <= 6  # 3 for the cache, 3 for the rounds
