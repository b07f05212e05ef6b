"""Strings in, strings out: an encoder-decoder, its tokenizers and a search."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from keras import ops

from keras_transformer._arguments import check_number
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.hugging_face import _read_hugging_face, _write_hugging_face
from keras_transformer.decoding.model_translator import _check_vocabulary, _ModelTranslator
from keras_transformer.decoding.scoring import _layer_name, _teacher_forcing, score_targets
from keras_transformer.decoding.search import Search, SearchResult
from keras_transformer.decoding.text_translator import Alignment
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import AUDIO, SPECIAL_IDS, TEXT, Source, Tensor

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer


def _check_features(tokenizer: "Tokenizer", config: object) -> None:
    width = getattr(config, "encoder_feature_dim", None)
    if width != tokenizer.num_mels:
        raise ValueError(
            "`source_tokenizer` must have the frames of the model. "
            f"Received: frames of {tokenizer.num_mels} mels, a model with encoder_feature_dim={width}."
        )


class Translator(_ModelTranslator):
    """Translate strings with a trained model.

    An empty source has an empty output. A source is cut off after `max_source_length` tokens, an output after
    `max_target_length`; a call that cuts off a source, or a target to be scored, warns once with a
    `TruncationWarning`. Where positions are learned, limits above their number are taken down to it. `search`
    and the limits are plain attributes, which may be assigned: the next call uses them.

    Args:
        model: a `Transformer` or an `Ensemble` with weights, of token ids on both sides; or one of speech, as
            `from_hugging_face` reads it, whose sources are audio: samples at 16 kHz.
        source_tokenizer: of the source language.
        target_tokenizer: of the target language.
        search: `BeamSearch(4)` if None.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of an output, the end token included.

    Raises:
        ValueError: If a tokenizer's vocabulary does not have the model's size, or a limit is below 2.

    Example:
        ```python
        translator = Translator(model, source_tokenizer, target_tokenizer, search=BeamSearch(4))
        translator.translate(["Ein Hund läuft."])
        ```
    """

    options_file: ClassVar[str] = "translator.json"

    def __init__(
        self,
        model: Transformer | Ensemble,
        source_tokenizer: "Tokenizer",
        target_tokenizer: "Tokenizer",
        *,
        search: Search | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> None:
        reads_audio = getattr(source_tokenizer, "reads", TEXT) == AUDIO
        if not (hasattr(model, "target_embedding") and (reads_audio or hasattr(model, "source_embedding"))):
            raise ValueError(
                "`model` must read and write token ids; `decoding.generate` decodes other models. "
                f"Received: {type(model).__name__} {model.name!r}."
            )
        if reads_audio:
            _check_features(source_tokenizer, getattr(model, "config", None))
        else:
            _check_vocabulary("source_tokenizer", source_tokenizer, model.source_embedding.vocabulary_size)
        _check_vocabulary("target_tokenizer", target_tokenizer, model.target_embedding.vocabulary_size)
        check_number(
            at_least=2, whole=True, max_source_length=max_source_length, max_target_length=max_target_length
        )
        limits = max_source_length, max_target_length
        super().__init__(model, (source_tokenizer, target_tokenizer), search or BeamSearch(4), limits)

    @classmethod
    def from_hugging_face(
        cls,
        source: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: object,
    ) -> Self:
        """Read a pretrained encoder-decoder: Marian, the BARTs, Pegasus, M2M100, NLLB, the T5s, and Whisper.

        It has the tokenizers, the weights and the search of the original, so that it gives its outputs:
        beams, length penalty, forced and banned tokens are those of `generation_config.json`. Padding is
        never generated. `save` makes it a directory that every command reads.

        A directory of CTranslate2, with a `model.bin`, has no search: beams are those of the constructor.
        What `export.export_ctranslate2` wrote comes back as it was; what its converters wrote needs
        `source.spm` and `target.spm`, or one SentencePiece model, beside it, or both tokenizers. A directory
        of Marian itself, with a `decoder.yml`, is read too.

        Args:
            source: a directory as the hub has it, of CTranslate2 or of Marian; or the name of a model on the
                hub, which needs the package `huggingface_hub`.
            source_language: of a model of many languages, see `text.read_hugging_face_tokenizers`.
            target_language: likewise.
            **options: arguments of the constructor that replace those of the directory: `search`,
                `max_source_length`, `max_target_length`, `source_tokenizer`, `target_tokenizer`.

        Returns:
            The translator.

        Raises:
            InputError: If the model is of another architecture, a file is missing or damaged, or an option of
                it is not known here.

        Example:
            ```python
            translator = kt.Translator.from_hugging_face("Helsinki-NLP/opus-mt-de-en")
            translator.save("runs/de_en")
            ```
        """
        return cls(**_read_hugging_face(source, source_language, target_language, options))

    def save_hugging_face(self, directory: str | Path) -> None:
        """Write the model, its tokenizers and the search as a directory of `transformers`.

        `AutoModelForSeq2SeqLM.from_pretrained(directory)` and `AutoTokenizer.from_pretrained(directory)` give
        the outputs of this translator, and `from_hugging_face` reads it again. The family is the one that has
        the options of the model: Marian for the paper's, Pegasus for pre-norm, BART and mBART for learned
        positions with normalized embeddings, T5 for relative positions. Before the directory appears, it is
        read again, and must give the logits of the model.

        Args:
            directory: made by this call, or empty.

        Raises:
            InputError: If a file cannot be written, or the directory holds something.
            ValueError: If no model, tokenizer or search there has an option of these; the message names it.

        Example:
            ```python
            translator.search = BeamSearch(
                4, length_normalization="length", early_stopping=False, cut_off_competes=True
            )
            translator.save_hugging_face("hub/de_en")
            ```
        """
        _write_hugging_face(self.arguments, directory)

    def generate(
        self, encoder_token_ids: Tensor, source_numbers: Sequence[int] | None = None
    ) -> SearchResult:
        """Find the outputs of a batch as token ids.

        Args:
            encoder_token_ids: integers `(b, s)`, each row ended and padded.
            source_numbers: of each row, see `decoding.generate`.

        Returns:
            Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
        """
        numbers = range(len(encoder_token_ids)) if source_numbers is None else source_numbers
        return self._find(encoder_token_ids, numbers)

    def trace_scores(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score ended targets `(b, t)`, not compiled: float32 `(b,)`, and their tokens, int32 `(b,)`."""
        batch_size, first = ops.shape(target_ids)[0], self.search.constraints.first_token_ids
        # A tokenizer of many languages puts its token there itself.
        if first and first != tuple(self.target_tokenizer.prefix_ids):
            given = ops.repeat(ops.convert_to_tensor([first], "int32"), batch_size, axis=0)
            target_ids = ops.concatenate([given, ops.cast(target_ids, "int32")], axis=1)
            target_ids = target_ids[:, : self.max_target_length]
        log_probabilities, num_tokens = score_targets(
            self.model,
            source_ids,
            target_ids,
            special_ids=SPECIAL_IDS,
            num_given=ops.full((batch_size,), len(first), dtype="int32") if first else None,
        )
        return self.search.score(log_probabilities, num_tokens + len(first)), num_tokens

    def attention_maps(self, text: Source) -> tuple[Alignment, dict[str, np.ndarray]]:
        """Translate one text, with the attention of every layer and head.

        Args:
            text: the source, cut off where it is too long; an empty one is its end token.

        Returns:
            What `align` gives, and the maps of `model.attention_scores`, float32 `(h, t, s)` by names such as
            `decoder/layer_1/cross_attention`. A row of the decoder belongs to the token that it writes; it
            has read those before.
        """
        source_ids = self.token_ids([text])
        token_ids, scores = map(ops.convert_to_numpy, self.generate(source_ids))
        best = token_ids[:1, 0]  # (1, n, T) -> (1, T)
        best = best[:, : np.count_nonzero(best != SPECIAL_IDS.pad)]
        found = self.model.attention_scores(_teacher_forcing(source_ids, best, None, SPECIAL_IDS))
        # (1, h, t, s) -> (h, t, s)
        maps = {name: ops.convert_to_numpy(each)[0].astype("float32") for name, each in found.items()}
        attention = maps[_layer_name(maps, -1)].mean(axis=0)
        names = (self.source_tokenizer.tokens(source_ids), self.target_tokenizer.tokens(best))
        read, written = (tuple(name.decode("utf-8") for name in each.numpy()[0]) for each in names)
        output = self.target_tokenizer.detokenize(best).numpy()[0].decode("utf-8")
        return Alignment(output, float(scores[0, 0]), read, written, attention), maps
