"""Fine-tune a pretrained Hugging Face translation model on your own pairs, and export it for serving.

python examples/fine_tune_pretrained.py Helsinki-NLP/opus-mt-de-en pairs.tsv runs/de_en saved_models/de_en

The model is a local directory, or a name on the Hub, which needs the extra `hugging_face`. Each line of
`pairs.tsv` is a source, a tab and its target. A tenth of the pairs is held out; the epoch with the lowest
loss on them is kept.
"""

import argparse

import keras_transformer as kt
from keras_transformer.data import read_pairs, split_pairs, translation_dataset
from keras_transformer.training import compile_model, fit


def main() -> None:
    """Read the command line, fine-tune, export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("model", "pairs", "directory", "saved_model"):
        parser.add_argument(name)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=3e-5)
    parser.add_argument("--tokens-per-batch", type=int, default=2048)
    for side in ("source", "target"):
        parser.add_argument(f"--{side}-language", help="For a multilingual model.")
    arguments = parser.parse_args()

    translator = kt.from_hugging_face(arguments.model, arguments.source_language, arguments.target_language)
    training, validation = split_pairs(read_pairs(arguments.pairs), validation_fraction=0.1)
    sources = [source for source, _ in validation]
    print("before:", translator.translate(sources[:3]))

    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    datasets = [
        translation_dataset(
            pairs,
            *tokenizers,
            tokens_per_batch=arguments.tokens_per_batch,
            max_source_length=translator.max_source_length,
            max_target_length=translator.max_target_length,
            shuffle=pairs is training,
        )
        for pairs in (training, validation)
    ]
    compile_model(translator.model, arguments.learning_rate)
    first = translator.model.evaluate(datasets[1], return_dict=True, verbose=0)["loss"]
    fit(translator.model, *datasets, directory=arguments.directory, epochs=arguments.epochs, verbose=2)
    # The model now has the weights of the best epoch; the translator keeps its original search.
    last = translator.model.evaluate(datasets[1], return_dict=True, verbose=0)["loss"]
    print(f"loss of the held-out pairs: {first:.3f} before, {last:.3f} after")
    assert last < first
    print("after:", translator.translate(sources[:3]))
    translator.save(arguments.directory)
    print(kt.export.export_saved_model(translator, arguments.saved_model, sources[:8]))


if __name__ == "__main__":
    main()
