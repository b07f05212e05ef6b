"""The graph inside an export."""

import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export import ServingModule


def test_empty_rows_are_empty_answers(translator: kt.Translator) -> None:
    module = ServingModule(translator, [])
    answers = module.serving_default(tf.constant(["", "a dog", ""]))
    outputs, scores = answers["output"].numpy(), answers["score"].numpy()
    assert outputs[0] == outputs[2] == b""
    assert scores[0] == scores[2] == 0.0
    assert scores[1] < 0


def test_the_module_holds_every_weight_once(translator: kt.Translator) -> None:
    module = ServingModule(translator, [])
    assert len(module.variables) == len(translator.model.weights)


def test_the_graph_calls_no_python(translator: kt.Translator) -> None:
    module = ServingModule(translator, [])
    graph = module.signatures()["serving_default"].graph.as_graph_def()
    operations = {node.op for node in graph.node}
    operations |= {node.op for function in graph.library.function for node in function.node_def}
    assert not {name for name in operations if "PyFunc" in name or name.startswith("Xla")}
