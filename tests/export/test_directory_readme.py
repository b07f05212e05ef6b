"""The README inside an export."""

import json
import re

from keras_transformer.export.directory_readme import directory_readme


def test_the_request_is_json_that_a_shell_leaves_alone() -> None:
    text = directory_readme("en_fr", ['it\'s "here"'], needs_tensorflow_text=False)
    [request] = re.findall(r"curl -d '(.*)' http", text)
    assert "'" not in request
    assert json.loads(request) == {"instances": ['it\'s "here"']}


def test_subwords_say_what_to_import() -> None:
    assert "import tensorflow_text" in directory_readme("a", [], needs_tensorflow_text=True)
    assert "import tensorflow_text" not in directory_readme("a", [], needs_tensorflow_text=False)


def test_the_name_is_the_one_served() -> None:
    assert "v1/models/en_fr:predict" in directory_readme("en_fr", [], needs_tensorflow_text=False)
