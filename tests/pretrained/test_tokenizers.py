"""Tokenizers of pretrained models: ids and texts of `transformers`, from directories as the hub has them."""

import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.pretrained import read_tokenizers
from keras_transformer.text import Tokenizer

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"
SIZE = 180 if MULTI30K.is_dir() else 100  # of the vocabularies; the texts below have no more pieces
# Of transformers' Marian tokenizer, which does not normalize punctuation by itself in any case.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
CLASSES = {
    "marian": "MarianTokenizer",
    "t5": "T5Tokenizer",
    "pegasus": "PegasusTokenizer",
    "m2m100": "M2M100Tokenizer",
    "nllb": "NllbTokenizer",
    "mbart": "MBartTokenizer",
    "mbart50": "MBart50Tokenizer",
    "bart": "BartTokenizer",
    "byt5": "ByT5Tokenizer",
}
# Version 5 of transformers splits with its own library what SentencePiece splits in the original. There a
# space at the end becomes a token, which SentencePiece, and transformers before, leave out.
WITH_LAST_SPACE = ("pegasus", "nllb", "mbart", "mbart50")
CORPUS = [
    "A dog runs across the green meadow.",
    "Two men are sitting on a bench, talking.",
    "Ein Hund läuft über die grüne Wiese.",
    "Zwei Männer sitzen auf einer Bank und reden.",
    "Un chien court à travers le pré vert.",
    "The quick brown fox jumps over the lazy dog; it's 1,234 times 56.7%!",
    "Where's the café? — “Over there,” she said (twice).",
    "Ça va? L'été, c'est déjà fini…",
]
HARD = [
    "",
    " ",
    "   \t \n ",
    "  two  spaces   inside ",
    "tab\there\nand a line\r\n\n\n  indented",
    "\u200bzero width\ufeff, \u00a0no-break\u3000wide",
    "e\u0301 combining, \ufb01 ligature, \uff21\uff22 full width, \u2460",
    "\U0001f600 emoji \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\x01\x02\x1b control \x7f",
    "漢字 漢字 \u05e9\u05dc\u05d5\u05dd",
    "it's we'll I'VE they'd 'tis",
    "aaaaa " + "a" * 300,
    "word " * 200,
    "१२६ ६ digits ½ ²",
    ">>deu<< A dog.",
    ">>xyz<< A dog >>deu<< runs.",
    ">> no << code",
    "▁under ▁ line",
]


def random_texts(count: int) -> list[str]:
    """Return random Unicode, without NUL, NEXT LINE and surrogates."""
    draw = random.Random(7)
    ranges = [
        (1, 0x7F),
        (0x86, 0x250),
        (0x300, 0x2100),
        (0x2000, 0x2070),
        (0x3000, 0x9FFF),
        (0x1F300, 0x1FAFF),
    ]
    return [
        "".join(
            chr(draw.randint(*bounds)) if draw.random() < 0.7 else draw.choice(" aé,.") for _ in range(20)
        )
        for bounds in draw.choices(ranges, k=count)
    ]


def multi30k(split: str, count: int) -> list[str]:
    if not MULTI30K.is_dir():
        return []
    texts: list[str] = []
    for language in ("de", "en", "fr"):
        with gzip.open(MULTI30K / f"{split}.{language}.gz", "rt", encoding="utf-8") as file:
            texts += file.read().splitlines()[:count]
    return texts


def train(kind: str, size: int = SIZE, **options: Any) -> tuple[bytes, list[str]]:
    """Train SentencePiece; some letters of the corpus are left out, so that there are unknown tokens."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*CORPUS, *CORPUS, *multi30k("train", 300)]),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        character_coverage=0.998,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    return model.getvalue(), [processor.id_to_piece(number) for number in range(size)]


def write(directory: Path, size: int, settings: dict[str, Any], **files: Any) -> None:
    directory.mkdir()
    tables = {"config.json": {"model_type": "any", "vocab_size": size}, "tokenizer_config.json": settings}
    for name, content in {**tables, **files}.items():
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        (directory / name).write_bytes(content)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a directory for each family."""
    pytest.importorskip("transformers")
    from tokenizers import ByteLevelBPETokenizer
    from transformers.models.m2m_100 import tokenization_m2m_100 as m2m100
    from transformers.models.nllb import tokenization_nllb as nllb

    root = tmp_path_factory.mktemp("models")
    classes = {name: {"tokenizer_class": kind} for name, kind in CLASSES.items()}
    source, pieces = train("unigram")
    target, others = train("unigram", SIZE - 10)
    names = dict.fromkeys(["</s>", "<unk>", *pieces[3:], *others[3:], ">>deu<<", ">>fra<<", "<pad>"])
    vocabulary = {piece: number for number, piece in enumerate(names)}
    spm = {"source.spm": source, "target.spm": target}
    settings = {**classes["marian"], "source_lang": "en", "target_lang": "de"}
    write(root / "marian", len(vocabulary), settings, **spm, **{"vocab.json": vocabulary})

    t5, _ = train("unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(root / "t5", 320, {**classes["t5"], "extra_ids": 100}, **{"spiece.model": t5})
    masks = {"mask_token": "<mask_2>", "mask_token_sent": "<mask_1>"}
    write(root / "pegasus", SIZE + 103, {**classes["pegasus"], **masks}, **{"spiece.model": t5})

    bpe, pieces = train("bpe")
    fairseq = ["<s>", "<pad>", "</s>", "<unk>"]
    # Without them, version 5 does not know which tokens it leaves out of a text.
    languages = m2m100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    special = [f"__{code}__" for code in languages]
    settings = {**classes["m2m100"], "src_lang": "en", "tgt_lang": "de", "additional_special_tokens": special}
    vocabulary = {piece: number for number, piece in enumerate([*fairseq, *pieces[3:]])}
    files = {"sentencepiece.bpe.model": bpe, "vocab.json": vocabulary}
    write(root / "m2m100", SIZE + 1 + 100 + 8, settings, **files)
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    added = [*enumerate(fairseq), *enumerate([*nllb.FAIRSEQ_LANGUAGE_CODES, "<mask>"], SIZE + 1)]
    decoder = {str(number): {"content": token, "special": True, **flags} for number, token in added}
    settings = {**classes["nllb"], "src_lang": "eng_Latn", "added_tokens_decoder": decoder}
    write(root / "nllb", SIZE + 1 + 203 + 2, settings, **{"sentencepiece.bpe.model": bpe})
    (root / "nllb" / "generation_config.json").write_text(
        json.dumps({"forced_bos_token_id": SIZE + 1 + nllb.FAIRSEQ_LANGUAGE_CODES.index("deu_Latn")})
    )
    settings = {**classes["mbart50"], "src_lang": "en_XX", "tgt_lang": "de_DE"}
    write(root / "mbart50", SIZE + 1 + 53, settings, **{"sentencepiece.bpe.model": source})
    settings = {**classes["mbart"], "src_lang": "en_XX"}
    write(root / "mbart", SIZE + 1 + 26, settings, **{"sentencepiece.bpe.model": source})
    # As in `mbart-large-en-ro`, decoding starts from the language.
    (root / "mbart" / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": SIZE + 3}))

    write(root / "bart", 500, classes["bart"])
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(CORPUS, vocab_size=500, special_tokens=special, show_progress=False)
    trained.save_model(str(root / "bart"))
    size = len(json.loads((root / "bart" / "vocab.json").read_text()))
    (root / "bart" / "config.json").write_text(json.dumps({"model_type": "bart", "vocab_size": size}))
    write(root / "byt5", 384, {**classes["byt5"], "extra_ids": 125})
    return root


def original_rows(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Return ended rows with the ids of the original."""
    ids = tokenizer.original_ids
    return [ids[[*row, *tokenizer.end_ids]].tolist() for row in tokenizer.tokenize(texts).to_list()]


def split(original: Any, directory: Path, row: list[int], text: str, ends: int) -> list[int]:
    """Split by SentencePiece itself, with the special tokens of a row around."""
    from sentencepiece import SentencePieceProcessor

    [path] = directory.glob("*.model")
    pieces = SentencePieceProcessor(model_proto=path.read_bytes()).encode(text, out_type=str)
    return [*row[: -len(pieces) - ends], *original.convert_tokens_to_ids(pieces), *row[-ends:]]


def check_family(root: Path, family: str, texts: list[str]) -> None:
    import transformers

    original = getattr(transformers, CLASSES[family]).from_pretrained(
        root / family, tgt_lang=TARGETS.get(family)
    )
    if family == "mbart":  # made from the model alone, it does not normalize; on the hub it does
        other = transformers.MBart50Tokenizer.from_pretrained(root / "mbart50").backend_tokenizer
        original.backend_tokenizer.normalizer = other.normalizer
        original.backend_tokenizer.pre_tokenizer = other.pre_tokenizer
    for name, tokenizer in zip(("text", "text_target"), read_tokenizers(root / family), strict=True):
        wanted = original(**{name: texts})["input_ids"]
        if tokenizer.original_ids[2] >= 0 and name == "text_target":
            # There the language ends the labels, from where it is taken to start the inputs.
            assert {row.pop() for row in wanted} == {tokenizer.original_ids[2]}
        if family in WITH_LAST_SPACE:
            space = original.convert_tokens_to_ids("▁")
            size = len(tokenizer.end_ids)
            wanted = [
                [*row[: -size - 1], *row[-size:]] if row[-size - 1 : -size] == [space] else row
                for row in wanted
            ]
        found = original_rows(tokenizer, texts)
        pairs = list(zip(texts, found, wanted, strict=True))
        different = [pair for pair in pairs if pair[1] != pair[2]]
        assert len(different) <= len(texts) // 500
        for text, one, other in different:
            # Where splits have the same score, as "f ff" and "ff f", another SentencePiece takes the other;
            # and the library of transformers normalizes rare combining characters in another way.
            ends = len(tokenizer.end_ids)
            assert sorted(one) == sorted(other) or one == split(original, root / family, one, text, ends)
        # Texts of texts, and of random ids.
        names = original.convert_ids_to_tokens(tokenizer.original_ids[4:].tolist())
        named = [number for number, name in enumerate(names, 4) if name not in (None, "<unk>")]
        draw = np.random.default_rng(0)
        rows = [*tokenizer.tokenize(texts).to_list(), *draw.choice(named, (200, 12))]
        joined = [
            text.decode()
            for text in tokenizer.detokenize(tf.ragged.constant([[*row] for row in rows])).numpy()
        ]
        ids = [tokenizer.original_ids[[*row]].tolist() for row in rows]
        wanted = original.batch_decode(ids, skip_special_tokens=True)
        if family not in ("bart", "byt5"):  # others keep spaces at the ends, where an unknown token was
            wanted = [text.strip(" ") for text in wanted]
        assert joined == wanted


TARGETS = {"m2m100": "de", "nllb": "deu_Latn", "mbart": "de_DE", "mbart50": "de_DE"}


@pytest.mark.backend
@pytest.mark.parametrize("family", CLASSES)
def test_ids_and_texts_are_those_of_transformers(root: Path, family: str) -> None:
    check_family(root, family, [*HARD, *CORPUS, *random_texts(150), *multi30k("val", 50)])


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("family", CLASSES)
def test_thousands_of_texts(root: Path, family: str) -> None:
    check_family(root, family, [*HARD, *random_texts(2000), *multi30k("val", 1000)])


def test_a_language_after_the_end(root: Path, tmp_path: Path) -> None:
    """It is kept where a source is cut off, in batches, and in what is saved."""
    source, target = read_tokenizers(root / "mbart", "fr_XX")
    language = source.end_ids[1]
    assert (source.tokens([[language]]).numpy(), target.end_ids) == ([[b"fr_XX"]], (3,))
    ids = source.padded_ids(["", "A dog runs across."], 5).numpy()
    assert ids[0].tolist() == [3, language, 0, 0, 0]
    assert ids[1, 3:].tolist() == [3, language]
    source.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.end_ids, loaded.original_ids[2]) == (source.end_ids, source.original_ids[2])
    # Both have one vocabulary, so that they may share a table of vectors.
    np.testing.assert_array_equal(source.original_ids, target.original_ids)


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    """Write a small model of many target languages."""
    model, pieces = train("unigram")
    names = ["</s>", "<unk>", *pieces[3:], ">>deu<<", ">>fra<<", "<pad>"]
    vocabulary = {piece: number for number, piece in enumerate(names)}
    files = {"source.spm": model, "target.spm": model, "vocab.json": vocabulary}
    write(tmp_path / "marian", len(names) + 3, {"tokenizer_class": "MarianTokenizer"}, **files)
    return tmp_path / "marian"


def test_ids_are_ordered_by_the_original_ones(marian: Path) -> None:
    source, target = read_tokenizers(marian, target_language="fra")
    names = json.loads((marian / "vocab.json").read_text())
    size = len(names) + 3  # three rows of the embedding have no token
    for tokenizer in (source, target):
        ids = tokenizer.original_ids
        assert ids[:4].tolist() == [names["<pad>"], names["<unk>"], -1, names["</s>"]]
        assert sorted(ids.tolist()) == [*range(-1, size)]
        assert tokenizer.vocabulary_size == size + 1
    [with_prefix, empty], [plain] = (
        source.tokenize(["A dog", ""]).to_list(),
        target.tokenize(["A dog"]).to_list(),
    )
    assert source.original_ids[empty].tolist() == [names[">>fra<<"]]
    assert with_prefix == [*empty, *plain]
    assert target.detokenize([plain]).numpy() == [b"A dog"]
    [coded] = target.tokenize([">>deu<< A dog"]).to_list()
    assert target.original_ids[coded].tolist() == [names[">>deu<<"], *target.original_ids[plain].tolist()]


def test_special_tokens_in_a_text_are_text(marian: Path) -> None:
    _, tokenizer = read_tokenizers(marian)
    [row] = tokenizer.tokenize(["</s> <pad> a\0b \ud800"]).to_list()
    assert {*row}.isdisjoint({0, 2, 3})


def test_they_are_saved_and_read(marian: Path, tmp_path: Path) -> None:
    source, target = read_tokenizers(marian, target_language="deu")
    source.save(tmp_path / "saved")
    loaded = Tokenizer.load(tmp_path / "saved")
    assert loaded.fingerprint() == source.fingerprint() != target.fingerprint()
    assert loaded.tokenize(HARD).to_list() == source.tokenize(HARD).to_list()
    assert loaded.original_ids.tolist() == source.original_ids.tolist()


LOADED = """
import sys
import keras_transformer.text
assert "keras_transformer.pretrained" not in sys.modules
print(keras_transformer.text.Tokenizer.load(sys.argv[1]).fingerprint())
"""


@pytest.mark.slow
def test_a_program_that_only_loads_finds_the_class(root: Path, tmp_path: Path) -> None:
    tokenizer, _ = read_tokenizers(root / "byt5")
    tokenizer.save(tmp_path)
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout.split()[-1] == tokenizer.fingerprint()


def test_only_a_tokenizer_json(root: Path, tmp_path: Path) -> None:
    """Of byte-level BPE it is enough."""
    from tokenizers import ByteLevelBPETokenizer

    names = [str(root / "bart" / name) for name in ("vocab.json", "merges.txt")]
    directory = tmp_path / "bart"
    write(directory, 500, {}, **{"config.json": {"model_type": "bart"}})
    ByteLevelBPETokenizer.from_file(*names).save(str(directory / "tokenizer.json"))
    one, other = (read_tokenizers(path)[0] for path in (directory, root / "bart"))
    assert one.fingerprint() == other.fingerprint()
    table = json.loads((directory / "tokenizer.json").read_text())
    table["normalizer"] = {"type": "NFC"}
    (directory / "tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(InputError, match=r"tokenizer\.json must be of byte-level BPE without a normalizer"):
        read_tokenizers(directory)


def edit(name: str, **changes: Any) -> Callable[[Path], None]:
    """Return what changes entries of a table of JSON; None removes one."""

    def change(directory: Path) -> None:
        table = {**json.loads((directory / name).read_text()), **changes}
        table = {key: value for key, value in table.items() if value is not None}
        (directory / name).write_text(json.dumps(table))

    return change


DAMAGES: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: (path / "config.json").unlink(), r"Cannot read .*config\.json"),
    (lambda path: (path / "target.spm").unlink(), r"Cannot read .*target\.spm"),
    (
        lambda path: (path / "source.spm").write_bytes(b"no model"),
        r"source\.spm must be a SentencePiece model.*8 bytes",
    ),
    (lambda path: (path / "vocab.json").write_bytes(b"[]"), r"vocab\.json"),
    (lambda path: (path / "vocab.json").write_bytes(b"{}"), r"the vocabulary must have '<pad>'"),
    (edit("vocab.json", a="b"), r"vocab\.json: the ids .* 0 to \d+, each once\. Received: no token for \d+"),
    (edit("vocab.json", new=1), r"vocab\.json: the ids .* must be 0 to"),
    (
        edit("config.json", vocab_size=5),
        r"config\.json: `vocab_size` must be at least .* Received: 5, without",
    ),
    (edit("config.json", vocab_size=10**9), r"`vocab_size` must be from 1 to 4194304\. Received: 1000000000"),
    (
        edit("tokenizer_config.json", tokenizer_class="BertTokenizer"),
        r"must be one of .*Received: 'BertTokenizer'",
    ),
    (edit("tokenizer_config.json", tokenizer_class=None), r"the tokenizer must be one of .*Received: None"),
    (edit("tokenizer_config.json", added_tokens_decoder=[3]), r"`added_tokens_decoder` must have"),
    (
        edit(
            "tokenizer_config.json", added_tokens_decoder={"1000000000": {"content": "x", "special": False}}
        ),
        r"the id of the added token 'x' must be from 0 to .* Received: 1000000000",
    ),
    (
        edit("tokenizer_config.json", added_tokens_decoder={"90": {"content": 3}}),
        r"tokenizer_config\.json is damaged: `added_tokens.0.content` must be a valid string",
    ),
    (
        edit("tokenizer_config.json", added_tokens_decoder={"7": {"content": "Haus", "special": False}}),
        r"the added token 'Haus' must have a separate id\. Received: 7",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_directories(marian: Path, damage: Callable[[Path], Any], message: str) -> None:
    damage(marian)
    with pytest.raises(InputError, match=message) as caught:
        read_tokenizers(marian)
    assert "\n" not in str(caught.value)


def test_languages_that_are_not_there(marian: Path, root: Path) -> None:
    with pytest.raises(InputError, match=r"`target_language` must be one of deu, fra\. Received: .*'ita'"):
        read_tokenizers(marian, target_language="ita")
    with pytest.raises(InputError, match=r"has no languages of this kind\. Received: .*'eng'"):
        read_tokenizers(marian, source_language="eng")
    with pytest.raises(InputError, match=r"`source_language` must be one of ace_Arab, .*Received: .*'xx'"):
        read_tokenizers(root / "nllb", source_language="xx")
    source, target = read_tokenizers(root / "m2m100", "fr", "cs")
    assert source.tokens(source.tokenize([""])).numpy().tolist() == [[b"__fr__"]]
    assert target.tokens(target.tokenize([""])).numpy().tolist() == [[b"__cs__"]]
    assert source.round_trip(["A dog"]) == ["A dog"]


EXPORTED = """
import sys
import tensorflow as tf
import tensorflow_text
for path in sys.argv[1:]:
    module = tf.saved_model.load(path)
    print(module.join(module.split(tf.constant(["A dog runs, it's", ""]))).numpy().tolist())
assert "keras_nlp" not in sys.modules and "keras_transformer" not in sys.modules
"""


class Exported(tf.Module):
    """What a server answers with."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def split(self, texts: tf.Tensor) -> tf.Tensor:
        return self.tokenizer.padded_ids(texts, 50)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def join(self, token_ids: tf.Tensor) -> tf.Tensor:
        return self.tokenizer.detokenize(token_ids)


@pytest.mark.slow
def test_they_are_exported(root: Path, tmp_path: Path) -> None:
    """Without Keras: operations of TensorFlow and TensorFlow Text alone."""
    families = ("marian", "nllb", "bart", "byt5")
    for family in families:
        tf.saved_model.save(Exported(read_tokenizers(root / family)[0]), str(tmp_path / family))
    command = [sys.executable, "-c", EXPORTED, *(str(tmp_path / family) for family in families)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [str([b"A dog runs, it's", b""])] * len(families)
