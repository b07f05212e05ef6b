"""The file that tells TensorFlow Serving which models there are: `--model_config_file`."""

from pathlib import Path

from keras_transformer.files import write_file

# Beside the versions: a server takes directories named by numbers for versions, and nothing else.
MODELS_CONFIG_FILE = "models.config"

_TEMPLATE = """\
# For tensorflow_model_server --model_config_file=/models/{name}/models.config
# To serve several models, put their `config` blocks into one list.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # The newest version alone is served. To keep two and give them names, add for example
    #   model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    #   version_labels {{ key: "stable" value: 1 }}
    # A label needs a version that is loaded already, or --allow_version_labels_for_unavailable_models.
  }}
}}
"""


def models_config(name: str) -> str:
    """Writes a `ModelServerConfig` in protobuf's text format.

    Args:
        name: of the model.

    Returns:
        the text, for a server that sees the model's directory as `/models/<name>`.
    """
    # What a quoted string of protobuf cannot hold as it is.
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return _TEMPLATE.format(name=escaped)


def model_name(directory: Path) -> str:
    """Names a model by its directory.

    Args:
        directory: of the model; a link keeps its own name.

    Returns:
        its last part, or that of the directory which `..` stands for.
    """
    name = directory.absolute().name
    return directory.resolve().name if name == ".." else name


def write_models_config(directory: Path) -> None:
    """Writes the file into the directory of a model, unless there is one, which somebody may have edited.

    Args:
        directory: of the model; its last part is the model's name.

    Raises:
        InputError: the file cannot be written.
    """
    path = directory / MODELS_CONFIG_FILE
    if not path.exists():
        write_file(path, models_config(model_name(directory)).encode())
