"""Export of a classifier or tagger as a BERT model; the inverse of `encoders.py`."""

import dataclasses
import json
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from keras_transformer._files import as_json
from keras_transformer.models import EncoderModel
from keras_transformer.pretrained.bert import _EncoderFamily, _Head
from keras_transformer.pretrained.tokenizers import _subword_files
from keras_transformer.pretrained.weights import _pairs
from keras_transformer.pretrained.written_model import _first_fit, _MisfitError
from keras_transformer.tasks import TextClassifier, TextTagger
from keras_transformer.text import BertTokenizer, BytePairTokenizer
from keras_transformer.types import SPECIAL_IDS

# Options that must be equal; sizes and dropout rates are free.
_NAMES = (
    "norm_first normalize_embeddings positions layer_norm_epsilon scale_embeddings gated use_bias "
    "normalization final_norm head_dim num_key_value_heads tie_output pooling head_activation head_norm"
)


def _written_encoder(
    task: TextClassifier | TextTagger, families: Mapping[str, type[_EncoderFamily]]
) -> tuple[dict[str, bytes], dict[str, npt.NDArray[np.float32]]]:
    """Return the small files and the tensors by name; raise ValueError if no family fits."""
    model, tokenizer = task.model, task.tokenizer
    if not isinstance(model, EncoderModel) or not isinstance(tokenizer, BertTokenizer | BytePairTokenizer):
        received = f"a {type(model).__name__} and a {type(tokenizer).__name__}"
        wanted = "the model must be an EncoderModel with the tokenizer of BERT or RoBERTa"
        raise ValueError(f"To be written for transformers, {wanted}. Received: {received}.")
    is_roberta = isinstance(tokenizer, BytePairTokenizer)
    families = {
        kind: of for kind, of in families.items() if (of.tokenizer_class == "RobertaTokenizer") == is_roberta
    }
    kind, family, head = _first_fit(families, partial(_as_family, model, task))
    ids, names = tokenizer.original_ids, family.tables["source"]
    tensors = {
        pair.name: np.ascontiguousarray(pair.tensor())
        for pair in _pairs(model, family, {"source": ids}, {names[0]: "source"}, head=head.names)
    }
    tensors |= {name: np.zeros(shape, "float32") for name, shape in family.added().items()}
    labels = task.labels if isinstance(task, TextClassifier) else task.tags
    several = isinstance(task, TextClassifier) and task.multi_label
    config = {
        **dataclasses.asdict(family),
        "architectures": [_architecture(family, task)],
        "dtype": "float32",
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "model_type": kind,
        "problem_type": "multi_label_classification" if several else None,
    }
    return {"config.json": as_json(config), **_tokenizer_files(tokenizer, task.max_length)}, tensors


def _architecture(family: _EncoderFamily, task: TextClassifier | TextTagger) -> str:
    ending = "ForSequenceClassification" if isinstance(task, TextClassifier) else "ForTokenClassification"
    return next(name for name in family.architectures if name.endswith(ending))


def _as_family(
    model: EncoderModel, task: TextClassifier | TextTagger, kind: str, of: type[_EncoderFamily]
) -> tuple[str, _EncoderFamily, _Head]:
    ids = task.tokenizer.original_ids
    given = {**model.config.get_config(), "num_encoder_layers": model.config.num_layers}
    fields = of.fields({**given, "max_length": given["max_length"] or 2})
    family = of(**fields, vocab_size=len(ids), pad_token_id=int(ids[SPECIAL_IDS.pad]))
    unused = (given["max_length"] or 2) - (family.max_length or 0)  # before the first position
    family = dataclasses.replace(family, max_position_embeddings=fields["max_position_embeddings"] + unused)
    head = family.head(_architecture(family, task))
    body = {**family.options(), "scale_embeddings": False, **head.options}
    body["num_layers"] = body.pop("num_encoder_layers")
    theirs = EncoderModel(len(ids), given["num_outputs"], **body).config.get_config()
    pairs = {name: (given[name], theirs[name]) for name in _NAMES.split()}
    if different := {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}:
        raise _MisfitError(of, **different)
    return kind, family, head


def _tokenizer_files(tokenizer: BertTokenizer | BytePairTokenizer, max_length: int) -> dict[str, bytes]:
    ids = tokenizer.original_ids
    if isinstance(tokenizer, BytePairTokenizer):
        files = _subword_files((tokenizer, tokenizer), (ids, ids), max_length)
        settings = json.loads(files["tokenizer_config.json"])
        for name in tokenizer.spec.stripped:
            settings["added_tokens_decoder"][str(tokenizer.spec.pieces.index(name))]["lstrip"] = True
        return {
            **files,
            "tokenizer_config.json": as_json({**settings, "tokenizer_class": "RobertaTokenizer"}),
        }
    spec = tokenizer.spec
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": spec.lowercase,
        "strip_accents": spec.strip_accents,
        "tokenize_chinese_chars": spec.split_on_cjk,
        "model_max_length": max_length,
        "added_tokens_decoder": {
            str(spec.pieces.index(name)): {"content": name, "special": name in spec.hidden}
            for name in spec.split_tokens
        },
    }
    return {
        "vocab.txt": "".join(f"{piece}\n" for piece in spec.pieces).encode(),
        "tokenizer_config.json": as_json(settings),
    }
