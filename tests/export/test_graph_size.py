"""A graph with short names is the same graph."""

import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_transformer.export.graph_size import shrink_graph


class Loop(tf.Module):
    """A loop with a condition, a control dependency, a variable and a name that looks like a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], name="n1")])
    def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x)]):
            total = tf.identity(x)
        for _ in tf.range(tf.size(x)):
            total = tf.where(total > 100.0, total, total * self.weight)
        return {"total": total, "first": total[:1]}


def test_a_smaller_file_gives_the_same_numbers(tmp_path: Path) -> None:
    module = Loop()
    tf.saved_model.save(module, str(tmp_path / "a"), signatures=module.serve)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shrink_graph(tmp_path / "b")
    before, after = ((tmp_path / name / "saved_model.pb").stat().st_size for name in "ab")
    assert after < 0.8 * before
    answers = []
    for name in "ab":
        serve = tf.saved_model.load(str(tmp_path / name)).signatures["serving_default"]
        answers.append(serve(n1=tf.constant([1.0, 3.0, 70.0])))
    assert sorted(answers[0]) == sorted(answers[1]) == ["first", "total"]
    for key, value in answers[0].items():
        np.testing.assert_array_equal(value, answers[1][key])
    np.testing.assert_array_equal(answers[0]["total"], [8.0, 24.0, 140.0])


def test_nothing_is_left_of_long_names_and_shapes(exported: Path) -> None:
    [graph] = SavedModel.FromString((exported / "saved_model.pb").read_bytes()).meta_graphs
    nodes = [node for function in graph.graph_def.library.function for node in function.node_def]
    assert len(nodes) > 1000
    assert max(len(node.name) for node in nodes) < 8
    assert not any("_output_shapes" in node.attr for node in nodes)
