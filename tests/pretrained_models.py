"""Small pretrained models of random weights, with tokenizers, in directories as `transformers` saves them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

BART = {
    "vocab_size": 41,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 30,
    "scale_embedding": True,
}
MARIAN = {**BART, "activation_function": "swish", "eos_token_id": 0, "forced_eos_token_id": 0}
SEPARATE = {"decoder_vocab_size": 33, "share_encoder_decoder_embeddings": False}
T5 = {
    "vocab_size": 41,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 3,
    "decoder_start_token_id": 0,
}
T5_1_1 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
# By name: the class of the model, and what differs from the defaults of its configuration.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("Marian", {**MARIAN, "pad_token_id": 40, "decoder_start_token_id": 40}),
    "marian-separate": ("Marian", {**MARIAN, **SEPARATE, "pad_token_id": 32, "decoder_start_token_id": 32}),
    "bart": ("Bart", BART),
    "mbart": ("MBart", {**BART, "decoder_start_token_id": 2}),
    "pegasus": ("Pegasus", {**BART, "activation_function": "relu"}),
    "m2m100": ("M2M100", BART),
    "t5": ("T5", T5),
    "t5-1.1": ("T5", T5_1_1),
    "mt5": ("MT5", T5),
    "umt5": ("UMT5", {**T5, "num_decoder_layers": 2}),
    "byt5": ("T5", T5_1_1),
}
CORPUS = [
    "A dog runs across the green meadow.",
    "Two men are sitting on a bench and talk.",
    "Ein Hund läuft über die grüne Wiese.",
    "Zwei Männer sitzen auf einer Bank und reden.",
    "The quick brown fox jumps over the lazy dog.",
    "Ein kleines Kind spielt im Sand.",
] * 3


def save_model(family: str, directory: Path, **changes: Any) -> Any:
    """Save a model of a family, whose weights are all random, and return it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    name, options = FAMILIES[family]
    generation = changes.pop("generation", {})
    config = getattr(transformers, f"{name}Config")(**{**options, **changes})
    kind = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    torch.manual_seed(1)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, weight in model.state_dict().items():
            if "embed_positions" not in key or name in ("Bart", "MBart"):
                weight.copy_(0.3 * torch.randn(weight.shape) + ("norm" in key))
    model.generation_config.update(**generation)
    model.save_pretrained(directory)
    return model


# By name: the architecture of those that differ from it in their tokenizer.
ARCHITECTURES = {"mbart50": "mbart", "nllb": "m2m100"}
TRANSLATORS = (
    "marian",
    "t5",
    "mt5",
    "umt5",
    "byt5",
    "bart",
    "pegasus",
    "m2m100",
    "mbart",
    "mbart50",
)
# Source and target, as `from_hugging_face` takes them.
LANGUAGES = {
    "m2m100": ("de", "en"),
    "nllb": ("deu_Latn", "eng_Latn"),
    "mbart": ("de_DE", "en_XX"),
    "mbart50": ("de_DE", "en_XX"),
}


def save_translator(family: str, directory: Path, **generation: Any) -> Any:
    """Save a model with the files of its tokenizer; `generation` is of `generation_config.json`."""
    directory.mkdir(exist_ok=True)
    savers: dict[str, Any] = {
        "marian": _save_marian,
        "mt5": _save_t5,
        "t5": _save_t5,
        "umt5": _save_t5,
        "byt5": _save_byt5,
        "bart": _save_bart,
        "pegasus": _save_pegasus,
        "m2m100": _save_m2m100,
        "nllb": _save_nllb,
        "mbart": partial(_save_fairseq, name="MBartTokenizer", num_languages=25),
        "mbart50": partial(_save_fairseq, name="MBart50Tokenizer", num_languages=52),
    }
    changes = savers[family](directory)
    if not family.endswith("t5"):
        changes["max_position_embeddings"] = 64
    generation = {"max_length": 12, "bad_words_ids": [[changes["pad_token_id"]]], **generation}
    return save_model(ARCHITECTURES.get(family, family), directory, **changes, generation=generation)


WHISPER = {
    "d_model": 16,
    "num_mel_bins": 10,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_source_positions": 50,  # of a second, at 50 for each
    "max_target_positions": 24,
}
SPOKEN = ("en", "zh", "de")


def save_whisper(directory: Path, *, is_multilingual: bool = True, **generation: Any) -> tuple[Any, Any]:
    """Save a Whisper of random weights, which reads a second of audio; return it with its processor."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    directory.mkdir(exist_ok=True)
    _save_bart(directory)
    vocabulary = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    merges = (directory / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (directory / name).unlink()
    # Without BART's five special tokens.
    vocabulary = {piece: number - 5 for piece, number in vocabulary.items() if number >= 5}
    tokenizer = transformers.WhisperTokenizer(vocabulary, [tuple(merge.split(" ")) for merge in merges])
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    names = ["endoftext", "startoftranscript", *SPOKEN, *tasks]
    added = [f"<|{name}|>" for name in names]
    times = [f"<|{0.02 * number:.2f}|>" for number in range(51)]
    tokenizer.add_tokens([transformers.AddedToken(name, special=True) for name in added])
    tokenizer.add_tokens([transformers.AddedToken(name) for name in times])
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(added), strict=True))
    features = transformers.WhisperFeatureExtractor(WHISPER["num_mel_bins"], chunk_length=1)
    processor = transformers.WhisperProcessor(features, tokenizer)
    processor.save_pretrained(directory)
    end = ids["endoftext"]
    config = transformers.WhisperConfig(
        **WHISPER,
        vocab_size=len(tokenizer),
        **dict.fromkeys(("pad_token_id", "eos_token_id", "bos_token_id"), end),
        decoder_start_token_id=ids["startoftranscript"],
        begin_suppress_tokens=[220, end],
    )
    torch.manual_seed(1)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for key, weight in model.state_dict().items():
            weight.copy_(0.5 * torch.randn(weight.shape) + ("norm" in key))
        table = model.model.decoder.embed_tokens.weight
        table[end] = 1.1 * table[151]  # so that some outputs end
    languages = {f"<|{name}|>": ids[name] for name in SPOKEN}
    task_ids = {name: ids[name] for name in tasks[:2]}
    multilingual = {"lang_to_id": languages, "task_to_id": task_ids} if is_multilingual else {}
    options = {
        **multilingual,
        "is_multilingual": is_multilingual,
        "no_timestamps_token_id": ids["notimestamps"],
        "max_length": 20,
        # Times too, which a trained model does not write after `<|notimestamps|>`: at them `generate` cuts.
        "suppress_tokens": [1, 2, 7, *range(end + 1, len(tokenizer))],
        **generation,
    }
    for name, value in options.items():
        setattr(model.generation_config, name, value)  # `update` leaves out what only Whisper has
    model.save_pretrained(directory)
    return model, processor


def _train_sentencepiece(path: Path, size: int, **options: Any) -> list[str]:
    import sentencepiece  # late, since it is slow and few tests need it

    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_writer=file,
            vocab_size=size,
            hard_vocab_limit=False,
            minloglevel=2,
            **options,
        )
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(len(model))]


def _write(directory: Path, **tables: object) -> None:
    for name, table in tables.items():
        (directory / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")


def _save_marian(directory: Path) -> dict[str, int]:
    pieces = _train_sentencepiece(directory / "source.spm", 90)
    _train_sentencepiece(directory / "target.spm", 80)
    names = ["</s>", "<unk>", *pieces[3:], "<pad>"]
    _write(directory, vocab={name: number for number, name in enumerate(names)})
    _write(directory, tokenizer_config={"tokenizer_class": "MarianTokenizer", "separate_vocabs": False})
    pad = len(names) - 1
    return {"vocab_size": len(names), "pad_token_id": pad, "decoder_start_token_id": pad}


def _save_t5(directory: Path) -> dict[str, int]:
    pieces = _train_sentencepiece(directory / "spiece.model", 90, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    _write(directory, tokenizer_config={"tokenizer_class": "T5Tokenizer", "extra_ids": 4})
    # As at Google, the table has more rows than there are tokens.
    return {"vocab_size": len(pieces) + 10, "pad_token_id": 0}


def _save_byt5(directory: Path) -> dict[str, int]:
    _write(directory, tokenizer_config={"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125})
    return {"vocab_size": 384, "pad_token_id": 0}


def _save_pegasus(directory: Path) -> dict[str, int]:
    pieces = _train_sentencepiece(directory / "spiece.model", 90, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    _write(directory, tokenizer_config={"tokenizer_class": "PegasusTokenizer"})
    return {"vocab_size": len(pieces) + 103, "pad_token_id": 0}


def _save_fairseq(directory: Path, name: str, num_languages: int) -> dict[str, int]:
    pieces = _train_sentencepiece(directory / "sentencepiece.bpe.model", 90)
    _write(directory, tokenizer_config={"tokenizer_class": name})
    return {"vocab_size": len(pieces) + 1 + num_languages + 1, "pad_token_id": 1}


def _save_nllb(directory: Path) -> dict[str, int]:
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as CODES

    pieces = _train_sentencepiece(directory / "sentencepiece.bpe.model", 90, model_type="bpe")
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    added = [*enumerate(["<s>", "<pad>", "</s>", "<unk>"]), *enumerate([*CODES, "<mask>"], len(pieces) + 1)]
    decoder = {str(number): {"content": token, "special": True, **flags} for number, token in added}
    _write(directory, tokenizer_config={"tokenizer_class": "NllbTokenizer", "added_tokens_decoder": decoder})
    return {"vocab_size": len(pieces) + 1 + len(CODES) + 2, "pad_token_id": 1, "decoder_start_token_id": 2}


def _save_m2m100(directory: Path) -> dict[str, int]:
    pieces = _train_sentencepiece(directory / "sentencepiece.bpe.model", 90)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]
    _write(directory, vocab={name: number for number, name in enumerate(names)})
    _write(directory, tokenizer_config={"tokenizer_class": "M2M100Tokenizer"})
    return {"vocab_size": len(names) + 108, "pad_token_id": 1}


def _save_bart(directory: Path) -> dict[str, int]:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(CORPUS, vocab_size=330, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(directory))
    _write(directory, tokenizer_config={"tokenizer_class": "BartTokenizer"})
    return {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": 1}


ENCODERS = ("bert", "distilbert", "roberta")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "runs",
    "fast",
    "un",
    "##aff",
    "##able",
    "##s",
    "##ing",
    "good",
    "bad",
    "film",
]
WORD_PIECES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(
        *_WORDS,
        *"Éé漢!.,'?[]12",
        "##1",
        *_LETTERS,
        *_LETTERS.upper(),
        *(f"##{letter}" for letter in _LETTERS),
    ),
]


def save_encoder(kind: str, task: str, directory: Path, **changes: Any) -> Any:
    """Save an encoder of random weights with its tokenizer; `task` is how its class is called after `For`."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    directory.mkdir(exist_ok=True)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    if kind == "distilbert":
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40}
    if kind == "roberta":
        vocabulary_size = _save_bart(directory)["vocab_size"]
        mask = {"content": "<mask>", "lstrip": True, "special": True, "normalized": False}
        settings = {"tokenizer_class": "RobertaTokenizer", "added_tokens_decoder": {"4": mask}}
    else:
        vocabulary_size = len(WORD_PIECES)
        (directory / "vocab.txt").write_text("".join(f"{each}\n" for each in WORD_PIECES), encoding="utf-8")
        settings = {"do_lower_case": True}
    _write(directory, tokenizer_config=settings)
    name = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta"}[kind]
    options = {
        "max_position_embeddings": 40,
        "vocab_size": vocabulary_size,
        "num_labels": 3,
        **sizes,
        **changes,
    }
    config = getattr(transformers, f"{name}Config")(**options)
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}{f'For{task}' if task else 'Model'}")(config).eval()
    with torch.no_grad():
        for key, weight in model.state_dict().items():
            is_scale = key.endswith("weight") and any(part in key for part in ("LayerNorm", "layer_norm"))
            weight.copy_(0.3 * torch.randn(weight.shape) + is_scale)
    model.save_pretrained(directory)
    return model
