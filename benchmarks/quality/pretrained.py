"""Compares small trained models with `transformers`, from their texts to the texts of the SavedModel.

    python -m benchmarks.quality.pretrained DATA               all families, some minutes each
    python -m benchmarks.quality.pretrained DATA marian t5

DATA is the directory of Multi30k with `train.en.gz`, `train.de.gz` and `val.en.gz`. torch trains a model of
each family: unlike outputs of random weights, its outputs differ and end by themselves. We import its
directory. For sources of the validation set the table counts equal token ids, output tokens, scores and
texts, and equal texts of the SavedModel in a process without Keras and this package.
"""

import argparse
import dataclasses
import gzip
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import conditions, table

HEADS = (
    "model",
    "search",
    "same source ids",
    "same tokens + ties",
    "scores differ by",
    "same texts",
    "texts of the SavedModel",
    "ended",
    "different",
)
VOCABULARY = 2000
NUM_PAIRS = 20000
MAX_LENGTH = 40  # with the start token
TIE = 1e-4  # two outputs with scores this close may come in either order
SIZES = {
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 256),
    "d_model": 96,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "scale_embedding": True,
}
T5_SIZES = {"d_model": 96, "d_kv": 24, "d_ff": 256, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
SERVE = """
import importlib.util, pathlib, pickle, sys
sys.modules.update(dict.fromkeys(("keras", "tf_keras", "keras_transformer")))
import tensorflow as tf
package = importlib.util.find_spec("tensorflow_text")
for library in pathlib.Path(package.origin).parent.glob("python/ops/*.so"):
    tf.load_op_library(str(library))
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = pickle.load(sys.stdin.buffer)
outputs = [serve(text=tf.constant([text]))["output"].numpy()[0].decode() for text in texts]
sys.stdout.buffer.write(pickle.dumps(outputs))
"""


def read(path: Path, count: int) -> list[str]:
    """Read the first lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [next(file).rstrip("\n") for _ in range(count)]


def sentencepiece(path: Path, texts: list[str], **ids: int) -> list[str]:
    """Train a SentencePiece model with the ids of special tokens; return its pieces."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    options = {"vocab_size": VOCABULARY, "minloglevel": 2, "num_threads": 1, **ids}
    with path.open("wb") as file:
        SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=file, **options)
    model = SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(len(model))]


def write(directory: Path, **tables: object) -> None:
    """Write tables as JSON by the names of the files."""
    for name, content in tables.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def make_marian(directory: Path, texts: list[str]) -> Any:
    """Write a tokenizer of Marian and return a model for it."""
    import transformers

    pieces = sentencepiece(directory / "source.spm", texts)
    (directory / "target.spm").write_bytes((directory / "source.spm").read_bytes())
    names = ["</s>", "<unk>", *pieces[3:], "<pad>"]
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}
    write(directory, vocab={name: number for number, name in enumerate(names)}, tokenizer_config=settings)
    sizes = {**SIZES, **dict.fromkeys(("vocab_size", "decoder_vocab_size"), len(names))}
    pad = dict.fromkeys(("pad_token_id", "decoder_start_token_id"), len(names) - 1)
    end = dict.fromkeys(("eos_token_id", "forced_eos_token_id"), 0)
    config = transformers.MarianConfig(**sizes, **pad, **end, activation_function="swish")
    return transformers.MarianMTModel(config)


def make_bart(directory: Path, texts: list[str]) -> Any:
    """Write a tokenizer of BART and return a model for it."""
    import tokenizers
    import transformers

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(texts, vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(directory))
    write(directory, tokenizer_config={"tokenizer_class": "BartTokenizer"})
    config = transformers.BartConfig(**SIZES, vocab_size=tokenizer.get_vocab_size(), init_std=0.05)
    return transformers.BartForConditionalGeneration(config)


def make_t5(directory: Path, texts: list[str]) -> Any:
    """Write a tokenizer of T5 and return a model for it."""
    import transformers

    pieces = sentencepiece(directory / "spiece.model", texts, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(directory, tokenizer_config={"tokenizer_class": "T5Tokenizer", "extra_ids": 4})
    config = transformers.T5Config(**T5_SIZES, vocab_size=len(pieces) + 4, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


FAMILIES: dict[str, tuple[Callable[[Path, list[str]], Any], str]] = {
    "marian": (make_marian, "MarianTokenizer"),
    "bart": (make_bart, "BartTokenizer"),
    "t5": (make_t5, "T5Tokenizer"),
}


def train(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], steps: int) -> None:
    """Train a model of `transformers` on 64 pairs a step."""
    import torch

    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    model.train()
    for _ in range(steps):
        sources, targets = zip(*(pairs[each] for each in draw.integers(len(pairs), size=64)), strict=True)
        options = {"padding": True, "truncation": True, "max_length": 60, "return_tensors": "pt"}
        batch = tokenizer(list(sources), text_target=list(targets), **options)
        labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def make(name: str, data: Path, steps: int, directory: Path) -> tuple[Any, Any]:
    """Train a model of a family and save it; return it and its tokenizer."""
    import torch
    import transformers

    directory.mkdir()
    pairs = list(zip(*(read(data / f"train.{side}.gz", NUM_PAIRS) for side in ("en", "de")), strict=True))
    torch.manual_seed(0)
    build, tokenizer_class = FAMILIES[name]
    model = build(directory, [text for pair in pairs[: NUM_PAIRS // 2] for text in pair])
    tokenizer = getattr(transformers, tokenizer_class).from_pretrained(directory)
    train(model, tokenizer, pairs, steps)
    bans = [[model.config.pad_token_id]]
    model.generation_config.update(max_length=MAX_LENGTH, num_beams=4, bad_words_ids=bans)
    model.save_pretrained(directory)
    return model, tokenizer


def their_outputs(model: Any, inputs: Any, pad: int, beams: int) -> tuple[list[list[int]], np.ndarray]:
    """Generate with `transformers`; return tokens, without start and padding, and scores."""
    import torch

    with torch.no_grad():
        found = model.generate(
            **inputs,
            num_beams=beams,
            do_sample=False,
            max_length=MAX_LENGTH,
            bad_words_ids=[[pad]],
            return_dict_in_generate=True,
            output_logits=True,
            output_scores=True,
        )
        rows = found.sequences[:, 1:]
        if beams > 1:
            scores = found.sequences_scores.numpy()
        else:
            # As with beams: a banned token keeps its probability, and a forced one is certain.
            taken = model.compute_transition_scores(found.sequences, found.logits, normalize_logits=True)
            is_free = torch.stack([step.isfinite().sum(1) > 1 for step in found.scores], dim=1)
            taken, is_token = torch.where(is_free, taken, 0.0), rows != pad
            scores = torch.where(is_token, taken, 0.0).sum(1).numpy() / is_token.sum(1).numpy()
    # With beams T5 pads with the end token.
    end = model.config.eos_token_id
    cut = [row[: row.index(end) + 1] if end in row else row for row in rows.tolist()]
    return [[token for token in row if token != pad] for row in cut], scores


def served_texts(version: Path, sources: list[str]) -> list[str]:
    """Translate with a SavedModel in a process without Keras and this package."""
    command, content = [sys.executable, "-c", SERVE, str(version)], pickle.dumps(sources)
    served = subprocess.run(command, input=content, capture_output=True, check=False)
    if served.returncode:
        raise RuntimeError(f"The SavedModel does not answer: {served.stderr.decode()[-2000:]}")
    outputs: list[str] = pickle.loads(served.stdout)
    return outputs


def compare(name: str, model: Any, tokenizer: Any, sources: list[str], beams: list[int], place: Path) -> None:
    """Import a model, and print a row for each number of beams; 1 is greedy search."""
    import keras_transformer as kt

    end, pad = model.config.eos_token_id, model.config.pad_token_id
    encoded = tokenizer(sources, padding=True, return_tensors="pt")
    inputs = {each: encoded[each] for each in ("input_ids", "attention_mask")}
    translator = kt.from_hugging_face(place / name)
    padded = np.asarray(translator.source_tokenizer.padded_ids(sources, translator.max_source_length))
    original, target_ids = (
        each.original_ids for each in (translator.source_tokenizer, translator.target_tokenizer)
    )
    same_ids = sum(
        original[row[row != 0]].tolist() == theirs[mask == 1].tolist()
        for row, theirs, mask in zip(padded, *(each.numpy() for each in inputs.values()), strict=True)
    )
    search = translator.search
    greedy = kt.decoding.GreedySearch(
        length_penalty=1.0,
        length_normalization="length",
        constraints=search.constraints,
        special_ids=search.special_ids,
    )
    for number in beams:
        translator.search = greedy if number == 1 else dataclasses.replace(search, beam_size=number)
        found = translator.generate(padded)
        ours = [target_ids[row[row != 0]].tolist() for row in np.asarray(found.token_ids)[:, 0]]
        theirs, wanted = their_outputs(model, inputs, pad, number)
        is_equal = np.array([one == other for one, other in zip(ours, theirs, strict=True)])
        apart = np.abs(np.asarray(found.scores)[:, 0] - wanted)
        texts = translator.translate(sources)
        wanted_texts = [text.strip(" ") for text in tokenizer.batch_decode(theirs, skip_special_tokens=True)]
        version = kt.export.export_saved_model(translator, place / f"{name}_{number}", sources[:8])
        row = (
            name,
            f"beam {number}" if number > 1 else "greedy",
            same_ids,
            f"{is_equal.sum()} + {(apart[~is_equal] <= TIE).sum()}",
            f"{apart.max():.1e}",
            sum(map(str.__eq__, texts, wanted_texts)),
            sum(map(str.__eq__, texts, served_texts(version, sources))),
            sum(row[-1] == end for row in ours),
            len({tuple(row) for row in ours}),
        )
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def main() -> None:
    """Make the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="directory of Multi30k")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"families, of {', '.join(FAMILIES)}; all if absent"
    )
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    parser.add_argument("--sources", type=int, default=200, help="sources that are compared")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 5], help="beams of each search")
    options = parser.parse_args()
    if unknown := {*options.names} - {*FAMILIES}:
        parser.error(f"a name must be one of {', '.join(FAMILIES)}. Received: {', '.join(sorted(unknown))}.")
    print(f"{options.sources} sources\n\n{table(HEADS)}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        sources = read(options.data / "val.en.gz", options.sources)
        for name in options.names or FAMILIES:
            model, tokenizer = make(name, options.data, options.steps, place / name)
            compare(name, model, tokenizer, sources, options.beams, place)
    print(f"\n{conditions('keras', 'tensorflow', 'torch', 'transformers')}")


if __name__ == "__main__":
    main()
