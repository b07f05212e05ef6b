"""Tokenizers of a CTranslate2 model: its vocabulary, and the SentencePiece models of its directory."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from keras_transformer.errors import InputError
from keras_transformer.files import _read_tokens, read_file, read_table
from keras_transformer.types import Config

# Reads a SentencePiece model of the directory: in Base64, and its pieces.
_ReadModel: TypeAlias = Callable[[str], tuple[str, list[str]]]

_PADS = ("<pad>", "<blank>", "[PAD]")
_SIDES = ("source", "target")
# How a language is named in M2M100 and NLLB, in Marian, where it stands in front of the source, and in others.
_LANGUAGE_FORMS = ("{}", "__{}__", "<2{}>")
_MARIAN_FORM = ">>{}<<"


def _describe_ctranslate2(
    directory: Path, read_model: _ReadModel, source: str | None, target: str | None
) -> tuple[Config, Config]:
    """Describe both tokenizers with all tokens of the model, by their places in its vocabularies."""
    path = directory / "config.json"
    config = read_table(read_file(path), path)
    vocabularies = [_read_tokens(directory, side) for side in _SIDES]
    models = [read_model(name) for name in _model_names(directory)]
    is_shared = vocabularies[0] == vocabularies[1]
    prefixes = _prefixes(directory, vocabularies, source, target)
    if config.get("add_source_bos") is True:
        prefixes[0].insert(0, str(config.get("bos_token")))
    descriptions = []
    for side, (proto, pieces), tokens, prefix in zip(_SIDES, models, vocabularies, prefixes, strict=True):
        known = {*models[0][1], *models[1][1]} if is_shared else {*pieces}
        _check_tokens(directory, side, tokens, known)
        special = [[config.get(name)] for name in ("unk_token", "eos_token")]
        missing = [name for [name] in (*special, prefix[:1] or special[0]) if name not in tokens]
        if missing:
            wanted = f"special tokens must be in the {side} vocabulary"
            raise InputError(f"{path}: {wanted}. Received: {missing[0]!r}.")
        others = [token for token in tokens if token not in known and len(token) > 1]
        control = [token for token in tokens if token.startswith("<") and token.endswith(">")]
        descriptions.append(
            {
                "kind": "named_pieces",
                "special": [[pad for pad in _PADS if pad in tokens][:1], special[0], [], special[1]],
                "pieces": tokens,
                "hidden": [*others, *(token for token in control if token not in special[0])],
                "code": any(token.startswith(">>") and token.endswith("<<") for token in tokens),
                "proto": proto,
                "prefix": prefix,
            }
        )
    return descriptions[0], descriptions[1]


def _model_names(directory: Path) -> list[str]:
    names = [f"{side}.spm" for side in _SIDES]
    if all((directory / name).is_file() for name in names):
        return names
    found = sorted(path.name for end in ("model", "spm") for path in directory.glob(f"*.{end}"))
    if len(found) != 1:
        raise InputError(
            f"{directory} must have its tokenizers: source.spm and target.spm, or one file of SentencePiece, "
            f"`*.model`; or give both tokenizers. Received: {', '.join(found) or 'none'}."
        )
    return found * 2


def _prefixes(
    directory: Path, vocabularies: list[list[str]], source: str | None, target: str | None
) -> list[list[str]]:
    """Return the tokens of languages that stand in front of the texts of each side."""
    prefixes: list[list[str]] = [[], []]
    if target is not None and (token := _MARIAN_FORM.format(target)) in vocabularies[0]:
        prefixes[0], target = [token], None
    for side, language in enumerate((source, target)):
        if language is not None:
            forms = [form.format(language) for form in _LANGUAGE_FORMS]
            if not (known := [token for token in forms if token in vocabularies[side]]):
                wanted = f"`{_SIDES[side]}_language` must be a token of the vocabulary"
                raise InputError(f"{directory}: {wanted}. Received: {language!r}.")
            prefixes[side].insert(0, known[0])
    return prefixes


def _check_tokens(directory: Path, side: str, tokens: list[str], pieces: set[str]) -> None:
    """Raise InputError unless tokens are pieces of a model; letters that it does not know may be others."""
    words = [token for token in tokens if token.startswith("\u2581") and len(token) > 1]
    others = [token for token in words or tokens if token not in pieces]
    if others or not words:
        wanted = f"tokens of the {side} vocabulary must be pieces of the SentencePiece model"
        raise InputError(f"{directory}: {wanted}. Received: {others[0] if others else tokens[0]!r}.")
