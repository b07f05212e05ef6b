"""Import of pretrained encoders as an `EncoderModel` with a tokenizer, or as a task."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from keras_transformer._arguments import check_finite
from keras_transformer.errors import InputError
from keras_transformer.models import EncoderModel
from keras_transformer.pretrained.bert import _EncoderFamily, _Head
from keras_transformer.pretrained.directory import _MAX_ROWS, _Directory, _Tensors
from keras_transformer.pretrained.tokenizer_files import _read_settings
from keras_transformer.pretrained.weights import _check_sizes, _check_table, _fill, _table_names
from keras_transformer.tasks import TextClassifier, TextTagger
from keras_transformer.text import BytePairTokenizer, Tokenizer
from keras_transformer.types import Config

_OUTPUT = "output_projection"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Labels:
    """Settings of `config.json` that give the logits a meaning."""

    id2label: dict[int, str] | None = None
    problem_type: str | None = None


class _Encoder(NamedTuple):
    """Model with its labels; without labels if the logits are not classes."""

    model: EncoderModel
    labels: tuple[str, ...] = ()
    multi_label: bool = False


def _read_encoder_task(
    files: _Directory, family: _EncoderFamily, tokenizer: Tokenizer, options: Config
) -> TextClassifier | TextTagger:
    """Read a classifier or tagger; for a plain encoder, `labels` or `tags` name new logits."""
    new, names = None, "labels"
    architecture = _architecture(files, family)
    if architecture.endswith("ForTokenClassification"):
        names = "tags"
    elif not architecture.endswith("ForSequenceClassification"):
        given = [name for name in ("labels", "tags") if name in options]
        if len(given) != 1:
            wanted = f"a {architecture} has no classes: give `labels` of texts or `tags` of words"
            raise InputError(
                f"{files.path / 'config.json'}: {wanted}, or read it by `read_encoder`. Received: neither."
            )
        names = given[0]
        pooling = "first" if names == "labels" else None
        new = {"num_outputs": len(options[names]), "pooling": pooling}
    known = ("max_length", names, "multi_label" if names == "labels" else "split_punctuation")
    if unknown := sorted(options.keys() - {*known}):
        wanted = f"options of a {architecture} are {', '.join(known)}"
        raise InputError(f"{files.path / 'config.json'}: {wanted}. Received: {unknown[0]}.")
    encoder = _read_encoder(files, family, tokenizer, new)
    # Where a tokenizer has no limit, this is a huge number.
    positions = family.max_length or _MAX_ROWS
    limit = _read_settings(files).model_max_length or positions
    read: Config = {"max_length": int(min(positions, limit))}
    read |= {} if new else {names: encoder.labels}
    if names == "tags":
        if isinstance(tokenizer, BytePairTokenizer):
            # Words are tokenized one by one, and the original needs a space before each.
            tokenizer = BytePairTokenizer(dataclasses.replace(tokenizer.spec, add_prefix_space=True))
        return TextTagger(encoder.model, tokenizer, **{**read, **options})
    return TextClassifier(encoder.model, tokenizer, **{**read, "multi_label": encoder.multi_label, **options})


def _read_encoder(
    files: _Directory, family: _EncoderFamily, tokenizer: Tokenizer, new: Config | None
) -> _Encoder:
    """Read an encoder with its head, or with new logits as in `new`."""
    path, tensors = files.path, files.tensors(family.prefix)
    _check_sizes(tensors, family, path)
    head = family.head(_architecture(files, family)) if new is None else _new_head(family, tensors, new)
    options: Config = dict(head.options)
    names_of: tuple[str, ...] = ()
    multi_label = False
    if _OUTPUT in head.names:
        options["num_outputs"] = _num_outputs(tensors, f"{head.names[_OUTPUT]}.weight", path)
        names_of, multi_label = _label_names(files, options)
    ids = tokenizer.original_ids
    names = _table_names(tensors, family, path)
    _check_table(tensors, family, path, ("source", names["source"]), ids)
    if options.get("tie_output"):
        if names["output"] != names["source"]:
            wanted = "the logits must share the table of the embeddings"
            raise InputError(f"{path}: {wanted}. Received: another one, {names['output']!r}.")
        options["num_outputs"] = len(ids)
    body = family.options()
    body["num_layers"] = body.pop("num_encoder_layers")
    model = EncoderModel(len(ids), **{**body, "scale_embeddings": False, **options})
    _fill(model, tensors, family, path, {"source": ids}, {names["source"]: "source"}, head=head.names)
    if head.biases:
        name = next((name for name in head.biases if name in tensors), head.biases[0])
        model.output_projection.bias.assign(tensors.read(name, (family.vocab_size,))[ids])
    tensors.leave_out_others()
    check_finite(path, model.weights)
    return _Encoder(model, names_of, multi_label)


def _architecture(files: _Directory, family: _EncoderFamily) -> str:
    given = files.config.get("architectures") or [family.architectures[0]]
    return next(name for name in map(str, given) if name in family.architectures)


def _new_head(family: _EncoderFamily, tensors: _Tensors, new: Config) -> _Head:
    """Return a head with new logits; the layer before them is loaded if the checkpoint has it."""
    head = family.classes() if new.get("pooling") == "first" else _Head()
    name = head.names.get("head")
    names = {"head": name} if name and f"{name}.weight" in tensors else {}
    return _Head({**head.options, **new}, names)


def _num_outputs(tensors: _Tensors, name: str, path: Path) -> int:
    shape = tensors.shape(name)
    if shape is None:
        raise InputError(f"{path} is not whole: it has no tensor {name!r}.")
    return shape[0]


def _label_names(files: _Directory, options: Config) -> tuple[tuple[str, ...], bool]:
    """Return the label of each logit, and whether a text may have several; raise for a regression."""
    path, number = files.path / "config.json", options["num_outputs"]
    labels = files.read(path.name, _Labels)
    problems = ("single_label_classification", "multi_label_classification", None)
    if labels.problem_type not in problems or (number == 1 and "pooling" in options):
        wanted = f"`problem_type` must be {problems[0]} or {problems[1]}, of at least two labels"
        raise InputError(f"{path}: {wanted}. Received: {labels.problem_type!r:.80}, {number} outputs.")
    names = labels.id2label or {each: f"LABEL_{each}" for each in range(number)}
    if sorted(names) != [*range(number)]:
        wanted = f"`id2label` must have a label for each of the {number} logits, as in the weights"
        raise InputError(f"{path}: {wanted}. Received: {len(names)} labels, {names!s:.80}.")
    if len({*names.values()}) < number:
        raise InputError(f"{path}: `id2label` must have each label once. Received: {names!s:.80}.")
    return tuple(names[each] for each in range(number)), labels.problem_type == problems[1]
