"""The files that a tokenizer of Hugging Face has in its directory."""

import base64
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from keras_transformer._files import read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.text.splitters import _byte_letters
from keras_transformer.types import Config

_PAD, _UNKNOWN, _START, _END, _MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
# Where a directory names no class of tokenizers, or one that says nothing.
_ANY_CLASS = (None, "PreTrainedTokenizer", "TokenizersBackend")
_WORD_LEVEL = "WordLevel"


class _Directory:
    """The files of a tokenizer."""

    def __init__(self, path: Path, classes: Mapping[str, str]) -> None:
        self.path, self.settings_path, self._classes = path, path / "tokenizer_config.json", classes
        self.config = self.table("config.json")
        self.settings = self.table(self.settings_path.name, optional=True)

    def table(self, name: str, *, optional: bool = False) -> Config:
        path = self.path / name
        if optional and not path.exists():
            return {}
        table: Config = read_table(read_file(path), path)
        return table

    def class_name(self) -> object:
        name = self.settings.get("tokenizer_class", self.config.get("tokenizer_class"))
        name = name.removesuffix("Fast") if isinstance(name, str) else name
        if name not in _ANY_CLASS:
            return name
        model = self.table("tokenizer.json", optional=True).get("model")
        if isinstance(model, dict) and model.get("type") == _WORD_LEVEL:
            return _WORD_LEVEL
        return self._classes.get(str(self.config.get("model_type")))

    def number(self, name: str, default: int) -> int:
        value = self.settings.get(name, default)
        if type(value) is not int or value < 0:
            raise InputError(f"{self.settings_path}: {name} must be a number. Received: {value!r}.")
        return value

    def vocabulary(self, name: str) -> list[str]:
        return self.ordered(self.path / name, self.table(name))

    @staticmethod
    def ordered(path: Path, numbers: object) -> list[str]:
        """Return pieces in the order of their ids."""
        numbers = numbers if isinstance(numbers, dict) else {}
        by_number = {number: piece for piece, number in numbers.items()}
        for number in range(len(numbers)):
            if number not in by_number:
                wanted = f"the ids of the vocabulary must be 0 to {len(numbers) - 1}, each once"
                raise InputError(f"{path}: {wanted}. Received: no token for {number}.")
        return [by_number[number] for number in range(len(numbers))]

    def model(self, name: str, first: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Read a SentencePiece model, in Base64, and its pieces, which must start with some."""
        from sentencepiece import SentencePieceProcessor

        proto = read_file(self.path / name)
        try:
            model = SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            received = f"{len(proto)} bytes starting with {proto[:16]!r}"
            raise InputError(
                f"{self.path / name} must be a SentencePiece model. Received: {received}."
            ) from error
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
        if pieces[: len(first)] != [*first]:
            others = pieces[: len(first)]
            raise InputError(f"{self.path / name} must start with {[*first]}. Received: {others}.")
        return base64.b64encode(proto).decode(), pieces

    def describe(
        self,
        kind: str,
        pieces: list[str],
        hidden: Sequence[str] = (),
        size: str = "vocab_size",
        special: Sequence[Sequence[str]] | None = None,
        added: Sequence[tuple[int, str, bool]] | None = None,
        **more: object,
    ) -> Config:
        """Describe a tokenizer with all ids of the model."""
        pieces, never_text = [*pieces], [*hidden, _START, _MASK]
        for number, token, is_special in self.added_tokens() if added is None else added:
            if number >= len(pieces):
                pieces += [f"<no token {at}>" for at in range(len(pieces), number + 1)]
            if pieces[number] != token and not is_special:
                wanted = "added tokens must be special, since others split texts"
                raise InputError(f"{self.settings_path}: {wanted}. Received: {token!r}.")
            pieces[number] = token
            never_text += [token] * is_special
        rows = self.config.get(size, len(pieces))
        if type(rows) is not int or rows < len(pieces):
            wanted = f"{size} must be at least {len(pieces)}, the tokens of the vocabulary"
            raise InputError(f"{self.path / 'config.json'}: {wanted}. Received: {rows!r}.")
        pieces += [f"<no token {at}>" for at in range(len(pieces), rows)]
        if special is None:
            # Our own models start from a token that is no text.
            start = self.config.get("decoder_start_token_id")
            is_start = _START in pieces and pieces.index(_START) == start
            special = [[_PAD], [_UNKNOWN], [_START] if is_start else [], [_END]]
        for token in (token for names in special for token in names):
            if token not in pieces:
                raise InputError(
                    f"{self.path}: the vocabulary must have {token!r}. Received: {len(pieces)} others."
                )
        never_text += [piece for piece in pieces if piece.startswith("<no token ")]
        names = {"special": [*special], "pieces": pieces, "hidden": never_text}
        return {"kind": kind, "code": False, **names, **more}

    def added_tokens(self) -> list[tuple[int, str, bool]]:
        """Return id, name and whether it is special of each token that the configuration adds."""
        try:
            return [
                (int(number), str(token["content"]), bool(token["special"]))
                for number, token in self.settings.get("added_tokens_decoder", {}).items()
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            wanted = "added_tokens_decoder must have a `content` and `special` for each id"
            raise InputError(f"{self.settings_path}: {wanted}. Received: {error!r}.") from error


def _language(files: _Directory, argument: str, name: object, languages: Collection[str]) -> str:
    if name not in languages:
        wanted = f"`{argument}` must be one of {', '.join(sorted(languages)) or 'no languages'}"
        raise InputError(f"{files.path}: {wanted}. Received: {argument}={name!r}.")
    return str(name)


def _refuse_language(files: _Directory, *names: str | None) -> None:
    if any(names):
        raise InputError(f"{files.path}: the model has no languages of this kind. Received: {names}.")


def _byte_pairs(files: _Directory) -> tuple[list[str], list[str], bool]:
    """Read pieces and merges, and whether texts begin with a space."""
    space: object = files.settings.get("add_prefix_space", False)
    path = files.path / "tokenizer.json"
    if (files.path / "vocab.json").exists() or not path.exists():
        pieces, path = files.vocabulary("vocab.json"), files.path / "merges.txt"
        lines = read_file(path).decode("utf-8", "replace").splitlines()
        merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    else:
        table = files.table(path.name)
        parts = (table.get("model"), table.get("pre_tokenizer"))
        model, splitter = (part if isinstance(part, dict) else {} for part in parts)
        kinds = [model.get("type"), splitter.get("type")]
        if kinds != ["BPE", "ByteLevel"] or table.get("normalizer") is not None:
            received = f"{kinds} and the normalizer {table.get('normalizer')!r}"
            raise InputError(f"{path} must be of byte-level BPE without a normalizer. Received: {received}.")
        pieces = files.ordered(path, model.get("vocab"))
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", ())]
        space = splitter.get("add_prefix_space", space)
    known = {*pieces}
    for merge in merges:
        if merge.count(" ") != 1 or not known.issuperset([*merge.split(" "), merge.replace(" ", "")]):
            raise InputError(f"{path}: merges must be two tokens of the vocabulary. Received: {merge!r}.")
    if missing := [letter for letter in _byte_letters() if letter not in known]:
        raise InputError(f"{path}: the vocabulary must have all bytes. Received: none of {missing[:3]}.")
    return pieces, merges, space is True
