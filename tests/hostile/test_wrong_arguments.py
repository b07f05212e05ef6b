"""Two thousand wrong arguments of all that is public: each is refused by its name, and none is accepted."""

import collections.abc
import dataclasses
import inspect
import random
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt

pytestmark = pytest.mark.slow

SIZES = {"num_heads": 2, "intermediate_dim": 8}
MODEL = {"num_layers": 1, "hidden_dim": 8, **SIZES}
PAIRS = [
    ("a dog", "ein Hund"),
    ("a cat", "eine Katze"),
    ("the dog", "der Hund"),
    ("the cat", "die Katze"),
] * 3
# What people write by mistake: another type, a class in place of an object, what a file would hold.
WRONG = (
    None, True, 1, -1, 0, 1.5, float("nan"), float("inf"), 10**30, "", "60", "x", b"x", [], ["a"], [1], (),
    {}, {"a": 1}, object(), kt.decoding.GreedySearch, kt.decoding.GreedySearch(), keras.Model, len,
    np.zeros(2), kt.text.CharacterTokenizer(["a"]), Path("x"), [None], 1j,
)  # fmt: skip
ERRORS = (
    ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RuntimeError, OSError,
    AssertionError, MemoryError, kt.InputError, kt.ExportError, tf.errors.OpError,
)  # fmt: skip
# Of these every value, or none, can be told from a right one before it is used.
LEFT_TO_KERAS = {
    "name", "dtype", "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer",
    "activity_regularizer", "kernel_constraint", "bias_constraint", "initializer", "seed",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """A call that is right, and the types of what it takes."""

    call: Callable[..., Any]
    right: dict[str, Any]
    hints: dict[str, Any]
    defaults: dict[str, Any]


def case(call: Callable[..., Any], _config: type | None = None, **right: Any) -> Case:
    """Read the types of a call's arguments, and of the options that a configuration names."""
    function = call.__init__ if isinstance(call, type) else call
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = {name for name, each in parameters.items() if each.kind in kinds and name != "self"}
    known = {name: hint for name, hint in hints.items() if name in names}
    if _config is not None:
        known |= typing.get_type_hints(_config)
    if dataclasses.is_dataclass(call):
        known = typing.get_type_hints(call)
        known = {field.name: known[field.name] for field in dataclasses.fields(call)}
    return Case(call, right, known, {})


def cases(place: Path) -> dict[str, Case]:
    """Return a right call of each public constructor and function whose arguments have types."""
    tokenizer = kt.text.CharacterTokenizer.train([text for pair in PAIRS for text in pair])
    subwords = kt.text.SubwordTokenizer.train([text for pair in PAIRS for text in pair], 30)
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, **MODEL)
    causal = kt.CausalLM(size, **MODEL)
    translator = kt.Translator(model, tokenizer, tokenizer, max_target_length=4)
    generator = kt.TextGenerator(causal, tokenizer, max_length=4)
    search = kt.decoding.GreedySearch(special_ids=kt.SpecialIds())
    ids = np.full((2, 3), 5)
    dataset = tf.data.Dataset.from_tensor_slices(({"encoder_token_ids": ids, "decoder_token_ids": ids}, ids))
    compiled = kt.Transformer(size, size, **MODEL)
    kt.training.compile_model(compiled, 1e-3)
    tokenizer.save(place / "tokenizer")
    translator.save(place / "translator")
    model.save(place / "model.keras")
    config, layer = kt.models.TransformerConfig, kt.layers.LayerConfig
    (place / "run.toml").write_text("", encoding="utf-8")
    (place / "lines").write_text("a\nb\n", encoding="utf-8")
    texts, token_rows = ["a b", "c d"], tf.data.Dataset.from_tensor_slices(ids)
    both = {"source_tokenizer": tokenizer, "target_tokenizer": tokenizer}
    called = {
        "CharacterTokenizer": case(kt.text.CharacterTokenizer, vocabulary=["a"]),
        "CharacterTokenizer.train": case(kt.text.CharacterTokenizer.train, texts=texts),
        "WhitespaceTokenizer": case(kt.text.WhitespaceTokenizer, vocabulary=["a"]),
        "WhitespaceTokenizer.train": case(kt.text.WhitespaceTokenizer.train, texts=texts),
        "SubwordTokenizer": case(kt.text.SubwordTokenizer, proto=subwords.proto),
        "SubwordTokenizer.train": case(kt.text.SubwordTokenizer.train, texts=texts * 9, vocabulary_size=12),
        "Tokenizer.load": case(kt.text.Tokenizer.load, directory=place / "tokenizer"),
        "Tokenizer.padded_ids": case(tokenizer.padded_ids, texts=texts, max_length=4),
        "Tokenizer.round_trip": case(tokenizer.round_trip, texts=texts),
        "Tokenizer.save": case(tokenizer.save, directory=place / "other"),
        "EncodedPairs.encode": case(kt.data.EncodedPairs.encode, pairs=PAIRS, **both),
        "mask_tokens": case(kt.data.mask_tokens, dataset=token_rows, mask_id=4, vocabulary_size=9),
        "mix_pairs": case(kt.data.mix_pairs, corpora=[(PAIRS, 1.0)]),
        "read_lines": case(kt.data.read_lines, path=place / "lines"),
        "split_pairs": case(kt.data.split_pairs, pairs=PAIRS, validation_fraction=0.2),
        "subword_dropout": case(
            kt.data.subword_dropout, source_tokenizer=subwords, target_tokenizer=subwords, rate=0.1
        ),
        "translation_dataset": case(kt.data.translation_dataset, pairs=PAIRS, **both),
        "EncoderLayer": case(kt.layers.EncoderLayer, layer, **SIZES),
        "DecoderLayer": case(kt.layers.DecoderLayer, layer, **SIZES),
        "Encoder": case(kt.layers.Encoder, layer, num_layers=1, **SIZES),
        "Decoder": case(kt.layers.Decoder, layer, num_layers=1, **SIZES),
        "FeedForward": case(kt.layers.FeedForward, intermediate_dim=8),
        "LearnedPositionEncoding": case(kt.layers.LearnedPositionEncoding, max_length=8),
        "MultiHeadAttention": case(kt.layers.MultiHeadAttention, num_heads=2, key_dim=4),
        "OutputProjection": case(kt.layers.OutputProjection, vocabulary_size=8),
        "PositionEncoding": case(kt.layers.PositionEncoding),
        "RotaryEmbedding": case(kt.layers.RotaryEmbedding),
        "TokenEmbedding": case(kt.layers.TokenEmbedding, vocabulary_size=8, hidden_dim=8),
        "sinusoidal_position_encoding": case(kt.layers.sinusoidal_position_encoding, length=3, hidden_dim=8),
        "padding_mask": case(kt.layers.padding_mask, token_ids=ids),
        "CausalLM": case(kt.CausalLM, config, vocabulary_size=9, **MODEL),
        "EncoderModel": case(kt.EncoderModel, config, vocabulary_size=9, **MODEL),
        "Transformer": case(
            kt.Transformer, config, source_vocabulary_size=9, target_vocabulary_size=9, **MODEL
        ),
        "Transformer.from_preset": case(kt.Transformer.from_preset, name="tiny"),
        "Ensemble": case(kt.models.Ensemble, models=[model, model]),
        "TransformerConfig": case(config),
        "Checkpoint": case(kt.training.Checkpoint, directory=place / "run"),
        "InverseSquareRootSchedule": case(kt.training.InverseSquareRootSchedule, peak_learning_rate=1e-3),
        "NoamSchedule": case(kt.training.NoamSchedule, hidden_dim=8),
        "MaskedAccuracy": case(kt.training.MaskedAccuracy),
        "Perplexity": case(kt.training.Perplexity),
        "MaskedCrossentropy": case(kt.training.MaskedCrossentropy),
        "RDropCrossentropy": case(kt.training.RDropCrossentropy),
        "average_weights": case(kt.training.average_weights, models=[model]),
        "compile_model": case(kt.training.compile_model, model=model, learning_rate=1e-3),
        "fit": case(
            kt.training.fit,
            model=compiled,
            training=dataset.batch(2),
            directory=place / "fit",
            verbose=0,
            epochs=1,
        ),
        "load_model": case(kt.training.load_model, path=place / "model.keras"),
        "BeamSearch": case(kt.decoding.BeamSearch),
        "Constraints": case(kt.decoding.Constraints),
        "GreedySearch": case(kt.decoding.GreedySearch),
        "SampleSearch": case(kt.decoding.SampleSearch),
        "generate": case(kt.decoding.generate, model=model, inputs=ids, search=search, max_length=3),
        "stream_tokens": case(kt.decoding.stream_tokens, model=model, search=search, max_length=3),
        "Translator": case(kt.Translator, model=model, **both),
        "Translator.load": case(kt.Translator.load, directory=place / "translator"),
        "Translator.save": case(translator.save, directory=place / "saved"),
        "Translator.translate": case(translator.translate, texts=texts),
        "Translator.n_best": case(translator.n_best, texts=texts),
        "Translator.score": case(translator.score, sources=texts, targets=texts),
        "Translator.stream": case(translator.stream, text="a"),
        "TextGenerator": case(kt.TextGenerator, model=causal, tokenizer=tokenizer),
        "TextGenerator.generate": case(generator.generate, prompts=texts),
        "from_hugging_face": case(kt.from_hugging_face, source=place / "none"),
        "read_tokenizers": case(kt.pretrained.read_tokenizers, directory=place / "none"),
        "save_hugging_face": case(
            kt.pretrained.save_hugging_face, translator=translator, directory=place / "hub"
        ),
        "DecodeAndScore": case(
            kt.evaluation.DecodeAndScore,
            make_translator=lambda model: translator,
            pairs=PAIRS,
            metric="exact_match",
        ),
        "evaluate": case(kt.evaluation.evaluate, hypotheses=["a"], references=["a"], metrics=["exact_match"]),
        "export_saved_model": case(
            kt.export.export_saved_model, task=translator, directory=place / "served", examples=["a"]
        ),
        "export_litert": case(kt.export.export_litert, translator=translator, path=place / "a.tflite"),
        "export_ctranslate2": case(
            kt.export.export_ctranslate2, model=translator, directory=place / "ctranslate2"
        ),
        "Run": case(kt.Run),
        "Run.from_toml": case(kt.Run.from_toml, path=place / "run.toml"),
        "Run.open": case(kt.Run.open, directory=place / "none"),
        "Recipe.of": case(kt.runs.Recipe.of, pairs=PAIRS),
        "plot_attention": case(
            kt.visualization.plot_attention,
            scores=np.ones((1, 2)) / 2,
            source_tokens=["a", "b"],
            target_tokens=["c"],
        ),
        "plot_mask": case(kt.visualization.plot_mask, mask=np.ones((2, 2), bool)),
        "plot_training": case(kt.visualization.plot_training, history={"loss": [1.0, 0.5]}),
        "course.positional_encoding": case(kt.course.positional_encoding, positions=3, d=8),
        "course.EncoderLayer": case(
            kt.course.EncoderLayer, embedding_dim=8, num_heads=2, fully_connected_dim=8
        ),
    }
    more = {
        "CharacterTokenizer": {"vocabulary": str | Sequence[str]},
        "WhitespaceTokenizer": {"vocabulary": str | Sequence[str]},
        "RDropCrossentropy": typing.get_type_hints(kt.training.MaskedCrossentropy.__init__),
        "Translator.translate": {"texts": str | bytes | Iterable[str]},
        "TextGenerator.generate": {"prompts": str | bytes | Iterable[str]},
    }
    for name, hints in more.items():
        called[name] = dataclasses.replace(called[name], hints={**called[name].hints, **hints})
    return called


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; true where that cannot be told."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in arguments)
    if origin in (tuple, list, collections.abc.Sequence, collections.abc.Iterable):
        # A list in place of a tuple is no mistake, where all of it is of the type.
        return isinstance(value, tuple | list) and all(fits(item, arguments[0]) for item in value)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    kind = origin or (type(None) if hint is None else hint)
    # Neither can a variable of types, nor what is only known by its name.
    is_unknown = hint in (Any, object) or getattr(hint, "_is_protocol", False) or not isinstance(kind, type)
    return is_unknown or isinstance(value, kind)


def wrong_arguments(called: Mapping[str, Case]) -> Iterator[tuple[str, str, int]]:
    """Draw arguments of another type than is wanted, by their number in `WRONG`, for ever."""
    rng = random.Random(45)
    while True:
        name = rng.choice(sorted(called))
        hints = called[name].hints
        known = [each for each in sorted(hints) if each not in LEFT_TO_KERAS and each != "return"]
        if not known:
            continue
        argument = rng.choice(known)
        number = rng.randrange(len(WRONG))
        if not fits(WRONG[number], hints[argument]):
            yield name, argument, number


def outcome(each: Case, argument: str, value: Any) -> str:
    """Return how a call with one wrong argument ends, and with what message."""
    try:
        each.call(**{**each.right, argument: value})
    except ERRORS as error:
        is_known = isinstance(error, ValueError | TypeError | kt.InputError)
        # Keras lists the arguments of a layer below any error.
        is_ours = "Received" in str(error) and "Arguments received by" not in str(error)
        return "refused" if is_known and is_ours else f"obscure: {error!r}"
    return "accepted"


def count(place: Path, num: int) -> tuple[Counter[str], list[str]]:
    """Make so many wrong calls; return how many ended how, and those that were not refused."""
    called, known = cases(place), dict[tuple[str, str, int], str]()
    counts, others = Counter[str](), dict[str, None]()
    for key, _ in zip(wrong_arguments(called), range(num), strict=False):
        name, argument, number = key
        value = WRONG[number]
        if key not in known:
            known[key] = outcome(called[name], argument, value)
        kind, _, text = known[key].partition(": ")
        counts[kind] += 1
        if kind != "refused":
            others[f"{kind} {name}({argument}={value!r:.60}) {text[:200]}"] = None
    return counts, list(others)


def test_wrong_arguments_are_refused_by_their_names(tmp_path: Path) -> None:
    counts, others = count(tmp_path, 2000)
    assert counts["accepted"] == 0, "\n".join(others)
    assert counts["obscure"] < 40, "\n".join(others)


if __name__ == "__main__":
    import sys
    import tempfile

    found, lines = count(Path(tempfile.mkdtemp()), int(sys.argv[1]))
    print("\n".join(sorted(lines)), found, sep="\n")
