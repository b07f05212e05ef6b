"""Translation: an encoder-decoder model, its tokenizers and a search."""

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import numpy as np
from keras import ops

from keras_transformer._arguments import check_choice
from keras_transformer.decoding import BeamSearch, Search, SearchResult, target_attention
from keras_transformer.models import Ensemble, Transformer
from keras_transformer.tasks.long_texts import WhichTexts
from keras_transformer.tasks.readers import _check_reader, _check_vocabulary, _default_reader
from keras_transformer.tasks.results import Alignment, Translation
from keras_transformer.tasks.search_task import SearchTask
from keras_transformer.tasks.token_functions import _TokenFunctions
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import SPECIAL_IDS, Tensor, Value


class Translator(SearchTask):
    """Translator of texts or frames: a trained encoder-decoder model, its tokenizers and a search.

    `translate` splits a text of more than `max_source_length` tokens at the ends of sentences and at line
    breaks. If a sentence is still too long, it is split between words. The translations are
    joined with the white space that the text has between the pieces. The score of the text is the mean of the
    scores of the pieces, weighted by their numbers of output tokens. `n_best`, `score`, `align` and
    `stream` truncate long texts.

    If a call truncates a source, or `score` truncates a target, it warns once with a `TruncationWarning`.

    An empty source, or one of white space, has an empty output. You may assign `search`, `split_texts` and
    the limits; the next call uses them.

    Args:
        model: A `Transformer` or an `Ensemble` with weights.
        source_tokenizer: Tokenizer of the source language. For frames, the `data.FrameNormalizer` of the
            training data, or None if it was not normalized. For Whisper, the first object that
            `pretrained.read_tokenizers` returns; it computes log-mel features.
        target_tokenizer: Tokenizer of the target language.
        search: Search strategy. Defaults to `BeamSearch(4)`.
        max_source_length: Maximum number of source tokens, including the end token. Limited to the model's
            number of learned positions, if any. Defaults to 256.
        max_target_length: Maximum number of output tokens, limited in the same way. Defaults to 256.
        split_texts: Which texts `translate` splits: "long" for those of more than `max_source_length` tokens,
            "all" for texts of several sentences, "none" to truncate long texts. Frames and audio are always
            truncated. Defaults to "long".

    Raises:
        TypeError: If a tokenizer is missing.
        ValueError: If a vocabulary does not have the model's size, a limit is below 2, or `split_texts` is
            unknown.

    Example:
        ```python
        translator = Translator(model, source_tokenizer, target_tokenizer, search=BeamSearch(4))
        translator.translate(["Ein Hund läuft."])

        translator = Translator(frame_model, normalizer, target_tokenizer)
        translator.translate(frames)  # (s, w): one source
        ```
    """

    options_file: ClassVar[str] = "translator.json"
    tokenizer_names: ClassVar[tuple[str, ...]] = ("source_tokenizer", "target_tokenizer")
    limit_names: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    option_types: ClassVar[dict[str, Any]] = {**SearchTask.option_types, "split_texts": WhichTexts | None}
    about_outputs: ClassVar[str] = (
        "A score is a log-probability, divided by the length penalty of the search. An empty source, or\n"
        "one of white space, has an empty output and the score 0."
    )

    def __init__(
        self,
        model: Transformer | Ensemble,
        source_tokenizer: Reader | None = None,
        target_tokenizer: Tokenizer | None = None,
        *,
        search: Search | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
        split_texts: WhichTexts = "long",
    ) -> None:
        reader = _default_reader(model) if source_tokenizer is None else source_tokenizer
        if reader is None or target_tokenizer is None:
            raise TypeError(
                "A tokenizer of each side must be given; a model of frames needs none for its source. "
                f"Received: source_tokenizer={source_tokenizer}, target_tokenizer={target_tokenizer}."
            )
        reads_frames = isinstance(reader, Reader) and not isinstance(reader, Tokenizer)
        sides = ("target",) if reads_frames else ("source", "target")
        if not all(hasattr(model, f"{side}_embedding") for side in sides):
            raise ValueError(
                "`model` must write token ids and read the kind of source that `source_tokenizer` encodes: "
                "texts for a tokenizer, frames for None or a `data.FrameNormalizer`. "
                "`decoding.generate` decodes other models. "
                f"Received: {type(model).__name__} {getattr(model, 'name', model)!r:.200}."
            )
        _check_reader("source_tokenizer", reader, model)
        _check_vocabulary("target_tokenizer", target_tokenizer, model.target_embedding.vocabulary_size)
        super().__init__(model, reader, target_tokenizer, BeamSearch(4) if search is None else search)
        self.max_source_length, self.max_target_length = max_source_length, max_target_length
        self.split_texts = split_texts

    @property
    def source_tokenizer(self) -> Reader:
        """Reader of the sources."""
        return self.reader

    @property
    def split_texts(self) -> WhichTexts:
        """Which texts are split."""
        return self._split_texts

    @split_texts.setter
    def split_texts(self, split_texts: WhichTexts) -> None:
        """Set which texts are split."""
        check_choice(get_args(WhichTexts), split_texts=split_texts)
        self._split_texts = split_texts

    @property
    def _splitting(self) -> WhichTexts:
        return self.split_texts if isinstance(self.reader, Tokenizer) else "none"

    @property
    def token_functions(self) -> _TokenFunctions:
        """Computations on token ids with the current model and search, not compiled."""
        # A multilingual tokenizer may already put the language token before a target.
        prefix_ids = tuple(self.target_tokenizer.prefix_ids)
        targets_have_first = self.search.constraints.first_token_ids == prefix_ids
        return _TokenFunctions(self.model, self.search, self.max_target_length, targets_have_first)

    def generate(
        self, encoder_token_ids: Tensor, source_numbers: Sequence[int] | None = None
    ) -> SearchResult:
        """Return the outputs of a batch as token ids.

        Args:
            encoder_token_ids: Integers `(b, s)`, with end tokens and padding.
            source_numbers: Integers `(b,)` from which `SampleSearch` derives random numbers. Defaults to 0 to
                `b - 1`.

        Returns:
            A `SearchResult`: token ids `(b, n, T)` and scores `(b, n)`, best first.
        """
        numbers = range(len(encoder_token_ids)) if source_numbers is None else source_numbers
        return self.functions.tokens.find((encoder_token_ids,), numbers)

    def attention_maps(
        self, text: Value, output: Translation | None = None
    ) -> tuple[Alignment, dict[str, np.ndarray]]:
        """Return an output with the attention of every layer and head.

        Args:
            text: The source. It is truncated if it is too long; an empty source is only its end token.
            output: The output. Defaults to the translation of `text`.

        Returns:
            The alignment, as from `align`, and the maps of `model.attention_scores`: float32 `(h, t, s)`,
            with keys such as `decoder/layer_1/cross_attention`. Each row of a decoder map belongs to the
            output token that the decoder predicts at this position.
        """
        batch = self.reader.batch(self.reader.check("text", [text]))
        inputs, _ = self.reader.read(batch, self.max_source_length)
        values, *mask = (ops.convert_to_tensor(np.asarray(each)) for each in inputs)
        if output is None:
            [[output, *_]] = self.n_best([text])  # truncates a long text, as `inputs` does
        # An output that the search cut off has no end token.
        limit = self.max_target_length
        target_ids = self.target_tokenizer.padded_ids([output.text], limit + 1).numpy()[:, :limit]
        found = target_attention(self.model, values, target_ids, *mask, special_ids=SPECIAL_IDS)
        # (1, h, t, s) -> (h, t, s)
        maps = {name: ops.convert_to_numpy(each)[0].astype("float32") for name, each in found.items()}
        last = [name for name in maps if name.endswith("/cross_attention")][-1]
        names = self.source_names(inputs), self.target_tokenizer.tokens(target_ids)
        read, written = (tuple(name.decode("utf-8") for name in each.numpy()[0]) for each in names)
        return Alignment(output.text, output.score, read, written, maps[last].mean(axis=0)), maps
