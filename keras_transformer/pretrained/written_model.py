"""Export of a `Transformer` as a Hugging Face family: configuration and tensors."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from keras_transformer.models import Transformer, TransformerConfig
from keras_transformer.pretrained.family import _EncoderDecoder, _Family
from keras_transformer.pretrained.weights import _BIAS, _NO_TOKEN_BIAS, _array, _pairs, _positions, _scatter
from keras_transformer.types import SPECIAL_IDS, Config

_Array: TypeAlias = npt.NDArray[np.float32]
_Ids: TypeAlias = npt.NDArray[np.int64]
_FamilyT = TypeVar("_FamilyT", bound=_Family)
_T = TypeVar("_T")

# Options that must be equal. Dropout rates are free; tables and vocabularies are handled separately.
_NAMES = (
    "num_encoder_layers num_decoder_layers hidden_dim num_heads head_dim intermediate_dim activation gated "
    "use_bias norm_first final_norm normalization layer_norm_epsilon num_key_value_heads positions "
    "normalize_embeddings source_vocabulary_size target_vocabulary_size"
)
_COMPARED = _NAMES.split()


class _Written(NamedTuple):
    """Family, configuration and tensors of an exported model."""

    family: _EncoderDecoder
    config: Config
    tensors: dict[str, _Array]


class _MisfitError(Exception):
    """Some options of the model and the family differ."""

    def __init__(self, family: type[_Family], **pairs: tuple[object, object]) -> None:
        received, theirs = (
            ", ".join(f"{name}={pair[side]!r}" for name, pair in pairs.items()) for side in (0, 1)
        )
        super().__init__(
            "The model must have the options of a model of transformers. "
            f"The nearest, {family.architectures[0]}, has {theirs}. Received: {received}."
        )
        self.number = len(pairs)


def _first_fit(families: Mapping[str, type[_FamilyT]], write: Callable[[str, type[_FamilyT]], _T]) -> _T:
    """Export as the first family that fits; raise ValueError if none does."""
    misfits = []
    for kind, family in families.items():
        try:
            return write(kind, family)
        except _MisfitError as misfit:
            misfits.append(misfit)
    # If several are equally near, report the last, which is the more general one.
    raise ValueError(str(min(reversed(misfits), key=lambda misfit: misfit.number)))


def _as_family(
    model: Transformer, ids: Mapping[str, _Ids], num_positions: int, kind: str, of: type[_EncoderDecoder]
) -> _Written:
    has_two = "decoder_vocab_size" in of.__dataclass_fields__
    is_shared = model.config.share_embeddings and np.array_equal(ids["source"], ids["target"])
    is_separate = has_two and not is_shared
    sizes = {side: int(each.max()) + 1 for side, each in ids.items()}
    if of.has_output_bias and not has_two:
        # Pad the smaller table with zeros; the bias keeps them from being generated.
        sizes = dict.fromkeys(sizes, max(sizes.values()))
    options = _resolved(model.config.get_config())
    options |= {f"{side}_vocabulary_size": size for side, size in sizes.items()}
    fields = of.fields({**options, "max_length": options["max_length"] or num_positions})
    names: Config = {"vocab_size": sizes["source"]}
    if has_two:
        names["decoder_vocab_size"] = sizes["target"] if is_separate else None
    pad, _, start, end = ids["target"][: len(SPECIAL_IDS)].tolist()
    special = {"pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": start}
    family = of(**fields, **names, **special)
    # A plain dictionary: a `TransformerConfig` would reject inconsistent options.
    theirs = _resolved({**TransformerConfig().get_config(), **family.options()})
    theirs |= {f"{side}_vocabulary_size": size for side, size in family.table_sizes().items()}
    pairs = {name: (options[name], theirs[name]) for name in _COMPARED}
    if different := {name: pair for name, pair in pairs.items() if not _is_same(name, *pair)}:
        raise _MisfitError(of, **different)
    config = {
        "tie_word_embeddings": model.config.tie_output and (is_separate or is_shared),
        **{name: value for name, value in dataclasses.asdict(family).items() if value is not None},
        # Override BART's defaults.
        **dict.fromkeys(("bos_token_id", "forced_bos_token_id", "forced_eos_token_id")),
        "architectures": [of.architectures[0]],
        "dtype": "float32",
        "is_encoder_decoder": True,
        "model_type": kind,
    }
    if has_two:
        config["share_encoder_decoder_embeddings"] = not is_separate
    roles = _table_roles(model, family, is_shared=is_shared, is_separate=is_separate)
    return _Written(family, config, _tensors_of(model, family, ids, roles))


def _resolved(options: Config) -> Config:
    """Return options with default values filled in."""
    follow = {
        "num_encoder_layers": options["num_layers"],
        "num_decoder_layers": options["num_layers"],
        "num_key_value_heads": options["num_heads"],
        "head_dim": options["hidden_dim"] // options["num_heads"],
        "final_norm": options["norm_first"],
    }
    followed = {name: value for name, value in follow.items() if options[name] is None}
    # Both sinusoidal kinds differ only in the order of features; see `_feature_order`.
    positions = options["positions"]
    positions = "sinusoidal_concatenated" if positions == "sinusoidal" else positions
    activation = str(options["activation"])
    return {**options, **followed, "positions": positions, "activation": activation}


def _is_same(name: str, ours: object, theirs: object) -> bool:
    if name == "layer_norm_epsilon" and isinstance(ours, float) and isinstance(theirs, float):
        # Families without this option use 1e-5. The comparison of logits shows whether it matters.
        return ours == theirs or ours < theirs == 1e-5
    return ours == theirs


def _table_roles(
    model: Transformer, family: _EncoderDecoder, *, is_shared: bool, is_separate: bool
) -> dict[str, str]:
    """Return the role of each table name: source, target or output."""
    first, shared = family.tables["source"]
    is_tied = model.config.tie_output
    if is_shared and is_tied:
        return {shared: "target"}
    roles = {first: "source", family.tables["target"][0]: "target"}
    if not is_separate:
        roles[shared] = "source"
    if not (is_tied and is_separate):
        roles[family.tables["output"][0]] = "output"
    return roles


def _feature_order(model: Transformer) -> _Ids | None:
    """Return the feature order that turns interleaved sinusoids into concatenated ones; None if unchanged.

    Projections, sums and normalizations do not depend on the order of features, so reordering all weights
    leaves the logits unchanged.
    """
    features = np.arange(model.config.hidden_dim)
    is_interleaved = model.config.positions == "sinusoidal"
    return np.concatenate([features[::2], features[1::2]]) if is_interleaved else None


def _tensors_of(
    model: Transformer, family: _EncoderDecoder, ids: Mapping[str, _Ids], roles: Mapping[str, str]
) -> dict[str, _Array]:
    tensors: dict[str, _Array] = {}
    order = _feature_order(model)
    for pair in _pairs(model, family, ids, roles):
        values = pair.tensor()
        if order is not None and pair.width_axis is not None:
            values = np.take(values, order, axis=pair.width_axis)
        # In T5, all layers of a stack share one table of relative positions.
        first = tensors.setdefault(pair.name, np.ascontiguousarray(values))
        if not np.array_equal(first, values, equal_nan=True):
            raise _MisfitError(type(family), positions=("different in each layer", "the same in each layer"))
    for stack in ("encoder", "decoder"):
        name, known, first_row = family.positions(stack)
        if known is None:
            continue
        if model.config.positions != "learned":
            tensors[name] = known  # computed, but Pegasus warns if they are missing
        elif not np.array_equal(_array(_positions(model, stack).embeddings), known[first_row:]):
            raise _MisfitError(type(family), positions=("learned", "sinusoidal"))
    bias = _output_bias(model, family, ids["target"])
    return tensors if bias is None else {**tensors, _BIAS: bias}


def _output_bias(model: Transformer, family: _EncoderDecoder, ids: _Ids) -> _Array | None:
    """Return the logit bias `(1, v)`; None if there is none."""
    bias = model.output_projection.bias
    given = np.zeros((len(ids), 1), "float32") if bias is None else _array(bias)[:, None]
    if not family.has_output_bias:
        given[SPECIAL_IDS.start] = 0  # never generated
    values = _scatter(given, ids, family.table_sizes()["output"])
    values[ids.max() + 1 :] = _NO_TOKEN_BIAS
    if not values.any() and (bias is None or not family.has_output_bias):
        return None
    if not family.has_output_bias:
        raise _MisfitError(type(family), output_bias=(True, False))
    return values.T
