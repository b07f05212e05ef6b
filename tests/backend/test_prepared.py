from keras_transformer.backend import kept_while_decoding, prepare, prepared


def test_what_was_prepared_is_kept_until_the_end() -> None:
    owner, calls = object(), []

    def compute() -> int:
        calls.append(1)
        return len(calls)

    with kept_while_decoding():
        prepare(owner, compute)
        assert [prepared(owner, compute), prepared(owner, compute)] == [1, 1]
        assert prepared(calls, compute) == 2
    assert prepared(owner, compute) == 3


def test_nothing_is_kept_where_nobody_asks() -> None:
    prepare(test_nothing_is_kept_where_nobody_asks, lambda: 1)
    assert prepared(test_nothing_is_kept_where_nobody_asks, lambda: 2) == 2
