from keras_transformer.text import tokenizer as special_tokens


def test_ids_are_the_positions_of_the_names() -> None:
    ids = (
        special_tokens.PAD_ID,
        special_tokens.UNKNOWN_ID,
        special_tokens.START_ID,
        special_tokens.END_ID,
    )
    assert ids == (0, 1, 2, 3)
    assert special_tokens.SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[START]", "[END]")
    assert special_tokens.NUM_SPECIAL_TOKENS == 4
