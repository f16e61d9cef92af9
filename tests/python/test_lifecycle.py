"""Objects end exactly once, in any order; what is closed says so; what was read stays valid."""
import gc
import weakref

import pytest

import rl


def everything(host, pipelines):
    """An object of every class with a call that needs its handle."""
    engine, trainer = rl.Engine(host.model), rl.Trainer(host.model)
    conversation = rl.Conversation(engine, [1, 2])
    batch = host.group(engine)
    step = trainer.step(batch)
    pipeline = pipelines.pipeline(1)
    return [
        (host.options, lambda o: o["runtime.seed"]), (host.runtime, lambda o: o.threads),
        (rl.Plan(host.options, rl.Use.MODEL), len), (host.model, lambda o: o.info),
        (rl.Profiler(host.runtime), lambda o: o.count()), (conversation, lambda o: o.info),
        (host.model.weight(host.model.weight_names[0]), lambda o: o.shape),
        (batch, len), (step, lambda o: o.metric("actor/loss")), (engine, lambda o: o.stats()),
        (trainer, lambda o: o.publish()), (rl.Buffer(host.options, 8), lambda o: o.stats()),
        (pipeline.queue(), lambda o: o.fileno()), (pipeline, lambda o: o.stats)]


def test_a_closed_object_raises_whatever_is_asked_of_it(open_host):
    pairs = everything(open_host(), open_host(rl.Use.PIPELINE))
    classes = {cls for cls in vars(rl).values()
               if isinstance(cls, type) and issubclass(cls, rl.Options.__mro__[1])}
    assert {type(thing) for thing, _ in pairs} == classes
    for thing, use in pairs:
        use(thing)
    for thing, use in pairs:
        assert not thing.closed
        thing.close()
        thing.close()
        assert thing.closed and "(closed)" in repr(thing)
        with pytest.raises(rl.ClosedError, match=f"the {type(thing).__name__} is closed"):
            use(thing)
        with pytest.raises(rl.ClosedError), thing:
            pass


def test_a_with_block_closes(host):
    with rl.Engine(host.model) as engine:
        engine.submit([1, 2])
        engine.run()
    assert engine.closed
    with pytest.raises(rl.ClosedError) as raised:
        engine.submit([1, 2])
    assert raised.value.code == rl.Code.STALE_HANDLE and isinstance(raised.value, ValueError)


def test_a_closed_object_is_refused_as_an_argument_too(host):
    batch, buffer = host.group(), rl.Buffer(host.options, 8)
    batch.close()
    with pytest.raises(rl.ClosedError, match="the Batch is closed"):
        buffer.put(batch)
    host.options.close()
    with pytest.raises(rl.ClosedError, match="the Options is closed"):
        rl.Runtime(host.options)


def test_objects_may_end_in_any_order(host):
    engine = rl.Engine(host.model)
    host.runtime.close()
    host.model.close()
    host.options.close()
    engine.submit([1, 2, 3])
    engine.run()
    assert engine.take()[0].num_generated > 0


def test_arrays_of_a_sample_outlive_their_batch(host):
    batch = host.group()
    sample = batch[1]
    ids, logprobs = sample.ids, sample.logprobs
    before = ids.tolist(), logprobs.tolist()
    batch.close()
    gc.collect()
    host.group()  # whatever was freed is used again
    assert (ids.tolist(), logprobs.tolist()) == before
    assert sample.slot == 1 and sample.ids is ids  # what was read stays
    with pytest.raises(rl.ClosedError):
        sample.versions  # what was not read is gone
    with pytest.raises(TypeError):
        ids[0] = 5


def test_nothing_keeps_an_object_that_nobody_refers_to(host):
    engine = rl.Engine(host.model)
    gone = weakref.ref(engine)
    batch = host.group(engine)
    sample = batch[0]
    held, view = weakref.ref(batch), sample.ids
    del engine, batch
    assert gone() is None and held() is not None  # a sample keeps its batch
    del sample
    assert held() is None and len(view) > 3


def test_a_trainer_that_is_forgotten_frees_its_memory(host):
    before = host.runtime.reserved_bytes
    trainer = rl.Trainer(host.model)
    assert host.runtime.reserved_bytes > before
    del trainer
    assert host.runtime.reserved_bytes == before


def test_handles_dropped_inside_a_callback_end_after_it(open_host):
    host = open_host(rl.Use.PARTS, algo__advantage="custom")
    batch, trainer = host.group(), rl.Trainer(host.model)
    kept = [rl.Engine(host.model)]
    before = host.runtime.reserved_bytes

    def advantage(tokens, advantages):
        kept.clear()  # librl ends nothing in here, and most calls are refused
        with pytest.raises(rl.Error) as raised:
            host.runtime.threads
        assert raised.value.code == rl.Code.WRONG_THREAD

    trainer.set_advantage(advantage)
    trainer.step(batch)
    assert not kept
    assert host.runtime.threads >= 1  # the next call ends what was dropped
    assert host.runtime.reserved_bytes < before
