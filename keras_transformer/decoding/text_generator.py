"""Strings in, longer strings out: a decoder alone, its tokenizer and a search."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from keras import ops

from keras_transformer._arguments import check_number
from keras_transformer.decoding.model_translator import _check_vocabulary, _ModelTranslator
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.scoring import score_targets
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.text_translator import Progress
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.types import SPECIAL_IDS, Signature, Tensor

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer


class TextGenerator(_ModelTranslator):
    """Continue strings with a trained language model.

    **An output is the whole text, its prompt included**, as in KerasHub's `generate`: so subwords join as
    they should. It shows the prompt as the tokenizer reads it. An empty prompt asks for a text from its
    beginning. Each prompt of a batch is continued as it is alone, whatever the lengths of the others.

    A score is the log-probability of what follows the prompt, divided by the search's length penalty for the
    whole text. `n_best`, `score`, `stream`, `save` and `load` are those of `Translator`, and
    `export.export_saved_model` takes a generator, too, if its search does not sample. `score(prompts, texts)`
    reads whole texts: what each of them shares with its prompt is given, and not scored or counted; with `""`
    for a prompt all is scored. A prompt keeps at most `max_length - 1` tokens; a call that cuts one off
    warns once with a `TruncationWarning`. `search` and `max_length` may be assigned.

    Args:
        model: a `CausalLM` with weights.
        tokenizer: that of the texts it was trained on, each between a start and an end token.
        search: `GreedySearch()` if None. `SampleSearch` gives other texts.
        max_length: most tokens of a text, its prompt and the end token included. Where positions are learned,
            at most their number.

    Raises:
        ValueError: If the tokenizer's vocabulary does not have the model's size, or `max_length` is below 2.
        TypeError: If the model is no `CausalLM`.

    Example:
        ```python
        generator = TextGenerator(model, tokenizer, search=SampleSearch(0.8, top_p=0.95, seed=1))
        generator.generate(["Once upon a time", "The dog"])
        ```
    """

    options_file: ClassVar[str] = "generator.json"
    signatures: ClassVar[tuple[Signature, ...]] = ("serving_default", "n_best", "score", "search")
    blanks_empty: bool = False

    def __init__(
        self, model: CausalLM, tokenizer: "Tokenizer", *, search: Search | None = None, max_length: int = 256
    ) -> None:
        if not isinstance(model, CausalLM):
            raise TypeError(f"`model` must be a CausalLM. Received: {type(model).__name__}.")
        _check_vocabulary("tokenizer", tokenizer, model.token_embedding.vocabulary_size)
        check_number(at_least=2, whole=True, max_length=max_length)
        super().__init__(model, (tokenizer, tokenizer), search or GreedySearch(), (max_length, max_length))

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer of prompts and outputs."""
        return self.target_tokenizer

    @property
    def max_length(self) -> int:
        """Most tokens of a text, its prompt and the end token included."""
        return self.max_target_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Change the limit."""
        self.max_source_length = self.max_target_length = max_length

    def generate(
        self, prompts: Iterable[str], batch_size: int = 64, progress: Progress | None = None
    ) -> list[str]:
        """Continue any number of strings; another name for `translate`.

        Args:
            prompts: of any lengths.
            batch_size: the number that are continued together.
            progress: called after each batch with the number of prompts in it.

        Returns:
            The best text for each prompt, in the same order, the prompt included.

        Raises:
            TypeError: If `prompts` is a single string, or holds something else.

        Warns:
            TruncationWarning: Once, if prompts were too long.
        """
        return self.translate(prompts, batch_size, progress)

    def trace_scores(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score what follows prompts, not compiled: float32 `(b,)`, and its tokens, int32 `(b,)`."""
        # The tokens that a text shares with its prompt: where the two are joined, subwords may be others.
        prompts = self._prompt_ids(source_ids, ops.shape(target_ids)[1])
        is_same = ops.cast(ops.logical_and(prompts == target_ids, prompts != SPECIAL_IDS.pad), "int32")
        num_given = ops.sum(ops.cumprod(is_same, axis=1), axis=1)
        log_probabilities, num_tokens = score_targets(
            lambda inputs: self.model(inputs["decoder_token_ids"]),
            source_ids,
            target_ids,
            special_ids=SPECIAL_IDS,
            num_given=num_given,
        )
        return self.search.score(log_probabilities, num_tokens + num_given), num_tokens

    def _model_inputs(self, source_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        source_ids = ops.convert_to_tensor(source_ids, "int32")
        starts = ops.full((ops.shape(source_ids)[0], 1), SPECIAL_IDS.start, dtype="int32")
        # As prefixes, which may differ in length; of one size, so that nothing is compiled for each.
        prompts = self._prompt_ids(source_ids, self.max_length)
        return starts, ops.reshape(prompts, (-1, self.max_length))

    @staticmethod
    def _prompt_ids(source_ids: Tensor, length: Tensor | int) -> Tensor:
        """Replace the end tokens of prompts `(b, s)` by padding, and cut or pad to a length."""
        room = ops.zeros((ops.shape(source_ids)[0], length), "int32")
        source_ids = ops.where(source_ids == SPECIAL_IDS.end, SPECIAL_IDS.pad, source_ids)
        return ops.concatenate([source_ids, room], axis=1)[:, :length]

    def _limits(self, signature: Signature) -> str:
        return f"max_length={self.max_length}"
