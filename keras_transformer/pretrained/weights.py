"""Mapping between model weights and checkpoint tensors, for import and export."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import check_finite
from keras_transformer._backend import assign_rows
from keras_transformer.errors import InputError
from keras_transformer.models import EncoderModel, Transformer
from keras_transformer.pretrained.directory import _Tensors
from keras_transformer.pretrained.family import _Family
from keras_transformer.types import Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
_Ids: TypeAlias = npt.NDArray[np.int64]

_BIAS = "final_logits_bias"
# Logit bias of ids without a token, such as our start token. Its probability is 0 in float32, and label
# smoothing adds only a small number to the loss.
_NO_TOKEN_BIAS = -1000.0
# Upper bound of position tables.
_MAX_POSITIONS = 2**17
# Tensor name endings by weight name.
_ENDINGS = {
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "biases": "weight",
    "bias": "bias",
    "beta": "bias",
}


@dataclasses.dataclass(frozen=True)
class _Part:
    """Weight of a layer and its tensor, which may be transposed and have flattened heads.

    `width_axis` is the tensor axis of the model's features.
    """

    variable: Tensor
    name: str
    shape: tuple[int, ...]
    factor: float = 1.0
    is_matrix: bool = False
    width_axis: int | None = 0
    is_zero: bool = False  # if the checkpoint lacks it

    def fill(self, tensors: _Tensors) -> None:
        """Load the tensor into the weight."""
        is_left_out = self.is_zero and self.name not in tensors
        values = np.zeros(self.shape) if is_left_out else tensors.read(self.name, self.shape)
        values = values.T if self.is_matrix else values
        with np.errstate(all="ignore"):  # non-finite values are reported for the whole model
            values = values * np.float32(self.factor)
        self.variable.assign(np.reshape(values, self.variable.shape))

    def tensor(self) -> _Array:
        """Return the tensor for the weight."""
        values = _array(self.variable) / np.float32(self.factor)
        return np.reshape(values, self.shape[::-1]).T if self.is_matrix else np.reshape(values, self.shape)


@dataclasses.dataclass(frozen=True)
class _Table:
    """Embedding table; `ids` has the checkpoint row of each of our rows, -1 for none."""

    variable: Tensor
    name: str
    shape: tuple[int, int]
    ids: _Ids
    start_id: int = 0  # row to copy for ids without a row
    factor: float = 1.0
    is_kernel: bool = False  # our shape is (d, v)
    width_axis: int | None = 1
    added: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)  # their first row is added

    def fill(self, tensors: _Tensors) -> None:
        table, factor = tensors.read(self.name, self.shape), np.float32(self.factor)
        for name, shape in self.added.items():
            table = table + tensors.read(name, shape)[0]
        # Limit to the table: a separate source vocabulary may be smaller than `start_id`.
        rows = np.minimum(np.where(self.ids < 0, self.start_id, self.ids), len(table) - 1)
        if self.is_kernel:
            assign_rows(self.variable, lambda block: table[rows, block].T * factor)
        else:
            assign_rows(self.variable, lambda block: table[rows[block]] * factor)

    def tensor(self) -> _Array:
        values = _array(self.variable).T if self.is_kernel else _array(self.variable)
        return _scatter(values / np.float32(self.factor), self.ids, self.shape[0])


def _pairs(
    model: Transformer | EncoderModel,
    family: _Family,
    ids: Mapping[str, _Ids],
    roles: Mapping[str, str],
    start_id: int = 0,
    head: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[_Part | _Table]:
    """Yield each weight with its tensor, except for computed positions and the logit bias.

    `ids` are checkpoint ids by side. `roles` maps each table name to its role (source, target, output).
    `head` has tensor names of additional parts of the model.
    """
    for path, name in head.items():
        yield from _part_weights(_part(model, path), name, 1.0, family.zeros)
    for stack in family.stacks:
        for number, layer in enumerate(getattr(model, stack).layers):
            for path, name in family.layer_names(stack).items():
                factor = family.scales().queries if path.endswith("query_dense") else 1.0
                yield from _part_weights(_part(layer, path), name.format(i=number), factor, family.zeros)
        for path, name in family.stack_names(stack).items():
            yield from _part_weights(_part(model, path), name, 1.0, family.zeros)
        name, known, first = family.positions(stack)
        if name and known is None:
            table = _positions(model, stack).embeddings
            length, width = table.shape
            rows = np.arange(first, first + length)
            yield _Table(table, name, (length + first, width), rows, width_axis=None, added=family.added())
    scales, width = family.scales(), model.config.hidden_dim
    factor = scales.embeddings / (width**0.5 if model.config.scale_embeddings else 1.0)
    for name, role in roles.items():
        side = "source" if role == "source" else family.last_side
        shape = family.table_sizes()[role], width
        if role == "output" and not model.config.tie_output:
            kernel = model.output_projection.dense.kernel
            yield _Table(kernel, name, shape, ids[side], start_id, scales.logits, is_kernel=True)
        else:
            embeddings = getattr(model, f"{side}_embedding").embeddings
            yield _Table(embeddings, name, shape, ids[side], start_id, factor)


def _part(owner: object, path: str) -> keras.layers.Layer | None:
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def _part_weights(
    part: keras.layers.Layer | None, name: str, factor: float, zeros: tuple[str, ...]
) -> Iterator[_Part]:
    """Yield the weights of a part with their tensor names; nothing if the model lacks the part."""
    if part is None:
        return
    # All other parts read features of the model.
    writes_features = part.name in ("attention_output", "outer")
    for attribute, ending in _ENDINGS.items():
        variable: Tensor = getattr(part, attribute, None)
        if not hasattr(variable, "shape"):
            continue
        shape, tensor = tuple(variable.shape), f"{name}.{ending}"
        if part.name.endswith("convolution") and attribute == "kernel":
            # (o, i, 3) -> (3 i, o)
            yield _Part(variable, tensor, (shape[1], shape[0] // 3, 3), is_matrix=True, width_axis=None)
        elif attribute == "kernel":
            # (o, i) -> (i, o); the attention output (h, k, d) has two input axes.
            num_outputs = shape[-1] if writes_features else math.prod(shape[1:])
            matrix, axis = (num_outputs, math.prod(shape) // num_outputs), 0 if writes_features else 1
            yield _Part(variable, tensor, matrix, factor, is_matrix=True, width_axis=axis)
        elif attribute == "biases":
            yield _Part(variable, tensor, shape, width_axis=None)
        else:
            # Biases of heads are flattened in the checkpoint.
            is_inner = attribute == "bias" and not writes_features
            width_axis = None if is_inner else 0
            yield _Part(
                variable,
                tensor,
                (math.prod(shape),),
                factor,
                width_axis=width_axis,
                is_zero=tensor.endswith(zeros),
            )


def _check_sizes(tensors: _Tensors, family: _Family, path: Path) -> None:
    """Raise InputError unless the sizes of the configuration match the headers of the weights."""
    for field, value, tensor in family.layers():
        if tensor.format(i=value - 1) not in tensors:
            found = next(i for i in itertools.count() if tensor.format(i=i) not in tensors)
            if not found:
                raise InputError(f"{path} is not whole: it has no tensor {tensor.format(i=0)!r}.")
            raise _misfit(path, field, found, tensor.format(i=value - 1), value)
    if family.max_length and family.max_length > _MAX_POSITIONS:  # computed positions have no tensor
        wanted = f"the number of positions must be at most {_MAX_POSITIONS}"
        raise InputError(
            f"{path / 'config.json'}: {wanted}. Received: max_position_embeddings={family.max_length}."
        )
    for field, value, tensor, axis, besides in family.sizes():
        shape = tensors.shape(tensor)
        if shape is None:
            raise InputError(f"{path} is not whole: it has no tensor {tensor!r}.")
        if shape[axis : axis + 1] != (value + besides,):
            raise _misfit(path, field, shape[axis] - besides if axis < len(shape) else None, tensor, value)
    _check_tables(tensors, family, path)


def _check_tables(tensors: _Tensors, family: _Family, path: Path) -> None:
    names, sizes = _given_names(tensors, family, path), family.table_sizes()
    for role, found_names in names.items():
        field = "vocab_size" if sizes[role] == family.vocab_size else "decoder_vocab_size"
        for name in found_names:
            shape = tensors.shape(name) or ()
            if shape[:1] != (sizes[role],):
                raise _misfit(path, field, shape[0] if shape else None, name, sizes[role])


def _misfit(path: Path, field: str, wanted: object, tensor: str, received: object) -> InputError:
    return InputError(
        f"{path / 'config.json'}: `{field}` must be {wanted}, as in the weights, by {tensor!r}. "
        f"Received: {received}."
    )


def _load_model(
    tensors: _Tensors, family: _Family, path: Path, ids: Mapping[str, _Ids], start_id: int
) -> Transformer:
    """Build the model with the weights of the checkpoint, for the vocabularies of the tokenizers.

    `ids` are `Tokenizer.original_ids` of both sides (no source for audio). A start token with id -1 gets the
    row of `start_id` and is never generated.
    """
    names = _table_names(tensors, family, path)
    for side, each in ids.items():
        _check_table(tensors, family, path, (side, names[side]), each)
    target_ids = ids["target"]
    is_new = target_ids < 0
    is_tied = names["output"] == names["target"]
    is_shared = names.get("source") == names["target"] and np.array_equal(ids["source"], target_ids)
    # A table shared with the logits includes their factor, so the embeddings must compensate for it.
    factor = family.scales().logits if is_tied else 1.0
    options = {**family.options(), "scale_embeddings": family.scales().embeddings != factor}
    model = Transformer(
        len(ids["source"]) if "source" in ids else None,
        len(target_ids),
        **options,
        share_embeddings=is_shared,
        tie_output=is_tied,
        output_bias=_BIAS in tensors or bool(is_new.any()),
    )
    others = [*(["source"] if is_shared else []), *(["output"] if is_tied else [])]
    roles = {name: role for role, name in names.items() if role not in others}
    _fill(model, tensors, family, path, ids, roles, start_id)
    if model.config.output_bias:
        size = family.table_sizes()["output"]
        bias = tensors.read(_BIAS, (1, size))[0] if _BIAS in tensors else np.zeros(size, "float32")
        rows = np.where(is_new, 0, target_ids)
        model.output_projection.bias.assign(np.where(is_new, np.float32(_NO_TOKEN_BIAS), bias[rows]))
        # A family without a bias stays one without after training.
        model.output_projection.bias.trainable = _BIAS in tensors
    tensors.leave_out_others()
    check_finite(path, model.weights)
    return model


def _fill(
    model: Transformer | EncoderModel,
    tensors: _Tensors,
    family: _Family,
    path: Path,
    ids: Mapping[str, _Ids],
    roles: Mapping[str, str],
    start_id: int = 0,
    head: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Load all tensors, see `_pairs`, and computed positions; freeze what the family does not have."""
    pairs = [*_pairs(model, family, ids, roles, start_id, head)]
    uses = Counter(pair.name for pair in pairs)
    for pair in pairs:
        pair.fill(tensors)
        # T5 has one table of relative positions for all layers of a stack; here each layer has a copy.
        pair.variable.trainable = uses[pair.name] == 1
    for stack in family.stacks:
        name, known, first = family.positions(stack)
        is_learned = model.config.positions == "learned"
        if known is None or not (is_learned or name in tensors):
            continue
        # Some versions store computed positions, too. Half precision has 3 digits.
        if name in tensors and not np.allclose(tensors.read(name, known.shape), known, atol=2e-3):
            raise InputError(f"{path} must have sinusoids in {name!r}. Received: others.")
        if is_learned:
            _positions(model, stack).embeddings.assign(known[first:])
            _positions(model, stack).embeddings.trainable = False


def _table_names(tensors: _Tensors, family: _Family, path: Path) -> dict[str, str]:
    """Return the table names of source, target and output, which may be equal."""
    given = _given_names(tensors, family, path)
    # Older files contain copies of a shared table; use one name for equal tables.
    roles = {name: role for role in family.tables for name in reversed(given[role])}
    first: dict[str, str] = {}
    for name in roles if len(roles) > 1 else ():
        table = _read_table(tensors, family, name, roles[name])
        others = {*first.values()}
        equal = (
            each for each in others if np.array_equal(table, _read_table(tensors, family, each, roles[each]))
        )
        first[name] = next(equal, name)
    return {role: first.get(found[0], found[0]) for role, found in given.items()}


def _given_names(tensors: _Tensors, family: _Family, path: Path) -> dict[str, list[str]]:
    """Return the table names that the checkpoint contains, by role."""
    given = {role: [name for name in names if name in tensors] for role, names in family.tables.items()}
    # A checkpoint may store a shared table under any role: use the first one for all.
    every = [name for names in given.values() for name in names]
    if family.has_one_table:
        given = {role: found or every[:1] for role, found in given.items()}
    for role, found in given.items():
        if not found:
            raise InputError(f"{path} is not whole: it has no tensor {family.tables[role][-1]!r}.")
    return given


def _read_table(tensors: _Tensors, family: _Family, name: str, role: str) -> _Array:
    return tensors.read(name, (family.table_sizes()[role], family.options()["hidden_dim"]))


def _check_table(tensors: _Tensors, family: _Family, path: Path, table: tuple[str, str], ids: _Ids) -> None:
    """Raise InputError unless the tokenizer covers the rows of a table."""
    # The start token may equal another token, such as a language.
    (side, name), regular = table, np.unique(ids[ids >= 0])
    size = family.table_sizes()[side]
    is_first = np.array_equal(regular, np.arange(len(regular))) and len(regular) <= size
    # Rows of zeros only pad the smaller of two tables.
    if not is_first or (
        len(regular) < size and _read_table(tensors, family, name, side)[len(regular) :].any()
    ):
        raise InputError(
            f"{path}: the {side} tokenizer must have the vocabulary of the model, {size} ids. "
            f"Received: {len(regular)} ids, up to {ids.max()}."
        )


def _positions(model: Transformer | EncoderModel, stack: str) -> keras.layers.Layer:
    own = getattr(model, "target_position_encoding", None) if stack == "decoder" else None
    return own or model.position_encoding


def _scatter(table: _Array, ids: _Ids, size: int) -> _Array:
    """Return a table in checkpoint order."""
    rows = np.zeros((size, table.shape[1]), "float32")
    rows[ids[ids >= 0]] = table[ids >= 0]
    return rows


def _array(weight: Tensor) -> _Array:
    array: _Array = ops.convert_to_numpy(weight).astype("float32")
    return array
