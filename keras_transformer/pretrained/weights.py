"""The weights of a model and the tensors of a checkpoint: each pair once, for both directions."""

import dataclasses
import itertools
import math
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
# The logit of what is no token there, as our start: its probability is 0 in float32, and label smoothing,
# which gives it a share of the target too, adds a small number to the loss.
_NO_TOKEN_BIAS = -1000.0
# A table of more is none of a model here.
_MAX_POSITIONS = 2**17
# How the tensor of a part's weight ends.
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
    """A weight of a layer, whose tensor may be transposed and have the axes of the heads in one.

    `width_axis` is that of the tensor that has the features of the model.
    """

    variable: Tensor
    name: str
    shape: tuple[int, ...]
    factor: float = 1.0
    is_matrix: bool = False
    width_axis: int | None = 0
    is_zero: bool = False  # where the checkpoint leaves it out

    def fill(self, tensors: _Tensors) -> None:
        """Give the weight the values of the tensor."""
        is_left_out = self.is_zero and self.name not in tensors
        values = np.zeros(self.shape) if is_left_out else tensors.read(self.name, self.shape)
        values = values.T if self.is_matrix else values
        with np.errstate(all="ignore"):  # what is not finite is found in the model
            values = values * np.float32(self.factor)
        self.variable.assign(np.reshape(values, self.variable.shape))

    def tensor(self) -> _Array:
        """Return the tensor of the weight."""
        values = _array(self.variable) / np.float32(self.factor)
        return np.reshape(values, self.shape[::-1]).T if self.is_matrix else np.reshape(values, self.shape)


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table of vectors, whose rows have other numbers in a checkpoint, `ids`, -1 for none."""

    variable: Tensor
    name: str
    shape: tuple[int, int]
    ids: _Ids
    start_id: int = 0  # the row of what has none
    factor: float = 1.0
    is_kernel: bool = False  # (d, v) here
    width_axis: int | None = 1
    added: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)  # their first rows

    def fill(self, tensors: _Tensors) -> None:
        table, factor = tensors.read(self.name, self.shape), np.float32(self.factor)
        for name, shape in self.added.items():
            table = table + tensors.read(name, shape)[0]
        # A source has no start, and its vocabulary may be smaller where there are two.
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
    """Yield each weight with its tensor, apart from known positions and the bias of the logits.

    `ids` are those of the checkpoint by side; `roles` say for each name of a table whether it is of the
    source, the target or the output; `head` has the names of further parts of the model.
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
            marks = _positions(model, stack).marks
            length, width = marks.shape
            rows = np.arange(first, first + length)
            yield _Table(marks, name, (length + first, width), rows, width_axis=None, added=family.added())
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
    """Yield the weights of a part that has the name; none for a part that the model does not have."""
    if part is None:
        return
    # The others read the features of the model, and write others.
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
            # (o, i) -> (i, o); the output of attention, (h, k, d), has two axes of inputs.
            num_outputs = shape[-1] if writes_features else math.prod(shape[1:])
            matrix, axis = (num_outputs, math.prod(shape) // num_outputs), 0 if writes_features else 1
            yield _Part(variable, tensor, matrix, factor, is_matrix=True, width_axis=axis)
        elif attribute == "biases":
            yield _Part(variable, tensor, shape, width_axis=None)
        else:
            # Heads have an axis of their own here.
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
    """Raise InputError unless the sizes of a configuration are those in the headers of the weights."""
    for field, value, tensor in family.layers():
        if tensor.format(i=value - 1) not in tensors:
            found = next(i for i in itertools.count() if tensor.format(i=i) not in tensors)
            if not found:
                raise InputError(f"{path} is not whole: it has no tensor {tensor.format(i=0)!r}.")
            raise _misfit(path, field, found, tensor.format(i=value - 1), value)
    if family.max_length and family.max_length > _MAX_POSITIONS:  # positions that follow need no tensor
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
    """Make the model with the weights of the checkpoint, for the vocabularies of tokenizers.

    `ids` are `Tokenizer.original_ids` of both sides, without a source if that is audio. Of a start token that
    is -1 the row is that of `start_id`; it is never generated.
    """
    names = _table_names(tensors, family, path)
    for side, each in ids.items():
        _check_table(tensors, family, path, (side, names[side]), each)
    target_ids = ids["target"]
    is_new = target_ids < 0
    is_tied = names["output"] == names["target"]
    is_shared = names.get("source") == names["target"] and np.array_equal(ids["source"], target_ids)
    # A table that the logits share has their factor, which the embeddings must make good.
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
    """Give each weight the values of its tensor, see `_pairs`, and known positions theirs."""
    for pair in _pairs(model, family, ids, roles, start_id, head):
        pair.fill(tensors)
    for stack in family.stacks:
        name, known, first = family.positions(stack)
        is_learned = model.config.positions == "learned"
        if known is None or not (is_learned or name in tensors):
            continue
        # Some versions write them, though they follow from the sizes. Half precision has 3 digits.
        if name in tensors and not np.allclose(tensors.read(name, known.shape), known, atol=2e-3):
            raise InputError(f"{path} must have sinusoids in {name!r}. Received: others.")
        if is_learned:
            _positions(model, stack).marks.assign(known[first:])


def _table_names(tensors: _Tensors, family: _Family, path: Path) -> dict[str, str]:
    """Return the name of the table of the source, the target and the output, of which they may share one."""
    given = _given_names(tensors, family, path)
    # The shared one comes first, and older files have copies of it.
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
    """Return the names of tables that a checkpoint has, by what they are."""
    given = {role: [name for name in names if name in tensors] for role, names in family.tables.items()}
    # Of tables that are one a checkpoint may have any: the first in the order of the roles stands for all.
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
    """Raise InputError unless a tokenizer has the ids of a table."""
    # Decoding may start from a token that is one of the others too, a language.
    (side, name), regular = table, np.unique(ids[ids >= 0])
    size = family.table_sizes()[side]
    is_first = np.array_equal(regular, np.arange(len(regular))) and len(regular) <= size
    # Rows of zeros are no tokens: they fill up the smaller of two tables.
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
    """Put the row of each of our ids where it belongs there."""
    rows = np.zeros((size, table.shape[1]), "float32")
    rows[ids[ids >= 0]] = table[ids >= 0]
    return rows


def _array(weight: Tensor) -> _Array:
    array: _Array = ops.convert_to_numpy(weight).astype("float32")
    return array
