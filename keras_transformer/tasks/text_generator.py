"""Strings in, longer strings out: a decoder alone, its tokenizer and a search."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from keras_transformer._arguments import check_number
from keras_transformer.decoding import GreedySearch, Search
from keras_transformer.models import CausalLM
from keras_transformer.tasks.results import TEXT_SIGNATURES, ServedSignature
from keras_transformer.tasks.search_task import SearchTask
from keras_transformer.tasks.sources import TextSource, _check_vocabulary
from keras_transformer.tasks.token_functions import _PromptFunctions
from keras_transformer.text import Tokenizer
from keras_transformer.types import Progress, Signature


class TextGenerator(SearchTask):
    """Continue strings with a trained language model.

    **An output is the whole text, its prompt included**, as in KerasHub's `generate`: so subwords join as
    they should. It shows the prompt as the tokenizer reads it. An empty prompt asks for a text from its
    beginning. Each prompt of a batch is continued as it is alone, whatever the lengths of the others.

    A score is the log-probability of what follows the prompt, divided by the search's length penalty for the
    whole text. `n_best`, `score`, `stream`, `save` and `load` are those of `Translator`, and
    `export.export_saved_model` takes a generator, too. `score(prompts, texts)` reads whole texts: what each
    of them shares with its prompt is given, and not scored or counted; with `""` for a prompt all is scored.
    A prompt keeps at most `max_length - 1` tokens; a call that cuts one off warns once with a
    `TruncationWarning`. `search` and `max_length` may be assigned.

    Args:
        model: A `CausalLM` with weights.
        tokenizer: The tokenizer of the texts it was trained on, each between a start and an end token.
        search: How outputs are found. Defaults to `GreedySearch()`; `SampleSearch` gives other texts.
        max_length: Maximum number of tokens of a text, its prompt and the end token included. Where positions
            are learned, at most their number.

    Raises:
        ValueError: If the tokenizer's vocabulary does not have the model's size, or `max_length` is below 2.
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
    about_outputs: ClassVar[str] = (
        "A text is a prompt, which its output begins with; an empty prompt asks for a text from its\n"
        "beginning. A score is the log-probability of what follows the prompt, divided by the length\n"
        "penalty of the search. `num_tokens` counts what follows the prompt."
    )
    # There is no source to attend to.
    signatures: ClassVar[Mapping[Signature, ServedSignature]] = {
        name: served for name, served in TEXT_SIGNATURES.items() if name != "align"
    }

    def __init__(
        self, model: CausalLM, tokenizer: Tokenizer, *, search: Search | None = None, max_length: int = 256
    ) -> None:
        if not isinstance(model, CausalLM):
            raise TypeError(f"`model` must be a CausalLM. Received: {type(model).__name__}.")
        _check_vocabulary("tokenizer", tokenizer, model.token_embedding.vocabulary_size)
        check_number(at_least=2, whole=True, max_length=max_length)
        source, limits = TextSource(tokenizer, reads_empty=True), (max_length, max_length)
        super().__init__(model, source, tokenizer, GreedySearch() if search is None else search, limits)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of prompts and outputs."""
        return self.target_tokenizer

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, its prompt and the end token included."""
        return self.max_target_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Change the limit."""
        self.max_source_length = self.max_target_length = max_length

    @property
    def limits(self) -> dict[str, int]:
        """The maximum length of a text."""
        return {"max_length": self.max_length}

    @property
    def token_functions(self) -> _PromptFunctions:
        """The model and its search as they are now, in numbers; not compiled."""
        return _PromptFunctions(self.model, self.search, self.max_length)

    def generate(self, prompts: Iterable[str], batch_size: int = 64, progress: Progress | None = None) -> Any:
        """Continue one string, or any number of them; another name for `translate`.

        Args:
            prompts: A string, or strings as for `translate`.
            batch_size: Number of prompts that are continued together.
            progress: Called after each batch with the number of prompts in it.

        Returns:
            The best text for each prompt, in the same order, the prompt included; for a string a string.

        Raises:
            TypeError: If `prompts` holds something else.

        Warns:
            TruncationWarning: Once, if prompts were too long.
        """
        return self.translate(prompts, batch_size, progress)
