"""Conversion between Hugging Face model directories and tasks."""

import dataclasses
import functools
import logging
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from keras import ops
from safetensors.numpy import save_file

from keras_transformer._arguments import check_kind
from keras_transformer._files import as_json, as_path, atomic_directory, atomic_file, errors_named, write_file
from keras_transformer.decoding import Search
from keras_transformer.errors import InputError
from keras_transformer.models import EncoderModel, Transformer, TransformerConfig
from keras_transformer.pretrained.bart import _M2M100, _Bart, _Marian, _MBart, _Pegasus
from keras_transformer.pretrained.bert import _Bert, _DistilBert, _EncoderFamily, _Roberta
from keras_transformer.pretrained.directory import _Directory
from keras_transformer.pretrained.encoder_tokenizers import _ENCODER_READERS, _FAST_CLASSES
from keras_transformer.pretrained.encoders import _read_encoder, _read_encoder_task
from keras_transformer.pretrained.family import _EncoderDecoder, _Family
from keras_transformer.pretrained.generation import _GENERATION_NAMES, _Generation, _written_search
from keras_transformer.pretrained.t5 import _MT5, _T5, _UMT5
from keras_transformer.pretrained.tokenizer_files import (
    _FAST,
    _SETTINGS,
    _check_surroundings,
    _read_settings,
)
from keras_transformer.pretrained.tokenizers import _READERS, _refuse_language, _subword_files
from keras_transformer.pretrained.weights import _check_sizes, _load_model
from keras_transformer.pretrained.whisper import _read_whisper, _Whisper
from keras_transformer.pretrained.word_level import _read_word_level, _word_level_files
from keras_transformer.pretrained.written_encoder import _written_encoder
from keras_transformer.pretrained.written_model import _as_family, _first_fit
from keras_transformer.tasks import TextClassifier, TextTagger, Translator
from keras_transformer.text import AdaptedTokenizer, CharacterTokenizer, Tokenizer, WhitespaceTokenizer
from keras_transformer.types import SPECIAL_IDS

_Ids: TypeAlias = npt.NDArray[np.int64]
_LOGGER = logging.getLogger(__name__)

# Families by `model_type`.
_FAMILIES: dict[str, type[_EncoderDecoder] | type[_EncoderFamily]] = {
    "bart": _Bart,
    "bert": _Bert,
    "distilbert": _DistilBert,
    "m2m_100": _M2M100,
    "marian": _Marian,
    "mbart": _MBart,
    "mt5": _MT5,
    "pegasus": _Pegasus,
    "roberta": _Roberta,
    "t5": _T5,  # and ByT5
    "umt5": _UMT5,
    "whisper": _Whisper,
}
# Families to which a model can be exported, simplest first.
_WRITTEN = ("marian", "pegasus", "bart", "mbart", "m2m_100", "t5", "umt5")
_TOKENIZERS = {**_READERS, "WhisperTokenizer": _read_whisper}
# Tokenizer classes that do not identify the tokenizer.
_ANY_CLASS = (None, *_FAST_CLASSES)
_WORD_LEVEL = "WordLevel"
# Other tokenizer classes that identify a family.
_OTHER_CLASSES = {"m2m_100": ("NllbTokenizer",), "mbart": ("MBart50Tokenizer",)}
# Default limits of source and output, in tokens.
_LENGTHS = 512, 256


def from_hugging_face(
    source: str | Path,
    source_language: str | None = None,
    target_language: str | None = None,
    *,
    revision: str | None = None,
    **options: Any,
) -> Translator | TextClassifier | TextTagger:
    """Load a pretrained Hugging Face model and its tokenizers.

    Encoder-decoders (Marian, BART, mBART, Pegasus, M2M100, NLLB, T5, mT5, UMT5, ByT5, Whisper) become a
    `Translator` with the tokenizers, weights and search of the original, so the outputs are the same, except
    that padding is never generated. Beams, sampling, length penalty, forced and banned tokens come from
    `generation_config.json`. `save` writes a directory that `keras-transformer` commands accept.

    Encoders (BERT, DistilBERT, RoBERTa) become a `TextClassifier` or a `TextTagger` with the labels of the
    configuration. For an encoder without a classification head, pass `labels` or `tags` to add a head with
    random weights.

    An unsupported setting that changes outputs raises an error that names it; other unsupported settings are
    logged and ignored. Weights are read from safetensors; pickle files need torch, and only tensors are read
    from them.

    Args:
        source: Local directory in the format of the Hub, or a model name on the Hub (needs the package
            `huggingface_hub`). Only one format of the weights is downloaded.
        source_language: For multilingual models; see `read_tokenizers`.
        target_language: For multilingual models; see `read_tokenizers`.
        revision: Branch, tag or commit on the Hub. Defaults to the main branch.
        **options: Arguments of the task that override those of the directory. For encoder-decoders: `search`,
            `max_source_length`, `max_target_length`, `source_tokenizer`, `target_tokenizer`. If outputs must
            start with the token of the target language, a `search` whose `first_token_ids` are empty gets it.
            For encoders: `tokenizer`, `labels` or `tags`, `multi_label`, `max_length`.

    Returns:
        The task.

    Raises:
        InputError: If the architecture is not supported, a file is missing or damaged, or a setting that
            changes outputs is not supported.

    Example:
        ```python
        translator = kt.from_hugging_face("Helsinki-NLP/opus-mt-de-en")
        translator.save("runs/de_en")
        classifier = kt.from_hugging_face("distilbert/distilbert-base-uncased-finetuned-sst-2-english")
        classifier.classify("What a film!").label
        ```
    """
    files = _Directory(source, revision)
    family = _read_family(files)
    if isinstance(family, _EncoderFamily):
        tokenizer = options.pop("tokenizer", None) or _tokenizers(files, source_language, target_language)[0]
        return _read_encoder_task(files, family, tokenizer, options)
    tensors = files.tensors(family.prefix)
    _check_sizes(tensors, family, files.path)
    generation = _read_generation(files, family, is_followed=options.get("search") is None)
    first, second = (options.get(name) for name in ("source_tokenizer", "target_tokenizer"))
    if first is None or second is None:
        first, second = _tokenizers(files, source_language, target_language)
    # Build the search before loading weights, because it may fail.
    of_target = tuple(second.prefix_ids) if family.begins_with_language else ()
    is_text = isinstance(first, Tokenizer)
    # For audio, the first output tokens are given and do not count in scores.
    limits = _text_limits(family, generation) if is_text else _audio_limits(family, generation, second)
    search = options.pop("search", None)
    if search is None:
        path = _generation_path(files)
        search = generation.search(path, second.original_ids, of_target, limits[1], is_given=not is_text)
    elif isinstance(search, Search) and of_target and not search.constraints.first_token_ids:
        # Without the language token, the output language would be arbitrary.
        constraints = dataclasses.replace(search.constraints, first_token_ids=of_target)
        search = dataclasses.replace(search, constraints=constraints)
    ids = {"source": first.original_ids} if is_text else {}
    arguments = {
        "model": _load_model(
            tensors,
            family,
            files.path,
            {**ids, "target": second.original_ids},
            int(generation.decoder_start_token_id or 0),
        ),
        "source_tokenizer": first,
        "target_tokenizer": second,
        "search": search,
        "max_source_length": limits[0],
        "max_target_length": limits[1],
    }
    return Translator(**{**arguments, **options})


def read_encoder(
    directory: str | Path,
    num_outputs: int | None = None,
    *,
    pooling: str | None = None,
    revision: str | None = None,
) -> tuple[EncoderModel, Tokenizer]:
    """Load a pretrained encoder (BERT, DistilBERT, RoBERTa) with its head or with new outputs.

    Args:
        directory: Local directory in the format of the Hub, or a model name on the Hub (needs the package
            `huggingface_hub`).
        num_outputs: Number of logits of a new head with random weights. Without `pooling`, each token has
            these logits; with `pooling`, each text. Defaults to the head of the checkpoint (classes, tags or
            masked tokens), or, if it has none, to the encoder's output vectors.
        pooling: How the new head pools the tokens: `"first"` as in BERT's classifiers (the layer before
            the logits is loaded if the checkpoint has it), `"mean"` or `"max"`. Needs `num_outputs`.
        revision: Branch, tag or commit on the Hub. Defaults to the main branch.

    Returns:
        The model and its tokenizer, which renumbers the token ids; see `read_tokenizers`. The model's inputs
        are `tokenizer.padded_ids(texts, model.max_length)`.

    Raises:
        InputError: As for `from_hugging_face`.
        ValueError: If `pooling` is given without `num_outputs`.

    Example:
        ```python
        model, tokenizer = kt.pretrained.read_encoder("google-bert/bert-base-uncased", 3, pooling="first")
        ```
    """
    if pooling is not None and num_outputs is None:
        raise ValueError(f"`pooling` needs `num_outputs`. Received: pooling={pooling!r}, num_outputs=None.")
    files = _Directory(directory, revision)
    family = _read_family(files)
    if not isinstance(family, _EncoderFamily):
        kinds = ", ".join(kind for kind, each in _FAMILIES.items() if issubclass(each, _EncoderFamily))
        wanted = f"`model_type` must be one of {kinds}"
        raise InputError(f"{files.path / 'config.json'}: {wanted}. Received: {_model_type(files)!r:.80}.")
    new = None if num_outputs is None else {"num_outputs": num_outputs, "pooling": pooling}
    [tokenizer, _] = _tokenizers(files, None, None)
    return _read_encoder(files, family, tokenizer, new).model, tokenizer


def read_tokenizers(
    directory: str | Path,
    source_language: str | None = None,
    target_language: str | None = None,
    *,
    revision: str | None = None,
) -> tuple[Tokenizer, Tokenizer]:
    """Load the tokenizers of a pretrained model.

    The tokenizers split texts like the original, with TensorFlow graph operations. You can save them, load
    them with `text.Tokenizer.load` and export them like all tokenizers. **Their ids differ from the
    original ids**, as with `text.as_tokenizer`: `Tokenizer.original_ids` maps each id to the original id, so
    that you can reorder the rows of an embedding. Both tokenizers have a token for every id of the model.

    Whisper reads audio: instead of a source tokenizer, the first returned object computes log-mel features,
    equal to those of `WhisperFeatureExtractor`. The target starts with the same tokens as in
    `WhisperForConditionalGeneration.generate`; the last of them is always `<|notimestamps|>`.

    `config.json` is required; `tokenizer_config.json`, `added_tokens.json` and `generation_config.json` are
    read if they exist. A `tokenizer.json` (the format of `transformers` 5) can replace the SentencePiece
    model.

    Texts are split as by the SentencePiece library. These tokenizers differ from those of `transformers`:

    - Special tokens inside a text, such as `</s>` or `<extra_id_0>`, are plain text, except Marian's language
      code at the start (`>>deu<<`) and tokens added to the vocabulary.
    - NUL and invalid UTF-8 become U+FFFD.
    - Spaces at the ends of a decoded text are removed.
    - For T5, Pegasus, NLLB, mBART and mBART-50, `transformers` 5 does not use the library. It turns a space
      at the end into a token, splits at U+0085 (T5), has no byte fallback for unknown characters (mT5),
      normalizes some rare combining characters differently, and may choose another of two splits with equal
      scores.

    Args:
        directory: Directory written by `save_pretrained`, or a model name on the Hub.
        source_language: For M2M100, NLLB and mBART: source language code, such as `"de"`, `"deu_Latn"`,
            `"de_DE"`. The token of this language is added before each source (mBART: after the end token).
            Defaults to `src_lang` of the configuration. For multilingual Whisper: the spoken language, such
            as `"de"`. Defaults to the one in the configuration; it is not detected.
        target_language: For M2M100, NLLB and mBART: target language code. Defaults to `tgt_lang`, else to the
            language of the configuration's `forced_bos_token_id` or `decoder_start_token_id`. For Marian
            models with several target languages: a code such as `"deu"`, whose token is added before each
            source. For Whisper: `"en"` to translate, or the spoken language to transcribe. Defaults to the
            task in the configuration, else to transcribing.
        revision: Branch, tag or commit on the Hub. Defaults to the main branch.

    Returns:
        The tokenizers of the source and the target; for an encoder, the same one twice.

    Raises:
        InputError: If a file is missing, damaged or inconsistent with the others, the tokenizer is not
            supported or has tokens that cannot be reproduced, or a language is missing or unknown.
    """
    return _tokenizers(_Directory(directory, revision), source_language, target_language)


def save_hugging_face(translator: Translator | TextClassifier | TextTagger, directory: str | Path) -> None:
    """Save a task as a Hugging Face directory for `transformers`.

    For a translator, `AutoModelForSeq2SeqLM.from_pretrained(directory)` and
    `AutoTokenizer.from_pretrained(directory)` return the same outputs, and `from_hugging_face` reads the
    directory again. The family follows from the options of the model: Marian for the architecture of
    Vaswani et al. 2017, Pegasus for pre-norm, BART and mBART for learned positions with normalized
    embeddings, T5 for relative positions. A classifier or tagger needs the options of BERT, DistilBERT or
    RoBERTa, as after `from_hugging_face` and fine-tuning; token type embeddings are written as zeros.

    The files are verified before the directory appears: they are read back, and the logits compared.

    Args:
        translator: Task to save: a translator, classifier or tagger.
        directory: New or empty directory.

    Raises:
        InputError: If a file cannot be written, or the directory is not empty.
        ValueError: If no family supports an option of the model, tokenizer or search; the message names the
            option.

    Example:
        ```python
        translator.search = BeamSearch(
            4, length_normalization="length", early_stopping=False, cut_off_competes=True
        )
        kt.pretrained.save_hugging_face(translator, "hub/de_en")
        ```
    """
    check_kind(Translator, TextClassifier, TextTagger, translator=translator)
    if isinstance(translator, TextClassifier | TextTagger):
        _save_encoder(translator, as_path(directory))
    else:
        _save_translator(translator, as_path(directory))


def _save_translator(translator: Translator, directory: Path) -> None:
    source, target = translator.source_tokenizer, translator.target_tokenizer
    lengths = translator.max_source_length, translator.max_target_length
    ids = {"source": _original_ids(source), "target": _original_ids(target)}
    generation = _written_search(translator.search, ids["target"], lengths[1])
    model = _checked_model(translator.model)
    start_id, ids = _start(model, ids)
    families = {kind: kind_of for kind in _WRITTEN if issubclass(kind_of := _FAMILIES[kind], _EncoderDecoder)}
    written = _first_fit(families, functools.partial(_as_family, model, ids, max(lengths)))
    special = {
        "decoder_start_token_id": start_id,
        "eos_token_id": written.family.eos_token_id,
        "pad_token_id": written.family.pad_token_id,
    }
    tables = {
        "config.json": {**written.config, **special},
        "generation_config.json": {**generation, **special},
    }
    files = {name: as_json(table) for name, table in tables.items()}
    of_words = isinstance(source, CharacterTokenizer | WhitespaceTokenizer)
    make = _word_level_files if of_words else _subword_files
    files |= make((source, target), (ids["source"], ids["target"]), lengths[0])
    with atomic_directory(directory) as partial:
        _write_files(partial, files, written.tensors)
        again = _Directory(partial)
        family = _read_family(again)
        _check_equal(model, _load_model(again.tensors(family.prefix), family, partial, ids, start_id))


def _save_encoder(task: TextClassifier | TextTagger, directory: Path) -> None:
    families = {kind: each for kind, each in _FAMILIES.items() if issubclass(each, _EncoderFamily)}
    files, tensors = _written_encoder(task, families)
    with atomic_directory(directory) as partial:
        _write_files(partial, files, tensors)
        again = from_hugging_face(partial)
        texts = [*task.reader.hard_values, task.reader.example()]
        token_ids = task.token_ids(texts)
        if not np.array_equal(token_ids, again.token_ids(texts)):
            raise ValueError("What is written must split texts as the tokenizer. Received: other token ids.")
        wanted, logits = (ops.convert_to_numpy(each.model(token_ids)) for each in (task, again))
        _check_close(wanted, logits, "float32 weights")


def _write_files(
    directory: Path, files: dict[str, bytes], tensors: dict[str, npt.NDArray[np.float32]]
) -> None:
    for name, content in files.items():
        write_file(directory / name, content)
    with errors_named("write", directory), atomic_file(directory / "model.safetensors") as path:
        save_file(tensors, path, metadata={"format": "pt"})


def _read_family(files: _Directory) -> _EncoderDecoder | _EncoderFamily:
    path, kind = files.path / "config.json", _model_type(files)
    if kind not in _FAMILIES:
        raise InputError(
            f"{path}: `model_type` must be one of {', '.join(_FAMILIES)}. Received: {kind!r:.80}."
        )
    family = _FAMILIES[kind].read(files)
    try:
        TransformerConfig(**family.options())
    except (TypeError, ValueError) as error:
        # Add the names that the options have in the file.
        theirs = [name for name, ours in family.names().items() if f"`{ours[0]}`" in str(error)]
        note = f" There: {', '.join(f'`{name}`' for name in theirs)}." if theirs else ""
        raise InputError(f"{path}: {error}{note}") from error
    size = family.table_sizes()[family.last_side]
    for name in ("pad_token_id", *(["eos_token_id"] if isinstance(family, _EncoderDecoder) else [])):
        if not 0 <= getattr(family, name) < size:
            wanted = f"`{name}` must be an id below {size}, the size of the vocabulary"
            raise InputError(f"{path}: {wanted}. Received: {getattr(family, name)}.")
    return family


def _model_type(files: _Directory) -> str | None:
    """Return the family; if `model_type` is missing, infer it from the other settings."""
    kind, given = files.config.get("model_type"), files.config.get("architectures")
    given = given if isinstance(given, list) else []
    if kind is not None:
        return kind if isinstance(kind, str) else str(kind)
    found = [
        name for name, family in _FAMILIES.items() if given and {*family.architectures} & {*map(str, given)}
    ]
    name = _tokenizer_class(files)
    found = found or [
        kind for kind, family in _FAMILIES.items() if family.tokenizer_class == name != "T5Tokenizer"
    ]
    found = found or [kind for kind, names in _OTHER_CLASSES.items() if name in names]
    if len(found) != 1:
        return None
    _LOGGER.warning("%s: `model_type` is missing, and taken to be %s", files.path / "config.json", found[0])
    return found[0]


def _tokenizer_class(files: _Directory) -> str | None:
    name = _read_settings(files).tokenizer_class or files.config.get("tokenizer_class")
    return name.removesuffix("Fast") if isinstance(name, str) else None


def _read_generation(files: _Directory, family: _EncoderDecoder, *, is_followed: bool) -> _Generation:
    path = _generation_path(files)
    # Older models keep generation settings in `config.json`.
    is_old = path.name == "config.json"
    table = {
        name: value
        for name, value in files.table(path.name).items()
        if name not in family.ignored and (name in _GENERATION_NAMES or not is_old)
    }
    generation = _Generation.read(table, path, is_followed=is_followed)
    start_ids = generation.decoder_start_token_id, family.decoder_start_token_id, generation.bos_token_id
    start_id = next((each for each in start_ids if each is not None), None)
    size = family.table_sizes()["target"]
    if start_id is None or not 0 <= start_id < size:
        wanted = f"`decoder_start_token_id` must be an id below {size}, the size of the vocabulary"
        raise InputError(f"{path}: {wanted}. Received: {start_id}.")
    end_id = family.eos_token_id if generation.eos_token_id is None else generation.eos_token_id
    if end_id not in (family.eos_token_id, (family.eos_token_id,)):
        wanted = f"`eos_token_id` must be {family.eos_token_id}, as in the configuration of the model"
        raise InputError(f"{path}: {wanted}. Received: {end_id}.")
    end_id = family.eos_token_id
    return dataclasses.replace(generation, decoder_start_token_id=start_id, eos_token_id=end_id)


def _generation_path(files: _Directory) -> Path:
    path = files.path / "generation_config.json"
    return path if path.exists() else files.path / "config.json"


def _tokenizers(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    family, name = _FAMILIES.get(str(_model_type(files))), _tokenizer_class(files)
    if name in _ANY_CLASS:
        model = files.table(_FAST, optional=True).get("model")
        if isinstance(model, dict) and model.get("type") == _WORD_LEVEL:
            _refuse_language(files, source, target)
            return _read_word_level(files.path)
        name = family.tokenizer_class if family else None
    readers = _TOKENIZERS if family is None or "decoder" in family.stacks else _ENCODER_READERS
    if name not in readers:
        wanted = f"the tokenizer must be one of {tuple(readers)}"
        raise InputError(f"{files.path / _SETTINGS}: {wanted}. Received: {name!r:.80}.")
    read = readers[name](files, source, target)
    if _tokenizer_class(files) in _FAST_CLASSES and isinstance(read[0], AdaptedTokenizer):
        # Classes of a family set these tokens themselves.
        spec = read[0].spec
        _check_surroundings(files, spec.prefix, [*spec.special[SPECIAL_IDS.end], *spec.suffix])
    return read


def _text_limits(family: _Family, generation: _Generation) -> tuple[int, int]:
    """Return the maximum number of source and output tokens."""
    limit = family.max_length or _LENGTHS[0]
    longest = generation.max_new_tokens
    if longest is None and generation.max_length is not None:
        longest = generation.max_length - 1  # without the start token
    return limit, min(longest or _LENGTHS[1], limit)


def _audio_limits(family: _Family, generation: _Generation, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the maximum number of source frames and output tokens, including the given first tokens."""
    limit, num_first = family.max_length or _LENGTHS[0], len(tokenizer.prefix_ids)
    if generation.max_new_tokens is not None:
        longest = generation.max_new_tokens + num_first
    else:  # counted after the start and first tokens, within the number of positions
        longest = min((generation.max_length or limit) + num_first, limit - 1)
    return 2 * family.options()["max_source_positions"], longest


def _original_ids(tokenizer: Tokenizer) -> _Ids:
    """Return the exported id of each id; -1 if the start token has none."""
    ids: _Ids = tokenizer.original_ids
    others = np.delete(ids, SPECIAL_IDS.start)
    # Tokenizers of other libraries may lack special tokens; keep our ids then.
    is_whole = others.min() >= 0 and len({*others.tolist()}) == len(others)
    return ids if is_whole else np.arange(tokenizer.vocabulary_size)


def _checked_model(model: object) -> Transformer:
    if not isinstance(model, Transformer):
        raise ValueError(f"`model` must be a single `Transformer`. Received: a {type(model).__name__}.")
    if model.config.encoder_feature_dim is not None:
        received = f"encoder_feature_dim={model.config.encoder_feature_dim}"
        raise ValueError(f"`model` must read token ids, no frames. Received: {received}.")
    if model.is_quantized:
        raise ValueError("`model` must have weights of floats. Received: is_quantized=True.")
    return model


def _start(model: Transformer, ids: dict[str, _Ids]) -> tuple[int, dict[str, _Ids]]:
    """Return the exported id of the start token, and all exported ids with a new one if needed."""
    target = ids["target"]
    if target[SPECIAL_IDS.start] >= 0:
        return int(target[SPECIAL_IDS.start]), ids
    table = ops.convert_to_numpy(model.target_embedding.embeddings)
    same = (table == table[SPECIAL_IDS.start]).all(axis=1) & (target >= 0)
    if same.any():
        return int(target[np.argmax(same)]), ids
    # Training changed the start embedding, so it needs its own row.
    new = target.copy()
    new[SPECIAL_IDS.start] = target.max() + 1
    is_one = np.array_equal(ids["source"], target)
    return int(new.max()), {"source": new if is_one else ids["source"], "target": new}


def _check_equal(model: Transformer, again: Transformer) -> None:
    """Raise ValueError unless the exported model returns the same logits."""
    # Under a global policy of mixed precision, both are in half precision.
    model, again = (
        each if each.output_projection.compute_dtype == "float32" else each.with_dtype("float32")
        for each in (model, again)
    )
    draw, length = np.random.default_rng(0), min(8, model.max_length or 8)
    sizes = model.source_embedding.vocabulary_size, model.target_embedding.vocabulary_size
    source, target = (draw.integers(SPECIAL_IDS.end, size, (2, length)) for size in sizes)
    target[:, 0] = SPECIAL_IDS.start
    wanted, logits = (
        ops.convert_to_numpy(each({"encoder_token_ids": source, "decoder_token_ids": target}))
        for each in (model, again)
    )
    # The start token is never generated, but not every family can store its bias.
    wanted, logits = (np.delete(each, SPECIAL_IDS.start, axis=-1) for each in (wanted, logits))
    epsilons = again.config.layer_norm_epsilon, model.config.layer_norm_epsilon
    differs = epsilons[0] != epsilons[1]
    _check_close(
        wanted,
        logits,
        "layer_norm_epsilon={} in place of {}".format(*epsilons) if differs else "float32 weights",
    )


def _check_close(wanted: npt.NDArray[Any], logits: npt.NDArray[Any], difference_of: str) -> None:
    difference = float(np.abs(logits - wanted).max())
    if difference > 1e-4 * max(1.0, float(np.abs(wanted).max())):
        raise ValueError(
            "What is written must give the logits of the model. "
            f"Received: a difference of {difference:.1e}, with {difference_of}."
        )
