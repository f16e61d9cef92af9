"""Models, layouts of ranks and the work of a step: what a prediction is of. docs/scale.md has the
letters."""
import json
import pathlib
from typing import NamedTuple

ITEM = 2  # bytes of a value in bf16


class Shape(NamedTuple):
    """A model of equal layers."""
    name: str
    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool = False
    biases: bool = False

    @property
    def layer_weights(self):
        """In the matrices of a layer."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return 2 * self.hidden * (q + kv) + 3 * self.hidden * self.mlp

    @property
    def head_weights(self):
        return self.vocab * self.hidden

    @property
    def parameters(self):
        bias = (self.heads + 2 * self.kv_heads) * self.head_dim if self.biases else 0
        layer = self.layer_weights + 2 * self.hidden + bias
        heads = 1 if self.tied else 2
        return self.layers * layer + self.hidden + heads * self.head_weights

    @property
    def kv_row_bytes(self):
        """Keys and values of a token in all layers."""
        return self.layers * 2 * self.kv_heads * self.head_dim * ITEM

    @classmethod
    def of_config(cls, directory):
        """The shape of a Hugging Face directory."""
        config = json.loads((pathlib.Path(directory) / "config.json").read_text(encoding="utf-8"))
        heads = config["num_attention_heads"]
        return cls(pathlib.Path(directory).name, config["num_hidden_layers"],
                   config["hidden_size"], config["intermediate_size"], heads,
                   config["num_key_value_heads"],
                   config.get("head_dim") or config["hidden_size"] // heads,
                   config["vocab_size"], config["tie_word_embeddings"],
                   config["model_type"] == "qwen2")


# The sizes are those of the configurations that the models were published with.
SHAPES = [
    Shape("1.5B", 28, 1536, 8960, 12, 2, 128, 151936, tied=True, biases=True),  # Qwen2.5-1.5B
    Shape("7B", 28, 3584, 18944, 28, 4, 128, 152064, biases=True),  # Qwen2.5-7B
    Shape("70B", 80, 8192, 28672, 64, 8, 128, 128256),  # Llama-3.1-70B
]


class Layout(NamedTuple):
    """Sizes of the axes, and the stage of ZeRO among the ranks of data and context."""
    tensor: int = 1
    context: int = 1
    stages: int = 1
    data: int = 1
    zero: int = 0

    @property
    def ranks(self):
        return self.tensor * self.context * self.stages * self.data

    @property
    def replicas(self):
        """Ranks that add their gradients."""
        return self.context * self.data

    @property
    def kind(self):
        axes = [name for name in ("tensor", "context", "stages") if getattr(self, name) > 1]
        return " x ".join([*axes, "data"])

    def fits(self, shape):
        return (shape.heads % self.tensor == shape.kv_heads % self.tensor == 0
                and shape.mlp % self.tensor == 0 and shape.layers % self.stages == 0)

    def __str__(self):
        return f"{self.tensor} x {self.context} x {self.stages} x {self.data}"


class Work(NamedTuple):
    """A step: samples of so many tokens, of which the response is generated."""
    samples: int = 1024
    group: int = 8
    prompt: int = 512
    response: int = 2048
    optimizer_steps: int = 4
    max_tokens: int = 8192  # of a micro-batch on one rank
    max_num_seqs: int = 256  # of an engine
    rollout: bool = True

    @property
    def tokens(self):
        return self.prompt + self.response


def layouts(ranks, zeros=(0, 1, 2, 3)):
    """All layouts of so many ranks in powers of two, with up to 8 ranks of an inner axis."""
    sizes = [1, 2, 4, 8]
    for tensor in sizes:
        for context in sizes:
            for stages in sizes:
                inner = tensor * context * stages
                if ranks % inner == 0:
                    yield from (Layout(tensor, context, stages, ranks // inner, zero)
                                for zero in zeros)
