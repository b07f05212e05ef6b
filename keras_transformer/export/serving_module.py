"""The graph that a model server runs: strings in, strings and scores out."""

from typing import Any

import tensorflow as tf

from keras_transformer.decoding import Translator
from keras_transformer.text.source_ids import source_token_ids


class ServingModule(tf.Module):
    """Everything of a translator that a server needs, without Keras.

    Args:
        translator: on the TensorFlow backend.
        vocabulary_files: copied into `assets/` of the SavedModel.

    Raises:
        ValueError: the model's variables are not those of TensorFlow.
    """

    def __init__(self, translator: Translator, vocabulary_files: list[str]) -> None:
        super().__init__(name="serving")
        variables = [weight.value for weight in translator.model.weights]
        if not all(isinstance(variable, tf.Variable) for variable in variables):
            raise ValueError(
                "`translator` must hold a model of the TensorFlow backend. "
                f"Received: variables of {type(variables[0])}."
            )
        # `_translator` is no trackable: the SavedModel holds variables and tables, not Keras objects.
        self._translator = translator
        self.model_variables = variables
        self.source_tokenizer = translator.source_tokenizer
        self.target_tokenizer = translator.target_tokenizer
        self.vocabularies = [tf.saved_model.Asset(path) for path in vocabulary_files]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers each source.

        Args:
            text: string (b,).

        Returns:
            `output`, string (b,), and `score`, float32 (b,): its log-probability, divided by the
            search's length penalty. An empty source has an empty output and the score 0.
        """
        token_ids = source_token_ids(text, self.source_tokenizer, self._translator.max_source_length)
        result = self._translator.generate(token_ids)
        output = self.target_tokenizer.detokenize(result.token_ids[:, 0])
        is_empty = tf.equal(tf.strings.length(text), 0)
        return {
            "output": tf.where(is_empty, "", output),
            "score": tf.where(is_empty, 0.0, result.scores[:, 0]),
        }

    def signatures(self) -> dict[str, Any]:
        """Names the functions that a server offers.

        Returns:
            a concrete function for each signature name.
        """
        return {"serving_default": self.serving_default.get_concrete_function()}
