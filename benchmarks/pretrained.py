"""Compares pretrained models of real sizes with `transformers`: logits, tokens, time and memory.

    python benchmarks/pretrained.py                       all of them, for hours on two cores
    python benchmarks/pretrained.py opus-mt t5-small
    python benchmarks/pretrained.py --rounding         logits of transformers in float32 and float64
    python benchmarks/pretrained.py --export           from NLLB's directory to a SavedModel above 2 GB

No model is downloaded: `transformers` makes each of the public configuration with random weights, and saves
it. Another process imports it, whose peak memory and seconds are those of the table, and decodes random
sources, greedily and with 4 beams, as `generate` does here. Logits are those of targets with padding.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine
from worker_process import peak_megabytes

PACKAGES = ("keras", "tensorflow", "torch", "transformers")
MAX_LENGTH = 16  # with the start token
BART = {"encoder_layers": 12, "decoder_layers": 12, "d_model": 1024, "init_std": 0.1}
# The classes of `transformers`, and what the public configurations say.
SIZES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "opus-mt": (
        "MarianConfig",
        "MarianMTModel",
        {
            **dict.fromkeys(("encoder_layers", "decoder_layers"), 6),
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 8),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 2048),
            "d_model": 512,
            "max_position_embeddings": 512,
            "activation_function": "swish",
            "scale_embedding": True,
            "init_std": 0.1,
        },
    ),
    "bart-base": (
        "BartConfig",
        "BartForConditionalGeneration",
        {
            **dict.fromkeys(("encoder_layers", "decoder_layers"), 6),
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 12),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 3072),
            "d_model": 768,
            "init_std": 0.1,
        },
    ),
    "t5-small": ("T5Config", "T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
    "flan-t5-small": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "d_ff": 1024,
            "num_layers": 8,
            "num_heads": 6,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "decoder_start_token_id": 0,
        },
    ),
    "flan-t5-base": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "d_model": 768,
            "d_ff": 2048,
            "num_layers": 12,
            "num_heads": 12,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "decoder_start_token_id": 0,
        },
    ),
    "mt5-small": ("MT5Config", "MT5ForConditionalGeneration", {}),
    "umt5-small": ("UMT5Config", "UMT5ForConditionalGeneration", {"vocab_size": 256384}),
    "m2m100_418M": (
        "M2M100Config",
        "M2M100ForConditionalGeneration",
        {**BART, "vocab_size": 128112},
    ),
    "nllb-200-600M": (
        "M2M100Config",
        "M2M100ForConditionalGeneration",
        {**BART, "vocab_size": 256206},
    ),
    "mbart-50": (
        "MBartConfig",
        "MBartForConditionalGeneration",
        {**BART, "vocab_size": 250054, "scale_embedding": True, "decoder_start_token_id": 2},
    ),
    "pegasus-xsum": (
        "PegasusConfig",
        "PegasusForConditionalGeneration",
        {
            **BART,
            **dict.fromkeys(("encoder_layers", "decoder_layers"), 16),
            "vocab_size": 96103,
            "activation_function": "relu",
            "scale_embedding": True,
            "max_position_embeddings": 512,
        },
    ),
}


def original_ids(config: dict[str, Any]) -> np.ndarray:
    """Order a vocabulary as its tokenizer would: padding, unknown, start (none), end, and the others.

    Args:
        config: what `config.json` says.

    Returns:
        for each of our ids the original one, `(v,)`.
    """
    special = [config["pad_token_id"], 3, -1, config["eos_token_id"]]
    size = config["vocab_size"]
    return np.array([*special, *np.setdiff1d(np.arange(size), special)])


def random_batch(size: int, num_sources: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw sources that end, and targets that start, of several lengths, padded with 0.

    Args:
        size: of the vocabulary.
        num_sources: how many rows.

    Returns:
        sources and targets, `(b, 20)` and `(b, 12)`.
    """
    draw = np.random.default_rng(0)
    source, target = draw.integers(4, size, (num_sources, 20)), draw.integers(4, size, (num_sources, 12))
    lengths = draw.integers(5, 21, num_sources)
    for row, length in enumerate(lengths):
        source[row, length - 1 :] = 0
        source[row, length - 1] = 3
        target[row, max(length // 2, 2) :] = 0
    target[:, 0] = 2
    return source, target


def measure_ours(directory: Path, num_sources: int) -> None:
    """Import a model, write its logits and tokens next to it, and print time and memory of the import.

    Args:
        directory: of the model.
        num_sources: how many sources are decoded.
    """
    import keras_transformer as kt

    ids = original_ids(json.loads((directory / "config.json").read_text()))
    tokenizer = kt.text.WhitespaceTokenizer([str(number) for number in ids[4:]])
    tokenizer.original_ids = ids
    start = time.perf_counter()
    model = kt.from_hugging_face(directory, source_tokenizer=tokenizer, target_tokenizer=tokenizer).model
    seconds = time.perf_counter() - start
    memory = 2**20 * peak_megabytes()
    source, target = random_batch(len(ids), num_sources)
    logits = model.predict({"encoder_token_ids": source[:8], "decoder_token_ids": target[:8]}, verbose=0)
    options: dict[str, Any] = {
        "length_normalization": "length",
        "length_penalty": 1.0,
        "special_ids": kt.text.SPECIAL_IDS._replace(unknown=kt.text.SPECIAL_IDS.start),
    }
    searches = {
        "greedy": kt.decoding.GreedySearch(**options),
        "beam": kt.decoding.BeamSearch(4, early_stopping=False, cut_off_competes=True, **options),
    }
    found = {
        name: np.asarray(kt.decoding.generate(model, source, search, MAX_LENGTH - 1).token_ids)[:, 0]
        for name, search in searches.items()
    }
    np.savez(directory / "ours.npz", logits=logits, **found)
    size = sum(int(np.prod(weight.shape)) for weight in model.weights) * 4
    print(json.dumps({"seconds": seconds, "memory": memory, "size": size}))


def random_model(name: str) -> Any:
    """Make a model of `transformers` with random weights.

    Args:
        name: of `SIZES`.

    Returns:
        the model.
    """
    import torch
    import transformers

    config_class, model_class, options = SIZES[name]
    torch.manual_seed(0)
    return getattr(transformers, model_class)(getattr(transformers, config_class)(**options)).eval()


def their_logits(theirs: Any, num_sources: int) -> np.ndarray:
    """Compute logits of targets with padding, eight at most.

    Args:
        theirs: a model of `transformers`.
        num_sources: how many sources are drawn.

    Returns:
        `(b, 12, v)`.
    """
    import torch

    ids, start_id = original_ids(theirs.config.to_dict()), theirs.config.decoder_start_token_id
    source, target = (rows[:8] for rows in random_batch(len(ids), num_sources))
    with torch.no_grad():
        outputs = theirs(
            input_ids=torch.tensor(ids[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(np.where(target == 2, start_id, ids[target])),
        )
    return outputs.logits.numpy()


def rounding(name: str, num_sources: int) -> str:
    """Compare the logits of `transformers` in float32 and float64.

    Args:
        name: of `SIZES`.
        num_sources: how many sources are drawn.

    Returns:
        a row of a table.
    """
    theirs = random_model(name)
    single = their_logits(theirs, num_sources)
    double = their_logits(theirs.double(), num_sources)
    is_token = random_batch(len(original_ids(theirs.config.to_dict())), num_sources)[1][:8] != 0
    return f"| {name} | {np.abs(single - double)[is_token].max():.1e} |"


def compare(name: str, num_sources: int) -> str:
    """Save a model with random weights, import it in another process and compare.

    Args:
        name: of `SIZES`.
        num_sources: how many sources are decoded.

    Returns:
        a row of the table.
    """
    import torch

    theirs = random_model(name)
    config = theirs.config
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        theirs.save_pretrained(directory)
        words = [sys.executable, __file__, "--ours", place, "--sources", str(num_sources)]
        finished = subprocess.run(words, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise RuntimeError(f"{name} could not be imported: {finished.stderr[-2000:]}")
        numbers, ours = json.loads(finished.stdout.splitlines()[-1]), np.load(directory / "ours.npz")
        ids = original_ids(config.to_dict())
    source, target = random_batch(len(ids), num_sources)
    wanted = their_logits(theirs, num_sources)
    is_token, regular = target[:8] != 0, ids >= 0
    difference = np.abs(ours["logits"][is_token][:, regular] - wanted[is_token][:, ids[regular]]).max()
    equal = {}
    back = {int(each): number for number, each in enumerate(ids)}
    for search, beams in (("greedy", 1), ("beam", 4)):
        outputs = theirs.generate(
            torch.tensor(ids[source]),
            attention_mask=torch.tensor(source != 0),
            max_length=MAX_LENGTH,
            num_beams=beams,
            do_sample=False,
            bad_words_ids=[[config.pad_token_id]],
            forced_eos_token_id=None,
        ).numpy()
        rows = [[back[token] for token in row[1:] if back[token]] for row in outputs.tolist()]
        equal[search] = sum(
            row == [token for token in each if token]
            for row, each in zip(rows, ours[search].tolist(), strict=True)
        )
    counts = " | ".join(f"{count} of {num_sources}" for count in equal.values())
    sizes = f"{numbers['size'] / 1e9:.2f} GB | {numbers['seconds']:.0f} s | {numbers['memory'] / 1e9:.2f} GB"
    return f"| {name} | {difference:.1e} | {counts} | {sizes} |"


def measure_chain(directory: Path) -> None:
    """Import a directory, translate and export; print the seconds and bytes of each.

    Args:
        directory: with a tokenizer of NLLB.
    """
    import keras_transformer as kt

    start, rows = time.perf_counter(), {}

    def note(step: str) -> None:
        rows[step] = time.perf_counter() - start

    translator = kt.from_hugging_face(directory, "deu_Latn", "eng_Latn")
    note("import")
    translator.translate(["Ein Hund läuft."])
    note("translate")
    # Checked in another process, which has neither Keras nor this package.
    version = kt.export.export_saved_model(translator, directory / "saved", ["Ein Hund läuft."])
    note("export")
    size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
    print(json.dumps({"seconds": rows, "size": size}))


def memory_of_group(group: int) -> int:
    """Sum up the memory of a process and those that it started; what they share counts once.

    Args:
        group: id of their group.

    Returns:
        bytes.
    """
    return sum(_memory(int(place.name), group) for place in Path("/proc").glob("[0-9]*"))


def _memory(process: int, group: int) -> int:
    try:
        if os.getpgid(process) != group:
            return 0
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
        return 1024 * sum(int(number) for number in re.findall(r"^Pss: +(\d+) kB", rollup, re.MULTILINE))
    except OSError:  # it has ended
        return 0


def export_nllb() -> str:
    """Measure the way from NLLB's directory to a SavedModel.

    Returns:
        a sentence.
    """
    import torch
    import transformers
    from sentencepiece import SentencePieceTrainer

    config_class, model_class, options = SIZES["nllb-200-600M"]
    torch.manual_seed(0)
    theirs = getattr(transformers, model_class)(getattr(transformers, config_class)(**options))
    theirs.generation_config.update(max_length=MAX_LENGTH, num_beams=4)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        theirs.save_pretrained(directory)
        del theirs
        texts = (f"{'Ein Hund läuft.' * number} {number}" for number in range(1, 40))
        # Of the other rows no text has a token.
        SentencePieceTrainer.train(
            sentence_iterator=texts,
            model_prefix=str(directory / "sentencepiece.bpe"),
            vocab_size=60,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        settings = {"tokenizer_class": "NllbTokenizer"}
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        process = subprocess.Popen(
            [sys.executable, __file__, "--chain", place],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory_of_group(process.pid))
            time.sleep(0.2)
        output, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"NLLB could not be exported: {errors[-2000:]}")
    numbers = json.loads(output.splitlines()[-1])
    steps = ", ".join(f"{step} done after {seconds:.0f} s" for step, seconds in numbers["seconds"].items())
    return (
        f"nllb-200-600M: {steps}; a SavedModel of {numbers['size'] / 1e9:.2f} GB; "
        f"all processes together take {peak / 1e9:.1f} GB at most."
    )


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SIZES)}; all if none")
    parser.add_argument("--sources", type=int, default=200, help="sources that are decoded")
    parser.add_argument("--rounding", action="store_true", help="measure their own rounding instead")
    parser.add_argument("--export", action="store_true", help="measure an export instead")
    for own in ("--ours", "--chain"):
        parser.add_argument(own, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - {*SIZES}:
        parser.error(f"a name must be one of {', '.join(SIZES)}. Received: {', '.join(sorted(unknown))}.")
    if arguments.ours:
        measure_ours(arguments.ours, arguments.sources)
        return
    if arguments.chain:
        measure_chain(arguments.chain)
        return
    print(machine(PACKAGES))
    if arguments.export:
        print(export_nllb())
        return
    if arguments.rounding:
        print("| model | float32 and float64 of transformers differ by |")
        print("|---|---:|")
        for name in arguments.names or SIZES:
            print(rounding(name, arguments.sources), flush=True)
        return
    print("| model | logits differ by | greedy equal | beam 4 equal | weights | import | peak memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in arguments.names or SIZES:
        print(compare(name, arguments.sources), flush=True)


if __name__ == "__main__":
    main()
