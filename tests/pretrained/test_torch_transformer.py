"""The weights of `torch.nn.Transformer`: its outputs, in stacks and in whole models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.errors import InputError
from keras_transformer.pretrained import TorchTransformer

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.backend,
    # Of its own default for a stack of pre-norm or of odd numbers of heads.
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
]
D, H, F, B, S, T = 12, 3, 20, 3, 7, 5
LENGTHS = np.array([7, 4, 6])
PADDING = np.arange(S) < LENGTHS[:, None]
TARGET_PADDING = np.arange(T) < np.array([5, 3, 4])[:, None]


class Model(torch.nn.Module):  # type: ignore[misc]
    """What tutorials write: embeddings, positions, the stacks and a last layer."""

    def __init__(self, positions: Any, tied: bool = False, **options: Any) -> None:
        super().__init__()
        self.source = torch.nn.Embedding(11, D)
        self.target = torch.nn.Embedding(13, D)
        self.positions = torch.nn.Parameter(torch.tensor(positions)) if positions is not None else None
        self.transformer = torch.nn.Transformer(D, H, batch_first=True, **options)
        self.generator = None if tied else torch.nn.Linear(D, 13)

    def forward(self, source: Any, target: Any, waves: Any) -> Any:
        added = torch.tensor(waves) if self.positions is None else self.positions
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        outputs = self.transformer(
            self.source(source) * D**0.5 + added[: source.shape[1]],
            self.target(target) * D**0.5 + added[: target.shape[1]],
            tgt_mask=future,
            src_key_padding_mask=source == 1,
            memory_key_padding_mask=source == 1,
            tgt_key_padding_mask=target == 1,
        )
        return self.generator(outputs) if self.generator else outputs @ self.target.weight.T


def made(**options: Any) -> Any:
    sizes = {"num_encoder_layers": 3, "num_decoder_layers": 2, "dim_feedforward": F, "dropout": 0.0}
    torch.manual_seed(0)
    model = torch.nn.Transformer(D, H, batch_first=True, **sizes, **options)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn(weight.shape))
    return model


def compare(theirs: Any, encoder: Any, decoder: Any, close: Any) -> None:
    source, target = draw(B, S, D), draw(B, T, D, seed=1)
    hidden, future = torch.tensor(~PADDING), torch.ones(T, T, dtype=torch.bool).triu(1)
    with torch.no_grad():
        expected = theirs(  # in training mode: its fast path is another program
            torch.tensor(source),
            torch.tensor(target),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_key_padding_mask=torch.tensor(~TARGET_PADDING),
        ).numpy()
    memory = encoder(source, padding_mask=PADDING)
    output = decoder(target, memory, padding_mask=TARGET_PADDING, encoder_padding_mask=PADDING)
    close(array(output)[TARGET_PADDING], expected[TARGET_PADDING], 1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_stacks_give_its_outputs(norm_first: bool, activation: str, bias: bool, close: Any) -> None:
    options = {"norm_first": norm_first, "activation": activation}
    theirs = made(bias=bias, **options)
    stacks = TorchTransformer(theirs.state_dict(), H, **options).stacks()
    assert [(len(stack.layers), stack.use_bias) for stack in stacks] == [(3, bias), (2, bias)]
    compare(theirs, *stacks, close)


@pytest.mark.parametrize("norm_first", [False, True])
def test_without_a_final_normalization(norm_first: bool, close: Any) -> None:
    theirs = made(norm_first=norm_first)
    theirs.encoder.norm = theirs.decoder.norm = None
    stacks = TorchTransformer(theirs.state_dict(), H, norm_first=norm_first).stacks()
    compare(theirs, *stacks, close)


def test_files_halves_and_arrays(tmp_path: Path, close: Any) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    theirs = made(layer_norm_eps=1e-3)
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    safetensors.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    arrays = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    for source in (tmp_path / "model.pt", str(tmp_path / "model.safetensors"), arrays):
        compare(theirs, *TorchTransformer(source, H, layer_norm_epsilon=1e-3).stacks(), close)
    halves = made().to(torch.bfloat16)
    stacks = TorchTransformer(halves.state_dict(), H).stacks()
    compare(halves.float(), *stacks, close)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_a_whole_model_gives_its_logits(kind: str, tied: bool, close: Any) -> None:
    angles = np.arange(9)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(9, D).astype("float32")
    learned = draw(9, D, seed=3) if kind == "learned" else None
    torch.manual_seed(0)
    theirs = Model(learned, tied, num_encoder_layers=1, num_decoder_layers=2, dim_feedforward=F, dropout=0.0)
    # There 0 is unknown, and 1 padding.
    swapped = [np.array([1, 0, *range(2, size)]) for size in (11, 13)]
    model = TorchTransformer(theirs.state_dict(), H, name="transformer", dropout=0.0).load(
        "source",
        "target",
        None if tied else "generator",
        positions="positions" if kind == "learned" else None,
        source_ids=swapped[0],
        target_ids=swapped[1],
    )
    generator = np.random.default_rng(0)
    source = generator.integers(1, 11, (B, S)) * PADDING
    target = generator.integers(1, 13, (B, T)) * TARGET_PADDING
    with torch.no_grad():
        ids = [torch.tensor(rows[each]) for rows, each in zip(swapped, (source, target), strict=True)]
        wanted = theirs(*ids, waves).numpy()
    found = array(model({"encoder_token_ids": source, "decoder_token_ids": target}))
    close(found[TARGET_PADDING], wanted[TARGET_PADDING][:, swapped[1]], 1e-5)
    assert model.config.max_length == (9 if kind == "learned" else None)


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    state = made().state_dict()
    name = "decoder.layers.1.linear1.weight"
    others: dict[str, tuple[dict[str, Any], str]] = {
        "missing": ({key: state[key] for key in state if key != name}, f"no tensor '{name}'"),
        "shape": (
            {**state, name: state[name][:, 1:]},
            r"shape \(20, 12\).* Received: float32 of shape \(20, 11",
        ),
        "infinite": ({**state, name: state[name] / 0}, "finite weights"),
        "unknown": ({**state, "generator.weight": state[name]}, "Received: 'generator.weight'"),
        "norm": ({key: state[key] for key in state if "decoder.norm" not in key}, "the same `final_norm`"),
        "none": ({}, "must have the matrix 'encoder.layers.0.linear2.weight'"),
    }
    for table, message in others.values():
        with pytest.raises(InputError, match=message):
            TorchTransformer(table, H).stacks()
    with pytest.raises(InputError, match=r"must have the matrix 'other\.encoder"):
        TorchTransformer(state, H, name="other")
    with pytest.raises(ValueError, match=r"`activation` must be one of 'relu', 'gelu'.* activation='mish'"):
        TorchTransformer(state, H, activation="mish")
    checkpoint = TorchTransformer({**state, "table.weight": torch.zeros(9, D)}, H)
    with pytest.raises(ValueError, match="`target_ids` must be the ids 0 to 8, each once"):
        checkpoint.load("table", "table", target_ids=np.arange(8))
    with pytest.raises(InputError, match=r"must have the matrix 'tables\.weight'"):
        checkpoint.load("table", "tables")
    with pytest.raises(InputError, match="no tensor 'marks'"):
        checkpoint.load("table", "table", positions="marks")
    (tmp_path / "model.pt").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match="more than tensors"):
        TorchTransformer(tmp_path / "model.pt", H)
    with pytest.raises(InputError, match=r"no absent\.pt"):
        TorchTransformer(tmp_path / "absent.pt", H)
