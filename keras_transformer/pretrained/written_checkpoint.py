"""A model of ours as one of Hugging Face: the family that has its options, and the tensors."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer.models import Transformer, TransformerConfig
from keras_transformer.pretrained.family import _BIAS, _NO_TOKEN_BIAS, _Family, _parts, _weights
from keras_transformer.types import SPECIAL_IDS, Config, Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
_Ids: TypeAlias = npt.NDArray[np.int64]

# What must be the same. Rates of dropout need not; tables and vocabularies follow by themselves.
_NAMES = (
    "num_encoder_layers num_decoder_layers hidden_dim num_heads head_dim intermediate_dim activation gated "
    "use_bias norm_first final_norm normalization layer_norm_epsilon num_key_value_heads positions "
    "normalize_embeddings source_vocabulary_size target_vocabulary_size"
)
_COMPARED = _NAMES.split()


class _Written(NamedTuple):
    """A family with its configuration, and its tensors by name."""

    family: _Family
    config: Config
    tensors: dict[str, _Array]


class _MisfitError(Exception):
    """A family has other values of some options than a model."""

    def __init__(self, family: type[_Family], **pairs: tuple[object, object]) -> None:
        received, theirs = (
            ", ".join(f"{name}={pair[side]!r}" for name, pair in pairs.items()) for side in (0, 1)
        )
        super().__init__(
            "The model must have the options of a model of transformers. "
            f"The nearest, {family.architectures[0]}, has {theirs}. Received: {received}."
        )
        self.number = len(pairs)


def _written(
    model: Transformer, ids: Mapping[str, _Ids], num_positions: int, families: Mapping[str, type[_Family]]
) -> _Written:
    """Return a model as that of the first family that has its options; raise ValueError if none has them."""
    misfits = []
    for kind, family in families.items():
        found = _attempt(model, ids, num_positions, kind, family)
        if isinstance(found, _Written):
            return found
        misfits.append(found)
    # Of equally near ones the last, since special cases come before what they are cases of.
    raise ValueError(str(min(reversed(misfits), key=lambda misfit: misfit.number)))


def _attempt(
    model: Transformer, ids: Mapping[str, _Ids], num_positions: int, kind: str, of: type[_Family]
) -> _Written | _MisfitError:
    try:
        return _as_family(model, ids, num_positions, kind, of)
    except _MisfitError as misfit:
        return misfit


def _as_family(
    model: Transformer, ids: Mapping[str, _Ids], num_positions: int, kind: str, of: type[_Family]
) -> _Written:
    has_two = "decoder_vocab_size" in of.__dataclass_fields__
    is_separate = has_two and not _is_shared(model, ids)
    sizes = {side: int(each.max()) + 1 for side, each in ids.items()}
    if of.has_output_bias and not has_two:
        # Rows of zeros fill up the smaller table, and the bias keeps them from being generated.
        sizes = dict.fromkeys(sizes, max(sizes.values()))
    options = _resolved(model.config.get_config())
    options |= {f"{side}_vocabulary_size": size for side, size in sizes.items()}
    names: Config = {"vocab_size": sizes["source"]}
    if has_two:
        names["decoder_vocab_size"] = sizes["target"] if is_separate else None
    special = {
        "pad_token_id": int(ids["target"][SPECIAL_IDS.pad]),
        "eos_token_id": int(ids["target"][SPECIAL_IDS.end]),
    }
    fields = of.fields({**options, "max_length": options["max_length"] or num_positions})
    family = of(**fields, **names, **special, decoder_start_token_id=int(ids["target"][SPECIAL_IDS.start]))
    # No configuration of ours, which would refuse what does not fit together.
    theirs = _resolved({**TransformerConfig().get_config(), **family.options()})
    theirs |= {f"{side}_vocabulary_size": size for side, size in family.table_sizes().items()}
    pairs = {name: (options[name], theirs[name]) for name in _COMPARED}
    different = {name: pair for name, pair in pairs.items() if not _is_same(name, *pair)}
    if different:
        raise _MisfitError(of, **different)
    is_tied = model.config.tie_output and (is_separate or _is_shared(model, ids))
    config = {
        "tie_word_embeddings": is_tied,
        **{name: value for name, value in dataclasses.asdict(family).items() if value is not None},
        # By default BART has others.
        **dict.fromkeys(("bos_token_id", "forced_bos_token_id", "forced_eos_token_id")),
        "architectures": [of.architectures[0]],
        "dtype": "float32",
        "is_encoder_decoder": True,
        "model_type": kind,
    }
    if has_two:
        config["share_encoder_decoder_embeddings"] = not is_separate
    tensors: dict[str, _Array] = {}
    for name, values in _tensors_of(model, family, ids, is_separate=is_separate):
        # A stack of T5 has one table of relative positions.
        first = tensors.setdefault(name, values)
        if first is not values and not np.array_equal(first, values):
            raise _MisfitError(of, positions=("different in each layer", "the same in each layer"))
    return _Written(family, config, {name: np.ascontiguousarray(each) for name, each in tensors.items()})


def _resolved(options: Config) -> Config:
    """Return options with the values of those that follow from others."""
    follow = {
        "num_encoder_layers": options["num_layers"],
        "num_decoder_layers": options["num_layers"],
        "num_key_value_heads": options["num_heads"],
        "head_dim": options["hidden_dim"] // options["num_heads"],
        "final_norm": options["norm_first"],
    }
    followed = {name: value for name, value in follow.items() if options[name] is None}
    # One is the other with the features in another order, see `_order`.
    positions = options["positions"]
    positions = "sinusoidal_concatenated" if positions == "sinusoidal" else positions
    activation = str(options["activation"])
    return {**options, **followed, "positions": positions, "activation": activation}


def _is_same(name: str, ours: object, theirs: object) -> bool:
    if name == "layer_norm_epsilon" and isinstance(ours, float) and isinstance(theirs, float):
        # 1e-5 where no option says it. It disappears beside the variance, which the logits are asked about.
        return ours == theirs or ours < theirs == 1e-5
    return ours == theirs


def _is_shared(model: Transformer, ids: Mapping[str, _Ids]) -> bool:
    return model.config.share_embeddings and np.array_equal(ids["source"], ids["target"])


def _order(model: Transformer) -> _Ids | None:
    """Return the order in which interleaved sinusoids are concatenated ones; None if they stay as they are.

    Projections, sums and normalizations of vectors do not know the order of the features: if all weights have
    the same, the logits are the same.
    """
    features = np.arange(model.config.hidden_dim)
    is_interleaved = model.config.positions == "sinusoidal"
    return np.concatenate([features[::2], features[1::2]]) if is_interleaved else None


def _tensors_of(
    model: Transformer, family: _Family, ids: Mapping[str, _Ids], *, is_separate: bool
) -> Iterator[tuple[str, _Array]]:
    """Yield each tensor by its name; the inverse of `_fill` and of `_Tables.fill`."""
    order = _order(model)
    for part, name, factor in _parts(model, family):
        for weight in _weights(part, name, factor):
            values = weight.theirs()
            if order is not None and weight.width_axis is not None:
                values = np.take(values, order, axis=weight.width_axis)
            yield weight.name, values
    for name, table in _tables_of(model, family, ids, is_separate=is_separate).items():
        yield name, table if order is None else table[:, order]
    yield from _positions_of(model, family)
    if (bias := _output_bias(model, family, ids["target"])) is not None:
        yield _BIAS, bias


def _output_bias(model: Transformer, family: _Family, ids: _Ids) -> _Array | None:
    """Return the bias of the logits `(1, v)`; None if there is none."""
    size, bias = family.table_sizes()["output"], model.output_projection.bias
    given = np.zeros((len(ids), 1), "float32") if bias is None else _array(bias)[:, None]
    if not family.has_output_bias:
        given[SPECIAL_IDS.start] = 0  # which is never generated
    values = _rows(given, ids, size)
    values[ids.max() + 1 :] = _NO_TOKEN_BIAS
    if not family.has_output_bias and values.any():
        raise _MisfitError(type(family), output_bias=(True, False))
    return values.T if family.has_output_bias and (bias is not None or values.any()) else None


def _tables_of(
    model: Transformer, family: _Family, ids: Mapping[str, _Ids], *, is_separate: bool
) -> dict[str, _Array]:
    config, scales = model.config, family.scales()
    scale = np.float32(config.hidden_dim**0.5 if config.scale_embeddings else 1.0)
    scale /= np.float32(scales.embeddings)
    source, target = (
        _rows(_array(embedding.embeddings) * scale, ids[side], family.table_sizes()[side])
        for side, embedding in (("source", model.source_embedding), ("target", model.target_embedding))
    )
    first, shared = family.tables["source"]
    if _is_shared(model, ids) and config.tie_output:
        return {shared: target}
    tables = {first: source, family.tables["target"][0]: target}
    if not is_separate:
        tables[shared] = source
    if not config.tie_output:
        # (d, v) -> (v, d)
        kernel = _array(model.output_projection.dense.kernel).T / np.float32(scales.logits)
        tables[family.tables["output"][0]] = _rows(kernel, ids["target"], len(target))
    elif not is_separate:
        tables[family.tables["output"][0]] = target
    return tables


def _positions_of(model: Transformer, family: _Family) -> Iterator[tuple[str, _Array]]:
    for stack in ("encoder", "decoder"):
        name, wanted, first = family.positions(stack)
        if model.config.positions != "learned":
            # They follow from the sizes, but without them Pegasus warns.
            yield from [] if wanted is None else [(name, wanted)]
            continue
        encoding = model.position_encoding
        if stack == "decoder":
            encoding = getattr(model, "target_position_encoding", encoding)
        marks = _array(encoding.marks)
        if wanted is None:
            yield name, np.concatenate([np.zeros((first, marks.shape[1]), "float32"), marks])
        elif not np.array_equal(marks, wanted[first:]):
            raise _MisfitError(type(family), positions=("learned", "sinusoidal"))


def _rows(table: _Array, ids: _Ids, size: int) -> _Array:
    """Put the row of each of our ids where it belongs there."""
    rows = np.zeros((size, table.shape[1]), "float32")
    rows[ids[ids >= 0]] = table[ids >= 0]
    return rows


def _array(weight: Tensor) -> _Array:
    array: _Array = ops.convert_to_numpy(weight).astype("float32")
    return array
