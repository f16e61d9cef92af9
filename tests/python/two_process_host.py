"""A process of the test of two processes: it samples, trains, or does both.

usage: two_process_host.py alone|sampler|trainer MODEL [IN OUT]

IN and OUT are descriptors of pipes to the other process: groups of samples go one way as bytes,
weights come back as tensors. At its end each prints the digest of its weights.
"""
import math
import os
import struct
import sys

import rl

STEPS, PROMPTS, GROUP = 10, 3, 4
INSTANCES = {"alone": 0, "sampler": 1, "trainer": 2}


class Host:
    """What a process has: an engine to sample, a trainer to train. The budget of a micro-batch is
    given, since it would follow from the memory that each process has left."""

    def __init__(self, role, model):
        self.options = rl.Options({
            "model.path": model, "runtime.threads": 1, "runtime.seed": 11,
            "runtime.instance": INSTANCES[role], "engine.max_num_seqs": 8,
            "engine.max_model_len": 64, "pipeline.samples_per_prompt": GROUP,
            "sampling.max_new_tokens": 12, "trainer.max_tokens_per_device": 128,
            "optimizer.lr": 1e-3, "buffer.max_staleness": 0})
        use = {"alone": rl.Use.PARTS, "sampler": rl.Use.GENERATE, "trainer": rl.Use.TRAIN}[role]
        self.runtime = rl.Runtime(self.options)
        self.model = rl.Model(self.runtime, self.options, use)
        if role != "trainer":
            self.engine = rl.Engine(self.model)
        if role != "sampler":
            self.trainer = rl.Trainer(self.model)
            self.buffer = rl.Buffer(self.options, PROMPTS * GROUP)

    def sample(self, step):
        """The scored groups of a step. Their ordinals, which random numbers follow from, are the
        host's."""
        for i in range(PROMPTS):
            self.engine.submit([1, 2 + i, 3 + step], GROUP, ordinal=PROMPTS * step + i,
                               tag=f"step {step}")
        self.engine.run()
        batch = self.engine.take()
        assert len(batch) == PROMPTS * GROUP
        for index, sample in enumerate(batch):
            ids = sample.response_ids.tolist()
            batch.set_reward(index, sum(token % 2 == 0 for token in ids) / len(ids))
        return batch

    def train(self, batch, step):
        """Trains on groups that were sampled from the present weights."""
        self.buffer.put(batch)
        event = self.trainer.step(self.buffer.take(min_groups=PROMPTS, version=step))
        assert event.metric("training/logprob_max_abs_diff") == 0
        assert event.metric("training/logprob_compared_tokens") > 0
        self.trainer.publish()


def alone(host):
    before = host.model.digest
    for step in range(STEPS):
        host.train(host.sample(step), step)
    assert host.model.digest != before


def sampler(host, source, sink):
    for step in range(STEPS):
        data = host.sample(step).to_bytes()
        sink.write(struct.pack("<Q", len(data)) + data)
        sink.flush()
        weights = {}
        for name in host.model.weight_names:
            shape = host.model.weight(name).shape
            data = bytearray(exactly(source, 4 * math.prod(shape)))
            weights[name] = memoryview(data).cast("f", shape)
        assert host.model.set_weights(weights) == step + 1


def trainer(host, source, sink):
    for step in range(STEPS):
        size, = struct.unpack("<Q", exactly(source, 8))
        batch = rl.Batch.from_bytes(exactly(source, size))
        assert {sample.tag for sample in batch} == {f"step {step}"}
        assert {sample.sample_id >> 48 for sample in batch} == {INSTANCES["sampler"]}
        host.train(batch, step)
        for name in host.model.weight_names:
            sink.write(host.model.weight(name).memoryview().tobytes())
        sink.flush()


def exactly(source, size):
    data = source.read(size)
    assert len(data) == size, "the other process is gone"
    return data


def main(role, model, *pipe):
    host = Host(role, model)
    files = [os.fdopen(int(end), mode) for end, mode in zip(pipe, ("rb", "wb"))]
    {"alone": alone, "sampler": sampler, "trainer": trainer}[role](host, *files)
    print(host.model.digest, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
