"""The time of a step, term by term. docs/scale.md has each formula; a function here has one or two
of its rows. No term hides behind another: gradients are exchanged after the last micro-batch, and
the sums of tensor-parallel ranks where they are needed."""
import math
from typing import NamedTuple

from scale import traffic
from scale.shapes import ITEM

UPDATE_BYTES = 28   # that AdamW reads or writes of a parameter
STATE_BYTES = 8     # of its moments
MASTER_BYTES = 4
KEPT_BYTES = ITEM + 4  # packed weights, gradients


class Group(NamedTuple):
    """Ranks that make collectives, `stride` apart, on nodes of so many ranks."""
    size: int
    stride: int
    per_node: int

    @property
    def near(self):
        """Ranks of a group that are on one node."""
        return max(1, min(self.size, self.per_node // self.stride))

    def link(self, machine):
        return machine.node if self.near == self.size else machine.network


def exchange_s(machine, group, sent, messages=1):
    """Of bytes that each rank sends to the others alike, each time after a latency. Both links work
    at once; the slower one counts."""
    if group.size == 1:
        return 0.0
    far = sent * (group.size - group.near) / (group.size - 1)
    return messages * group.link(machine).latency_s + max((sent - far) / machine.node.bytes_per_s,
                                                          far / machine.network.bytes_per_s)


class Step:
    """One step of a shape in a layout on a machine."""

    def __init__(self, shape, layout, work, machine):
        self.shape, self.layout, self.work, self.machine = shape, layout, work, machine
        samples = math.ceil(work.samples / work.optimizer_steps / layout.data)
        self.rows = samples * work.tokens / layout.context  # of a rank in an optimizer step
        self.loss_rows = samples * work.response / layout.context
        self.micro_batches = math.ceil(self.rows / work.max_tokens)
        parts = layout.tensor * layout.stages
        self.parameters = shape.parameters / parts
        self.matrices = shape.layers * shape.layer_weights / parts  # of its layers
        self.largest_matrix = 2 * shape.hidden * shape.mlp / layout.tensor
        self.recompute = not self.fits(False)

    # ---- memory ----

    def row_bytes(self, recompute):
        """Of a row's activations on a rank."""
        s, t = self.shape, self.layout.tensor
        layer = 8 * s.hidden + (ITEM * (2 * s.heads + 2 * s.kv_heads) * s.head_dim
                                + 2 * ITEM * s.mlp) / t
        layers = s.layers / self.layout.stages
        return layers * 4 * s.hidden + layer if recompute else layers * layer

    def share(self, parameters):
        """What a rank has of parameters that ZeRO divides: at stage 3 in whole matrices, so up to
        one more than its part."""
        n, zero = self.layout.replicas, self.layout.zero
        if not zero or n == 1:
            return parameters
        return min(parameters, parameters / n + (self.largest_matrix if zero == 3 else 0))

    def masters(self):
        """What a rank has of them."""
        if self.layout.zero < 3:
            return self.parameters
        return self.parameters - self.matrices + self.share(self.matrices)

    def kept_bytes(self):
        """Of weights, gradients and states; at stage 3 with room for a matrix that is unpacked."""
        room = 4 * self.largest_matrix if self.layout.zero == 3 else 0
        return (self.parameters * KEPT_BYTES + self.masters() * MASTER_BYTES
                + self.share(self.parameters) * STATE_BYTES + room)

    def needed_bytes(self, recompute):
        in_flight = min(self.micro_batches, self.layout.stages)
        rows = min(self.rows, self.work.max_tokens)
        return self.kept_bytes() + in_flight * rows * self.row_bytes(recompute)

    def fits(self, recompute):
        return self.needed_bytes(recompute) <= self.machine.memory_bytes

    # ---- training ----

    def forward_flop(self):
        """Of the layers, for the rows of an optimizer step, on one rank."""
        s, parts = self.shape, self.layout.tensor * self.layout.stages
        attention = 4 * s.heads * s.head_dim * self.work.tokens / 2
        return s.layers * (2 * s.layer_weights + attention) * self.rows / parts

    def stage_s(self):
        """Seconds of an optimizer step's forwards and backwards: of layers, and of the head, which
        the last stage alone computes."""
        passes = 4 if self.recompute else 3
        weights = self.shape.layers * self.shape.layer_weights * ITEM
        read = self.micro_batches * (2 * weights + 8 * self.shape.layers * self.shape.layer_weights)
        read /= self.layout.tensor * self.layout.stages
        layers = max(passes * self.forward_flop() / self.machine.matmul_flops,
                     read / self.machine.update_bytes_per_s)
        head = 3 * 2 * self.shape.head_weights * self.loss_rows / self.layout.tensor
        return layers, head / self.machine.matmul_flops

    def bubble_s(self):
        """What a stage waits: 1F1B has as many turns more as there are stages before the last."""
        layers, head = self.stage_s()
        return (layers + head) * (self.layout.stages - 1) / self.micro_batches

    def update_s(self):
        return self.share(self.parameters) * UPDATE_BYTES / self.machine.update_bytes_per_s

    def publish_s(self):
        """Of one publication: masters are read, weights for forward and backward are written. At
        stage 3 a rank packs its own matrices, and unpacks all for the backward."""
        size = self.parameters * (4 + 2 * ITEM)
        if self.layout.zero == 3:
            own = self.share(self.matrices) * (4 + ITEM)
            size += own + self.matrices * (2 * 4 + 2 * ITEM - (4 + 2 * ITEM))
        return size / self.machine.update_bytes_per_s

    # ---- exchanges of an optimizer step ----

    def group(self, axis):
        stride = {"tensor": 1, "context": self.layout.tensor, "replicas": self.layout.tensor,
                  "stages": self.layout.tensor * self.layout.replicas}[axis]
        return Group(getattr(self.layout, axis), stride, self.machine.ranks_per_node)

    def gradients_s(self):
        group, zero = self.group("replicas"), self.layout.zero
        sent = traffic.gradients(self.parameters, group.size, zero) / group.size
        return exchange_s(self.machine, group, sent, messages=2 if zero < 2 else 1)

    def parameters_s(self):
        group = self.group("replicas")
        sent = traffic.parameters_gathered(self.parameters, group.size, self.layout.zero,
                                           self.matrices, ITEM)
        return exchange_s(self.machine, group, sent / group.size) if sent else 0.0

    def sums_s(self):
        """Sums of the tensor axis: each is two exchanges."""
        group, layers = self.group("tensor"), self.shape.layers / self.layout.stages
        sent = layers * traffic.tensor_layer(self.shape, group.size, self.rows) / group.size
        again = 1.5 if self.recompute else 1
        return again * exchange_s(self.machine, group, sent, 8 * layers * self.micro_batches)

    def vocabulary_s(self):
        """Of the tensor axis: embedded rows and log-probs merged, statistics gathered, gradients of
        the head's input summed; an all-reduce is two exchanges."""
        group, s = self.group("tensor"), self.shape
        sent = traffic.tensor_embedding(s, group.size, self.rows)
        sent += traffic.tensor_head(s, group.size, self.loss_rows)
        return exchange_s(self.machine, group, sent / group.size, 7 * self.micro_batches)

    def context_s(self):
        group, layers = self.group("context"), self.shape.layers / self.layout.stages
        rows = self.rows * group.size
        block = 16 * self.shape.kv_row_bytes / self.shape.layers
        sent = traffic.context_layer(self.shape, group.size, rows, rows / 16, block) / group.size
        return exchange_s(self.machine, group, layers * sent, 3 * layers * self.micro_batches)

    def stages_s(self):
        """Of a stage between two others: it sends on and back what it has computed."""
        group, stages = self.group("stages"), self.layout.stages
        if stages == 1:
            return 0.0
        sent = traffic.stage_rows(self.shape, stages, self.rows) / (stages - 1)
        sent += traffic.tied_embedding(self.shape, stages)
        link = group.link(self.machine)
        return 2 * self.micro_batches * link.latency_s + sent / link.bytes_per_s

    # ---- rollout ----

    def sequences(self):
        """Of an engine at once: as many as it may have, and as its memory holds."""
        wanted = min(math.ceil(self.work.samples / self.layout.replicas), self.work.max_num_seqs)
        parts = self.layout.tensor * self.layout.stages
        left = self.machine.memory_bytes - self.kept_bytes()
        held = int(left * parts / (self.shape.kv_row_bytes * self.work.tokens))
        return max(1, min(wanted, held))

    def rounds(self):
        own = math.ceil(self.work.samples / self.layout.replicas)
        return self.work.response * math.ceil(own / self.sequences())

    def decode_terms(self):
        """Seconds of one round: weights, keys and values, exchanges. Stages come in turn."""
        s, t, b = self.shape, self.layout.tensor, self.sequences()
        weights = (s.layers * s.layer_weights + s.head_weights) / t
        rate = self.machine.read_bytes_per_s
        computed = max(weights * ITEM / rate, 2 * b * weights / self.machine.matmul_flops)
        keys = b * (self.work.prompt + self.work.response / 2) * s.kv_row_bytes / t / rate
        sent = s.layers * traffic.tensor_layer(s, t, b) / 2 / t
        sums = exchange_s(self.machine, self.group("tensor"), sent, 4 * s.layers)
        sent = traffic.tensor_embedding(s, t, b) + traffic.tensor_sampling(s, t, b)
        sums += exchange_s(self.machine, self.group("tensor"), sent / t, 6)
        link = self.group("stages").link(self.machine)
        turns = (self.layout.stages - 1) * (link.latency_s + 4 * s.hidden * b / link.bytes_per_s)
        return computed, keys, sums + turns

    def prefill_s(self):
        prompts = math.ceil(self.work.samples / self.work.group / self.layout.replicas)
        flop = 2 * self.shape.layers * self.shape.layer_weights / self.layout.tensor
        return prompts * self.work.prompt * flop / self.machine.matmul_flops

    def rollout_terms(self):
        if not self.work.rollout:
            return {}
        weights, keys, sums = (self.rounds() * each for each in self.decode_terms())
        return {"prefill": self.prefill_s(), "decode: weights": weights,
                "decode: keys and values": keys, "decode: exchanges": sums}

    # ---- all of it ----

    def terms(self):
        """Seconds by term."""
        layers, head = self.stage_s()
        step = {"layers": layers, "head": head, "bubble": self.bubble_s(),
                "tensor sums": self.sums_s(), "vocabulary": self.vocabulary_s(),
                "context": self.context_s(), "stages": self.stages_s(),
                "gradients": self.gradients_s(), "parameters": self.parameters_s(),
                "update": self.update_s()}
        train = {name: self.work.optimizer_steps * each for name, each in step.items()}
        return {**self.rollout_terms(), **train, "publish": self.publish_s()}

    def seconds(self):
        return sum(self.terms().values())

    def bottleneck(self):
        terms = self.terms()
        return max(terms, key=terms.get)

    def tokens_per_s(self):
        return self.work.samples * self.work.tokens / self.seconds()
