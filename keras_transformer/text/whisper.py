"""The tokenizer of Whisper and the settings of its features, from a directory of Hugging Face."""

from keras_transformer.errors import InputError
from keras_transformer.text.hugging_face_files import _byte_pairs, _Directory, _language, _refuse_language
from keras_transformer.text.log_mel import _RATE
from keras_transformer.types import Config

_END, _TASKS = "<|endoftext|>", ("<|translate|>", "<|transcribe|>")


def _whisper(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    pieces, merges, space = _byte_pairs(files)
    added = {number: token for number, token, _ in files.added_tokens()}
    if (files.path / "tokenizer.json").exists():
        found = files.table("tokenizer.json").get("added_tokens", ())
        added |= {token["id"]: token["content"] for token in found}
    added |= {number: token for token, number in files.table("added_tokens.json", optional=True).items()}
    description = files.describe(
        "byte_level",
        pieces,
        # Times are no text either.
        [*added.values()],
        special=([], [], [], [_END]),
        added=[(number, token, True) for number, token in sorted(added.items())],
        merges=merges,
        add_prefix_space=space,
    )
    prefix = _prefix(files, description["pieces"], source, target)
    return _features(files), {**description, "prefix": prefix}


def _prefix(files: _Directory, pieces: list[str], source: str | None, target: str | None) -> list[str]:
    """Return what every output begins with: language, task, and that there are no times."""
    last = "<|notimestamps|>"
    marks = ["<|startoftranscript|>", *_TASKS, last]
    if missing := [mark for mark in marks if mark not in pieces]:
        raise InputError(f"{files.path}: the vocabulary must have {marks}. Received: none of {missing}.")
    first, end = (pieces.index(mark) for mark in marks[:2])
    languages = {piece[2:-2]: piece for piece in pieces[first + 1 : end]}
    table = {**files.config, **files.table("generation_config.json", optional=True)}
    language, task = table.get("language"), table.get("task")
    forced = [pieces[each[1]] for each in table.get("forced_decoder_ids") or () if each[1] is not None]
    if language is None and task is None:  # older names for the same
        language = next((piece for piece in forced if piece in languages.values()), None)
        task = next((piece[2:-2] for piece in forced if piece in _TASKS), None)
    if not table.get("is_multilingual", bool(source or language or table.get("lang_to_id"))):
        _refuse_language(files, source, target)
        return [last]
    language = language.strip("<|>") if isinstance(language, str) else language
    spoken = _language(files, "source_language", source or language, languages)
    if target is not None:
        _language(files, "target_language", target, {"en", spoken})
        task = "transcribe" if target == spoken else "translate"
    return [languages[spoken], f"<|{task or 'transcribe'}|>", last]


def _features(files: _Directory) -> Config:
    table = files.table("preprocessor_config.json", optional=True)
    table = table or files.table("processor_config.json", optional=True).get("feature_extractor", {})
    wanted = {"sampling_rate": _RATE, "hop_length": 160, "n_fft": 400, "dither": 0.0, "padding_value": 0.0}
    for name, value in wanted.items():
        if table.get(name, value) != value:
            raise InputError(f"{files.path}: {name} must be {value}. Received: {table[name]!r}.")
    frames = files.config.get("max_source_positions", 1500), files.config.get("num_mel_bins", 80)
    seconds, num_mels = table.get("chunk_length", 30), table.get("feature_size", 80)
    if (seconds * 50, num_mels) != frames:
        message = f"the features must be {frames[0] * 2} frames of {frames[1]} mels, as the model reads them"
        received = f"chunk_length={seconds}, feature_size={num_mels}"
        raise InputError(f"{files.path}: {message}. Received: {received}.")
    return {"num_mels": num_mels, "seconds": seconds}
