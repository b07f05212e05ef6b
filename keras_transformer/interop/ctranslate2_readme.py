"""The README inside an exported CTranslate2 directory."""

from collections.abc import Sequence

_TEMPLATE = """# {name}

A CTranslate2 model: lists of tokens in, lists of tokens out. The end token of a source is added
by CTranslate2. In Python:

    import ctranslate2

    translator = ctranslate2.Translator("{name}", intra_threads=2)
    results = translator.translate_batch(
        [tokens],
        beam_size=4,
        length_penalty=0,
        min_decoding_length=0,
        suppress_sequences={banned},
        return_scores=True,
    )
    results[0].hypotheses[0], results[0].scores[0]

With `length_penalty=0` and `GreedySearch()` or `BeamSearch(4, length_penalty=0)` it gives the tokens
that `keras_transformer` gives. Another length penalty is not the same number in both: CTranslate2
divides by `length ** alpha`, `keras_transformer` by `((5 + length) / 6) ** alpha`.

`keras_transformer` never generates the tokens {tokens}, hence `suppress_sequences`. CTranslate2 gives
their probability to the other tokens, `keras_transformer` to none: scores differ by as much.

Where there are `source_tokenizer` and `target_tokenizer`, they make tokens of texts:

    import keras_transformer as kt

    tokenizer = kt.text.load_tokenizer("{name}/source_tokenizer")
    tokens = tokenizer.tokens(tokenizer.tokenize([text])).numpy()[0]
"""


def ctranslate2_readme(name: str, banned: Sequence[str]) -> str:
    """Write the README of an exported model.

    Args:
        name: of the directory.
        banned: tokens that are never generated.

    Returns:
        The text, in Markdown.
    """
    tokens = ", ".join(f"`{token}`" for token in banned)
    return _TEMPLATE.format(name=name, banned=[[token] for token in banned], tokens=tokens)
