"""Ranks that exchange by a transport of the host (comm.backend = host)."""
import collections
import threading

import pytest

import rl
from conftest import PATIENCE_S, SETTINGS


class PostOffice:
    """Where the ranks of a process leave messages for one another."""

    def __init__(self):
        self.changed = threading.Condition()
        self.mail = collections.defaultdict(collections.deque)
        self.lost = None

    def leave(self, rank):
        with self.changed:
            self.lost = rank if self.lost is None else self.lost
            self.changed.notify_all()


class Member(rl.Transport):
    """A rank of an office."""

    num_ranks = 2

    def __init__(self, office, rank):
        self.office, self.rank = office, rank

    def exchange(self, channel, sends, receives, timeout_s):
        office = self.office
        with office.changed:
            for message in sends:
                office.mail[channel, self.rank, message.rank].append(bytes(message.data))
            office.changed.notify_all()
            for message in receives:
                box = office.mail[channel, message.rank, self.rank]
                came = office.changed.wait_for(lambda: office.lost is not None or box, timeout_s)
                if office.lost is not None:
                    raise rl.LostRank(office.lost, "the office is closed")
                if not came:
                    raise rl.LostRank(message.rank, "no mail in time")
                message.data[:] = box.popleft()

    def abandon(self, rank, why):
        self.office.leave(rank)


def options_of(backend):
    return rl.Options({**SETTINGS, "model.dtype": "fp32", "parallel.data": 2,
                       "comm.backend": backend, "comm.timeout_ns": PATIENCE_S * 10**9})


def group(model):
    """A scored group, the same from equal models."""
    with rl.Engine(model) as engine:
        engine.submit([1, 2, 3], 2, ordinal=1)
        engine.run()
        batch = engine.take()
    for index in range(2):
        batch.set_reward(index, index)
    return batch


def train(runtimes, options):
    """The digests of two ranks after a step on one batch."""
    models = [rl.Model(runtime, options, rl.Use.PARTS) for runtime in runtimes]
    trainers = [rl.Trainer(model, options) for model in models]
    batches = [group(model) for model in models]
    other = threading.Thread(target=lambda: trainers[1].step(batches[1]))
    other.start()
    trainers[0].step(batches[0])
    other.join()
    return [model.digest for model in models]


def test_ranks_train_to_the_weights_of_threads():
    options, office = options_of("host"), PostOffice()
    hosted = [rl.Runtime(options, transport=Member(office, rank)) for rank in range(2)]
    digests = train(hosted, options)
    assert digests[0] == digests[1]
    local = options_of("local")
    first = rl.Runtime(local)
    assert train([first, first.create_rank(1)], local) == digests


def test_a_lost_rank_is_named_with_the_hosts_words():
    options, office = options_of("host"), PostOffice()
    runtime = rl.Runtime(options, transport=Member(office, 0))
    model = rl.Model(runtime, options, rl.Use.PARTS)
    trainer, batch = rl.Trainer(model, options), group(model)
    office.leave(1)
    with pytest.raises(rl.Error, match="the office is closed") as failure:
        trainer.step(batch)
    assert (failure.value.code, failure.value.location) == (rl.Code.RANK_LOST, "rank 1")


def test_what_the_host_provides_is_what_the_options_ask_for():
    with pytest.raises(rl.Error) as failure:
        rl.Runtime(options_of("local"), transport=Member(PostOffice(), 0))
    assert (failure.value.code, failure.value.key) == (rl.Code.CONFLICT, "comm.backend")
    with pytest.raises(rl.Error) as failure:
        rl.Runtime(options_of("host"))
    assert failure.value.code == rl.Code.FAILED_PRECONDITION
