"""Shortlists: the table from pairs, and searches that see only the tokens of a source."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import BeamSearch, GreedySearch, SampleSearch, array, talkative
from keras_transformer._backend import compile_function
from keras_transformer.decoding import Constraints, generate, lexical_shortlist
from keras_transformer.errors import InputError

NUM_TARGETS, END = 40, 3
SEARCHES = [GreedySearch(), BeamSearch(1), BeamSearch(3), BeamSearch(6, num_hypotheses=2)]


@pytest.fixture(scope="module")
def model() -> kt.Transformer:
    """A model of 9 source and 40 target ids whose answers depend on the source."""
    return talkative(
        kt.Transformer(9, NUM_TARGETS, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16), seed=5
    )


@pytest.fixture(scope="module")
def shortlist() -> np.ndarray:
    return np.random.default_rng(7).integers(0, NUM_TARGETS, (9, 4)).astype("int32")


def listed(shortlist: np.ndarray, source_ids: np.ndarray) -> np.ndarray:
    """Return which tokens each source may become, in Python."""
    return np.array(
        [np.isin(range(NUM_TARGETS), [END, *shortlist[row[row > 0]].ravel()]) for row in source_ids]
    )


def in_graph(function: Callable[[Any], Any]) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """Make a graph of TensorFlow of a function of sources, for batches of any size."""
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("a graph of TensorFlow needs its backend")
    spec = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(function, input_signature=[spec], autograph=False)
    return lambda source_ids: tuple(map(array, graph(source_ids)))


def greedy_in_numpy(
    model: kt.Transformer, source: np.ndarray, is_listed: np.ndarray
) -> tuple[list[int], float]:
    """Take the most likely listed token at each of 7 steps, with the model itself."""
    written, total = [2], 0.0
    while len(written) < 8 and written[-1] != END:
        inputs = {"encoder_token_ids": source[None], "decoder_token_ids": np.array([written], "int32")}
        logits = np.where(is_listed, array(model(inputs))[0, -1].astype("float64"), -np.inf)
        log_probabilities = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        log_probabilities[:3] = -np.inf  # padding, unknown and start
        written.append(int(log_probabilities.argmax()))
        total += log_probabilities.max()
    return written[1:], total


def test_greedy_search_against_numpy(model: Any, shortlist: np.ndarray, source_ids: np.ndarray) -> None:
    token_ids, scores = map(array, generate(model, source_ids, GreedySearch(), 7, shortlist=shortlist))
    for row, source in enumerate(source_ids):
        wanted, score = greedy_in_numpy(model, source, listed(shortlist, source_ids)[row])
        assert token_ids[row, 0].tolist() == wanted + [0] * (7 - len(wanted))
        np.testing.assert_allclose(scores[row, 0], score, rtol=1e-4)


@pytest.mark.parametrize("search", [*SEARCHES, SampleSearch(num_samples=3, seed=1)])
def test_only_listed_tokens_are_generated(
    model: Any, shortlist: np.ndarray, source_ids: np.ndarray, search: Any
) -> None:
    token_ids = array(generate(model, source_ids, search, 7, shortlist=shortlist).token_ids)
    plain = array(generate(model, source_ids, search, 7).token_ids)
    is_listed = listed(shortlist, source_ids)
    assert all(is_listed[row, ids[ids > 0]].all() for row, ids in enumerate(token_ids))
    assert not all(is_listed[row, ids[ids > 0]].all() for row, ids in enumerate(plain))


@pytest.mark.parametrize("search", SEARCHES)
def test_a_list_of_all_tokens_changes_nothing(model: Any, source_ids: np.ndarray, search: Any) -> None:
    everything = np.tile(np.arange(NUM_TARGETS, dtype="int32"), (9, 1))
    found, plain = (generate(model, source_ids, search, 7, shortlist=each) for each in (everything, None))
    np.testing.assert_array_equal(array(found.token_ids), array(plain.token_ids))
    np.testing.assert_allclose(array(found.scores), array(plain.scores), rtol=1e-5)


@pytest.mark.parametrize(
    "search",
    [*SEARCHES, BeamSearch(3, coverage_penalty=0.3), BeamSearch(3, constraints=Constraints(min_length=4))],
)
def test_few_logits_give_the_same(
    model: Any, shortlist: np.ndarray, source_ids: np.ndarray, search: Any
) -> None:
    length = 34 if search == GreedySearch() else 12  # one outgrows the room that a loop has at first
    plain = generate(model, source_ids, search, length, shortlist=shortlist)
    graph = in_graph(lambda ids: generate(model, ids, search, length, shortlist=shortlist))
    token_ids, scores = graph(source_ids)
    np.testing.assert_array_equal(token_ids, array(plain.token_ids))
    np.testing.assert_allclose(scores, array(plain.scores), rtol=1e-4)


def test_a_graph_computes_few_logits(model: Any, shortlist: np.ndarray, source_ids: np.ndarray) -> None:
    sizes = []

    class Watched(kt.Transformer):
        """Notes how many logits a step has."""

        def start_decoding(self, *arguments: Any, **options: Any) -> Any:
            step, cache = super().start_decoding(*arguments, **options)

            def watched(*inputs: Any) -> Any:
                logits, cache = step(*inputs)
                tf = pytest.importorskip("tensorflow")
                tf.py_function(lambda size: sizes.append(int(size)), [tf.shape(logits)[1]], [])
                return logits, cache

            return watched, cache

    watched = Watched.from_config(model.get_config())
    graph = in_graph(lambda ids: generate(watched, ids, GreedySearch(), 3, shortlist=shortlist))
    graph(source_ids[:1])
    most = listed(shortlist, source_ids[:1]).sum() + 7
    assert sizes
    assert max(sizes) <= most < NUM_TARGETS


def test_neighbors_in_a_batch_change_nothing(
    model: Any, shortlist: np.ndarray, source_ids: np.ndarray
) -> None:
    graph = in_graph(lambda ids: generate(model, ids, BeamSearch(3), 7, shortlist=shortlist))
    together = graph(source_ids)
    for row in range(len(source_ids)):
        source = source_ids[row]
        alone = graph(source[source > 0][None])
        np.testing.assert_array_equal(alone[0][0], together[0][row])
        np.testing.assert_allclose(alone[1][0], together[1][row], rtol=1e-4)


def test_compiled(model: Any, shortlist: np.ndarray, source_ids: np.ndarray) -> None:
    def search(ids: Any) -> Any:
        return generate(model, ids, BeamSearch(3), 7, shortlist=shortlist)

    compiled = compile_function(search, model.variables)(ops.convert_to_tensor(source_ids))
    plain = search(source_ids)
    np.testing.assert_array_equal(array(compiled.token_ids), array(plain.token_ids))
    np.testing.assert_allclose(array(compiled.scores), array(plain.scores), rtol=1e-4)


def test_an_ensemble(model: Any, shortlist: np.ndarray, source_ids: np.ndarray) -> None:
    search, both = BeamSearch(3), kt.models.Ensemble([model, model])
    alone, token_ids = (
        array(generate(each, source_ids, search, 7, shortlist=shortlist).token_ids) for each in (model, both)
    )
    np.testing.assert_array_equal(token_ids, alone)
    graph = in_graph(lambda ids: generate(both, ids, search, 7, shortlist=shortlist))
    np.testing.assert_array_equal(graph(source_ids)[0], alone)


def test_a_model_of_prompts_has_no_source(shortlist: np.ndarray) -> None:
    model = kt.CausalLM(9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    with pytest.raises(
        TypeError, match=r"^`shortlist` needs a model that reads source ids\. Received: CausalLM"
    ):
        generate(model, [[2]], GreedySearch(), 3, shortlist=shortlist)


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    """One of ten words on each side, `sN` and `tN`, with random weights."""
    sides = [
        kt.text.WhitespaceTokenizer.train([" ".join(f"{side}{number}" for number in range(10))])
        for side in ("s", "t")
    ]
    model = talkative(
        kt.Transformer(14, 14, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8), seed=5
    )
    return kt.Translator(model, *sides, max_source_length=9, max_target_length=9)


def tokenizers(translator: kt.Translator) -> tuple[Any, Any]:
    return translator.source_tokenizer, translator.target_tokenizer


def pairs_of_words(num: int = 300) -> list[tuple[str, str]]:
    """Translate word by word, in reverse; `t9` stands in every target."""
    rng = np.random.default_rng(3)
    rows = [rng.choice(9, size=rng.integers(2, 6), replace=False) for _ in range(num)]
    return [(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in [*row[::-1], 9])) for row in rows]


def test_the_table_has_the_translations(translator: kt.Translator) -> None:
    table = lexical_shortlist(pairs_of_words(), *tokenizers(translator), size=2)
    assert (table.shape, table.dtype) == ((14, 2), "int32")
    source, target = (
        np.asarray(tokenizer.padded_ids([f"{side}{n}" for n in range(9)], 2))[:, 0]
        for tokenizer, side in ((translator.source_tokenizer, "s"), (translator.target_tokenizer, "t"))
    )
    np.testing.assert_array_equal(table[source, 0], target)
    [[frequent, _]] = np.asarray(translator.target_tokenizer.padded_ids(["t9"], 2))
    assert set(table[END]) == {frequent, END}


def test_more_tokens_than_there_are(translator: kt.Translator) -> None:
    table = lexical_shortlist(pairs_of_words(50), *tokenizers(translator), size=100)
    assert table.shape == (14, 14)
    assert 0 <= table.min() <= table.max() < 14


def test_no_pairs(translator: kt.Translator) -> None:
    with pytest.raises(ValueError, match=r"^`pairs` must have at least one pair\."):
        lexical_shortlist([], *tokenizers(translator))


def test_a_translator_keeps_it(translator: kt.Translator, tmp_path: Path) -> None:
    shortlist = lexical_shortlist(pairs_of_words(50), *tokenizers(translator), size=2)
    texts = ["s1 s2", "s3", "s4 s5 s6"]
    plain = translator.translate(texts)
    listed = kt.Translator(**{**translator.arguments, "shortlist": shortlist})
    answers = listed.translate(texts)
    assert answers != plain
    listed.save(tmp_path / "listed")
    loaded = kt.Translator.load(tmp_path / "listed")
    np.testing.assert_array_equal(loaded.shortlist, shortlist)
    assert loaded.translate(texts) == answers
    listed.shortlist = None
    assert listed.translate(texts) == plain
    np.save(tmp_path / "listed/shortlist.npy", shortlist[:5])
    with pytest.raises(InputError, match=r"shortlist\.npy"):
        kt.Translator.load(tmp_path / "listed")
    listed.save(tmp_path / "listed")  # in place of the one with a shortlist, whose file stays
    assert kt.Translator.load(tmp_path / "listed").shortlist is None


@pytest.mark.parametrize(
    "wrong", [np.zeros((13, 2), "int32"), np.zeros((14, 2)), np.full((14, 2), 14), np.zeros((14,), "int32")]
)
def test_a_table_that_does_not_fit(translator: kt.Translator, wrong: np.ndarray) -> None:
    wanted = "`shortlist` must be integers (14, k), target tokens below 14. Received: shape="
    with pytest.raises(ValueError, match=re.escape(wanted)):
        kt.Translator(**{**translator.arguments, "shortlist": wrong})
