"""Compares small trained models with `transformers`, from their texts to those of the SavedModel.

    python benchmarks/pretrained_trained.py DATA               all of them, for some minutes each
    python benchmarks/pretrained_trained.py DATA marian t5

DATA is the directory of Multi30k, with `train.en.gz`, `train.de.gz` and `val.en.gz`. torch trains a model of
each family for some hundred steps, so that outputs differ and end by themselves, as those of random weights
do not. Its directory is imported; sources of the validation set get token ids, outputs and scores of both,
and texts of the SavedModel, in a process that has neither Keras nor this package.

The Marian model is then trained on further pairs for an epoch here, resumed for another, and exported.
"""

import argparse
import dataclasses
import gzip
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

PACKAGES = ("keras", "tensorflow", "torch", "transformers")
VOCABULARY = 2000
TRAINED = 20000  # pairs that torch trains on
MAX_LENGTH = 40  # with the start token
TIE = 1e-4  # scores of two outputs that are no further apart may come in either order
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
# Answers of a SavedModel, by TensorFlow alone.
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
    """Read the first lines of a compressed file.

    Args:
        path: of the file.
        count: how many lines.

    Returns:
        the lines.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [next(file).rstrip("\n") for _ in range(count)]


def sentencepiece(path: Path, texts: list[str], **ids: int) -> list[str]:
    """Train a SentencePiece model.

    Args:
        path: of the model.
        texts: what it is trained on.
        **ids: of special tokens.

    Returns:
        its pieces.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    with path.open("wb") as file:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=file,
            vocab_size=VOCABULARY,
            minloglevel=2,
            num_threads=1,
            **ids,
        )
    model = SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(len(model))]


def write(directory: Path, **tables: object) -> None:
    """Write tables as JSON.

    Args:
        directory: of the files.
        **tables: by the names of the files.
    """
    for name, table in tables.items():
        (directory / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")


def make_marian(directory: Path, texts: list[str]) -> Any:
    """Write a tokenizer of Marian and make the model that it fits.

    Args:
        directory: of the tokenizer.
        texts: what it is trained on.

    Returns:
        the model.
    """
    import transformers

    pieces = sentencepiece(directory / "source.spm", texts)
    (directory / "target.spm").write_bytes((directory / "source.spm").read_bytes())
    names = ["</s>", "<unk>", *pieces[3:], "<pad>"]
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}
    write(directory, vocab={name: number for number, name in enumerate(names)}, tokenizer_config=settings)
    pad = len(names) - 1
    special = {
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    }
    config = transformers.MarianConfig(
        **SIZES, **special, vocab_size=len(names), decoder_vocab_size=len(names), activation_function="swish"
    )
    return transformers.MarianMTModel(config)


def make_bart(directory: Path, texts: list[str]) -> Any:
    """Write a tokenizer of BART and make the model that it fits.

    Args:
        directory: of the tokenizer.
        texts: what it is trained on.

    Returns:
        the model.
    """
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
    """Write a tokenizer of T5 and make the model that it fits.

    Args:
        directory: of the tokenizer.
        texts: what it is trained on.

    Returns:
        the model.
    """
    import transformers

    pieces = sentencepiece(directory / "spiece.model", texts, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(directory, tokenizer_config={"tokenizer_class": "T5Tokenizer", "extra_ids": 4})
    config = transformers.T5Config(**T5_SIZES, vocab_size=len(pieces) + 4, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


FAMILIES: dict[str, Callable[[Path, list[str]], Any]] = {
    "marian": make_marian,
    "bart": make_bart,
    "t5": make_t5,
}


def train(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], steps: int) -> float:
    """Train a model of `transformers`.

    Args:
        model: the model.
        tokenizer: that of its directory.
        pairs: sources and targets.
        steps: of 64 pairs each.

    Returns:
        the loss of the last steps.
    """
    import torch

    torch.manual_seed(0)
    draw, losses = np.random.default_rng(0), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    model.train()
    for _ in range(steps):
        chosen = [pairs[number] for number in draw.integers(len(pairs), size=64)]
        sources, targets = zip(*chosen, strict=True)
        options = {"padding": True, "truncation": True, "max_length": 60, "return_tensors": "pt"}
        batch = tokenizer(list(sources), text_target=list(targets), **options)
        labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return float(np.mean(losses[-20:]))


def their_outputs(model: Any, inputs: Any, pad: int, beams: int) -> tuple[list[list[int]], np.ndarray]:
    """Generate.

    Args:
        model: the model.
        inputs: token ids and mask, as tensors.
        pad: id of padding.
        beams: 1 for greedy.

    Returns:
        the tokens, without start and padding, and their scores.
    """
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
            # As beams have it: what is banned keeps its share, and a token that is forced is certain.
            taken = model.compute_transition_scores(found.sequences, found.logits, normalize_logits=True)
            is_free = torch.stack([step.isfinite().sum(1) > 1 for step in found.scores], dim=1)
            taken, is_token = torch.where(is_free, taken, 0.0), rows != pad
            scores = torch.where(is_token, taken, 0.0).sum(1).numpy() / is_token.sum(1).numpy()
    # Beams fill up with the end token where padding is 0.
    end = model.config.eos_token_id
    cut = [row[: row.index(end) + 1] if end in row else row for row in rows.tolist()]
    return [[token for token in row if token != pad] for row in cut], scores


def load(name: str, directory: Path) -> tuple[Any, Any]:
    """Load a model and its tokenizer with `transformers`.

    Args:
        name: of `FAMILIES`.
        directory: of the model.

    Returns:
        both.
    """
    import transformers

    prefix = {"marian": "Marian", "bart": "Bart", "t5": "T5"}[name]
    tokenizer = getattr(transformers, f"{prefix}Tokenizer").from_pretrained(directory)
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval(), tokenizer


def make(name: str, data: Path, steps: int, directory: Path) -> None:
    """Train a model, and save it with its tokenizer.

    Args:
        name: of `FAMILIES`.
        data: the directory of Multi30k.
        steps: of training.
        directory: of the model.
    """
    import torch
    import transformers

    directory.mkdir()
    pairs = list(zip(*(read(data / f"train.{side}.gz", TRAINED) for side in ("en", "de")), strict=True))
    torch.manual_seed(0)
    model = FAMILIES[name](directory, [text for pair in pairs[:10000] for text in pair])
    prefix = {"marian": "Marian", "bart": "Bart", "t5": "T5"}[name]
    tokenizer = getattr(transformers, f"{prefix}Tokenizer").from_pretrained(directory)
    start = time.perf_counter()
    loss = train(model, tokenizer, pairs, steps)
    bans = [[model.config.pad_token_id]]
    model.generation_config.update(max_length=MAX_LENGTH, num_beams=4, bad_words_ids=bans)
    model.save_pretrained(directory)
    write(directory, training={"loss": loss, "seconds": time.perf_counter() - start})


def compare(name: str, sources: list[str], numbers_of_beams: list[int], directory: Path, place: Path) -> None:
    """Import a model, compare, and print rows of the table.

    Args:
        name: of `FAMILIES`.
        sources: of the comparison.
        numbers_of_beams: of each search; 1 for greedy.
        directory: of the model.
        place: a directory for other files.
    """
    import keras_transformer as kt

    model, tokenizer = load(name, directory)
    pad = model.config.pad_token_id
    note = json.loads((directory / "training.json").read_text())
    inputs = tokenizer(sources, padding=True, return_tensors="pt")
    inputs = {each: inputs[each] for each in ("input_ids", "attention_mask")}
    translator = kt.from_hugging_face(directory)
    ids, original = translator.token_ids(sources), translator.source_tokenizer.original_ids
    same_ids = sum(
        original[row[row != 0]].tolist() == theirs[mask == 1].tolist()
        for row, theirs, mask in zip(ids, *(each.numpy() for each in inputs.values()), strict=True)
    )
    search = translator.search
    target_ids = translator.target_tokenizer.original_ids
    greedy = kt.decoding.GreedySearch(
        length_penalty=1.0,
        length_normalization="length",
        constraints=search.constraints,
        special_ids=search.special_ids,
    )
    for beams in numbers_of_beams:
        label = f"beam {beams}" if beams > 1 else "greedy"
        translator.search = greedy if beams == 1 else dataclasses.replace(search, beam_size=beams)
        found = translator.generate(ids)
        ours = [target_ids[row[row != 0]].tolist() for row in np.asarray(found.token_ids)[:, 0]]
        scores = np.asarray(found.scores)[:, 0]
        theirs, wanted = their_outputs(model, inputs, pad, beams)
        is_equal = np.array([one == other for one, other in zip(ours, theirs, strict=True)])
        apart = np.abs(scores - wanted)
        ties = int((apart[~is_equal] <= TIE).sum())
        ended = sum(row[-1] == model.config.eos_token_id for row in ours)
        texts = translator.translate(sources)
        same_texts = sum(
            text == other.strip(" ")
            for text, other in zip(
                texts, tokenizer.batch_decode(theirs, skip_special_tokens=True), strict=True
            )
        )
        version = kt.export.export_saved_model(translator, place / f"{name}_{beams}", sources[:8])
        served = subprocess.run(
            [sys.executable, "-c", SERVE, str(version)],
            input=pickle.dumps(sources),
            capture_output=True,
            check=False,
        )
        if served.returncode:
            raise RuntimeError(f"The SavedModel does not answer: {served.stderr.decode()[-2000:]}")
        same_served = sum(one == other for one, other in zip(pickle.loads(served.stdout), texts, strict=True))
        different = len({tuple(row) for row in ours})
        print(
            f"| {name} | {label} | {same_ids} | {int(is_equal.sum())} + {ties} | {apart.max():.1e} | "
            f"{same_texts} | {same_served} | {ended} | {different} | "
            f"{note['loss']:.2f} after {note['seconds']:.0f} s |",
            flush=True,
        )


def fine_tune(directory: Path, data: Path, place: Path, num_pairs: int, num_sources: int) -> str:
    """Train an imported model for an epoch, resume for another, and export it.

    Args:
        directory: of the model.
        data: the directory of Multi30k.
        place: a directory for the run.
        num_pairs: of training.
        num_sources: that are held out.

    Returns:
        a sentence.
    """
    import keras_transformer as kt

    kt.from_hugging_face(directory).save(place / "imported")
    # Behind those that the model was trained on.
    last, options = TRAINED + num_pairs, {}
    parts = {
        "": (TRAINED, last),
        "validation_": (last, last + 300),
        "test_": (last + 300, last + 300 + num_sources),
    }
    for part, (first, end) in parts.items():
        for side, language in (("source", "en"), ("target", "de")):
            path = place / f"{part}{side}.txt"
            lines = read(data / f"train.{language}.gz", end)[first:]
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            options[f"{part}{side}"] = str(path)
    sources, targets = (
        Path(options[f"test_{side}"]).read_text("utf-8").splitlines() for side in ("source", "target")
    )

    def loss(translator: kt.Translator) -> str:
        return f"{-np.mean([each.score for each in translator.score(sources, targets)]):.3f}"

    losses = [loss(kt.Translator.load(place / "imported"))]
    options |= {"name": "tuned", "run_directory": str(place / "runs")}
    config = kt.runs.RunConfig(name="tuned").override(
        **options,
        initial_model=str(place / "imported"),
        peak_learning_rate=3e-4,
        label_smoothing=0.0,  # as torch has trained it, and as the loss is measured
        epochs=1,
    )
    for epochs in (1, 2):
        run = kt.Run(config.override(epochs=epochs))
        run.train(resume=epochs > 1, verbose=0)
        losses.append(loss(run.translator))
    served = kt.export.ServedModel(run.export(place / "tuned"))
    same = sum(map(str.__eq__, served.translate(sources), run.translator.translate(sources)))
    return (
        f"Fine-tuned on {num_pairs} other pairs: the loss of {len(sources)} held-out pairs is {losses[0]}, "
        f"{losses[1]} after an epoch and {losses[2]} after another, resumed; its export gives {same} of "
        f"{len(sources)} texts."
    )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="directory of Multi30k")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FAMILIES)}; all if none")
    parser.add_argument("--steps", type=int, default=600, help="of training, 64 pairs each")
    parser.add_argument("--sources", type=int, default=200, help="sources that are compared")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 5], help="of each search")
    parser.add_argument("--models", type=Path, help="directory that keeps the models, or has them already")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of the fine-tuning")
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - {*FAMILIES}:
        parser.error(f"a name must be one of {', '.join(FAMILIES)}. Received: {', '.join(sorted(unknown))}.")
    print(machine(PACKAGES))
    print(f"{arguments.sources} sources")
    print(
        "| model | search | same source ids | same tokens + ties | scores differ by | same texts | "
        "texts of the SavedModel | ended | different | loss |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        models = arguments.models or place
        for name in arguments.names or FAMILIES:
            if not (models / name).is_dir():
                make(name, arguments.data, arguments.steps, models / name)
            sources = read(arguments.data / "val.en.gz", arguments.sources)
            compare(name, sources, arguments.beams, models / name, place)
        if (models / "marian").is_dir():
            print(fine_tune(models / "marian", arguments.data, place, arguments.pairs, arguments.sources))


if __name__ == "__main__":
    main()
