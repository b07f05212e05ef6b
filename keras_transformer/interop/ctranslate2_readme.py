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
        max_input_length={max_source_length},
        max_decoding_length={max_target_length},
        min_decoding_length=0,
        suppress_sequences={banned},
        return_scores=True,
    )
    results[0].hypotheses[0], results[0].scores[0]

So, or with `beam_size=1`, it gives the tokens that `keras_transformer` gives with
`BeamSearch(4, length_penalty=0, exhaustive=True)` or `GreedySearch()`, for answers that end before
`max_decoding_length`. At that length a beam of CTranslate2 may return an answer that is cut off,
where `keras_transformer` returns the best that has ended. Without `exhaustive=True`
`keras_transformer` ends the search a little earlier. Another length penalty is not the same number
in both: CTranslate2 divides by `length ** alpha`, `keras_transformer` by
`((5 + length) / 6) ** alpha`.

Both lengths count the end token. Without them CTranslate2 reads 1024 tokens and writes 256, whatever
the model was trained on.

`keras_transformer` never generates the tokens {tokens}, hence `suppress_sequences`. CTranslate2 gives
their probability to the other tokens, `keras_transformer` to none: scores differ by as much.

Where there are `source_tokenizer` and `target_tokenizer`, they make tokens of texts, and texts of
tokens:

    import keras_transformer as kt

    source = kt.text.load_tokenizer("{name}/source_tokenizer")
    tokens = source.tokens(source.tokenize([text])).numpy()[0]

    target = kt.text.load_tokenizer("{name}/target_tokenizer")
    pieces = target.tokens([range(target.vocabulary_size)]).numpy()[0]
    ids = {{piece.decode(): token_id for token_id, piece in enumerate(pieces)}}
    target.detokenize([[ids[token] for token in results[0].hypotheses[0]]]).numpy()[0].decode()
"""


def ctranslate2_readme(
    name: str, banned: Sequence[str], max_source_length: int, max_target_length: int
) -> str:
    """Write the README of an exported model.

    Args:
        name: of the directory.
        banned: tokens that are never generated.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of an answer, likewise.

    Returns:
        The text, in Markdown.
    """
    tokens = ", ".join(f"`{token}`" for token in banned)
    return _TEMPLATE.format(
        name=name,
        banned=[[token] for token in banned],
        tokens=tokens,
        max_source_length=max_source_length,
        max_target_length=max_target_length,
    )
