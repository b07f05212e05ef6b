"""Text generation: a causal language model, its tokenizer and a search."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from keras_transformer._arguments import check_number
from keras_transformer.decoding import GreedySearch, Search
from keras_transformer.models import CausalLM
from keras_transformer.tasks.readers import _check_vocabulary
from keras_transformer.tasks.results import TEXT_SIGNATURES, ServedSignature
from keras_transformer.tasks.search_task import SearchTask
from keras_transformer.tasks.token_functions import _PromptFunctions
from keras_transformer.text import Tokenizer
from keras_transformer.types import Progress, Signature


class TextGenerator(SearchTask):
    """Text generator: a trained language model, its tokenizer and a search. It continues prompts.

    **An output is the whole text, including its prompt**, as in KerasHub's `generate`, so that subwords are
    joined correctly. The prompt is tokenized and detokenized, so it may be normalized, for example to lower
    case. For an empty prompt, the output is a new text.

    The score is the log-probability of the tokens after the prompt, divided by the length penalty of the
    whole text. `score(prompts, texts)` takes whole texts. The prefix that a text shares with its prompt is
    neither scored nor counted in `num_tokens`.

    A prompt is truncated to `max_length - 1` tokens; then the call warns once with a
    `TruncationWarning`. You may assign `search` and `max_length`. `n_best`, `stream`, `save`, `load` and
    `export.export_saved_model` work as for a `Translator`.

    Args:
        model: A `CausalLM` with weights.
        tokenizer: Tokenizer of the training texts. The model must have been trained with a start and an end
            token around each text, as by `data.text_dataset`.
        search: Search strategy. Defaults to `GreedySearch()`; a `SampleSearch` generates varied texts.
        max_length: Maximum number of tokens of a text, including prompt and end token. A value above the
            model's number of learned positions is reduced to that number. Defaults to 256.

    Raises:
        ValueError: If the vocabulary does not have the model's size, or `max_length` is below 2.
        TypeError: If the model is not a `CausalLM`.

    Example:
        ```python
        generator = TextGenerator(model, tokenizer, search=SampleSearch(0.8, top_p=0.95, seed=1))
        generator.generate(["Once upon a time", "The dog"])
        ```
    """

    options_file: ClassVar[str] = "generator.json"
    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    limit_names: ClassVar[tuple[str, ...]] = ("max_length",)
    noun: ClassVar[str] = "generator"
    about_outputs: ClassVar[str] = (
        "An output is the whole text: it begins with its prompt, without the characters that the vocabulary\n"
        "lacks. An empty prompt asks for a text from its beginning. A score is the log-probability of the\n"
        "tokens after the prompt, divided by the length penalty of the search. `num_tokens` counts these\n"
        "tokens."
    )
    reads_empty = continues_source = True
    # No `align`: there is no source to attend to.
    signatures: ClassVar[Mapping[Signature, ServedSignature]] = {
        name: served for name, served in TEXT_SIGNATURES.items() if name != "align"
    }

    def __init__(
        self, model: CausalLM, tokenizer: Tokenizer, *, search: Search | None = None, max_length: int = 256
    ) -> None:
        if not isinstance(model, CausalLM):
            raise TypeError(f"`model` must be a CausalLM. Received: {type(model).__name__}.")
        _check_vocabulary("tokenizer", tokenizer, model.token_embedding.vocabulary_size)
        super().__init__(model, tokenizer, tokenizer, GreedySearch() if search is None else search)
        self.max_length = max_length

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of prompts and outputs."""
        return self.target_tokenizer

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, including its prompt and the end token."""
        return self.max_target_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Set the maximum length."""
        check_number(at_least=2, whole=True, max_length=max_length)
        self.max_source_length = self.max_target_length = max_length

    @property
    def token_functions(self) -> _PromptFunctions:
        """Computations on token ids with the current model and search, not compiled."""
        return _PromptFunctions(self.model, self.search, self.max_length)

    def generate(self, prompts: Iterable[str], batch_size: int = 64, progress: Progress | None = None) -> Any:
        """Continue one prompt or several. Another name for `translate`.

        Args:
            prompts: A string, or strings in a list, an array, a TensorFlow tensor or a dataset.
            batch_size: Number of prompts to continue together.
            progress: Called after each batch with the number of its prompts.

        Returns:
            The best text for each prompt, in the same order and including the prompt, or one string for a
            single prompt.

        Raises:
            TypeError: If `prompts` contains something else.

        Warns:
            TruncationWarning: Once, if prompts were too long.
        """
        return self.translate(prompts, batch_size, progress)
