"""The host's own loop: engine, conversation, buffer and trainer."""
import asyncio
import json
import logging
import pickle
import threading
import time

import pytest

import rl
from conftest import PATIENCE_S, ROOT


def test_a_step_by_parts_trains_on_what_the_engine_generated(host):
    batch, trainer, buffer = host.group(), rl.Trainer(host.model), rl.Buffer(host.options, 2)
    for sample in batch:
        logprobs = trainer.logprobs(sample.ids, sample.num_prompt, sample.temperature)
        assert logprobs.tolist() == sample.logprobs.tolist()  # bit for bit
    buffer.put(batch)
    assert (buffer.stats().samples, buffer.stats().whole_groups) == (2, 1)
    before = host.model.digest
    event = trainer.step(buffer.take(1))
    assert event.kind is rl.EventKind.STEP and event.metric("actor/grad_norm") > 0
    assert trainer.publish() == host.model.version == 1 and host.model.digest != before
    assert buffer.take() is None


def test_given_advantages_replace_rewards(host):
    batch, trainer = host.group(), rl.Trainer(host.model)
    with pytest.raises(rl.Error) as raised:
        trainer.step(batch, [1.0])
    assert raised.value.code == rl.Code.INVALID_ARGUMENT
    assert trainer.step(batch, [1.0, -1.0]).metric("actor/grad_norm") > 0
    assert len(trainer.hidden([1, 2, 3])) == 3


def test_a_step_in_two_halves_takes_the_gradients_as_the_host_leaves_them(host):
    batch, trainer = host.group(), rl.Trainer(host.model)
    before = host.model.digest
    trainer.backward(batch)
    all_of_them, norm = trainer.gradient(), trainer.gradient("model.norm.weight", copy=True)
    assert all_of_them.shape[0] > len(norm) == 64 and not all_of_them.read_only
    view = all_of_them.memoryview()
    view[0] = float("nan")
    event = trainer.apply()
    assert event.metric("training/skipped_steps") == 1 and host.model.digest == before
    trainer.backward(batch, total_tokens=100, total_sequences=10)
    assert trainer.apply().metric("actor/grad_norm") > 0
    assert host.model.version == 1 and host.model.digest != before
    with pytest.raises(rl.Error) as raised:
        trainer.apply()
    assert raised.value.code == rl.Code.FAILED_PRECONDITION


def test_a_trainer_goes_on_from_its_checkpoint(host, tmp_path):
    batch, trainer = host.group(), rl.Trainer(host.model)
    trainer.step(batch)
    path = trainer.save(tmp_path / "c", "row \u03c0", keep_last=2)
    assert path.endswith("step_000001")
    digest = host.model.digest
    trainer.step(batch)
    following = host.model.digest
    assert trainer.load(tmp_path / "c") == "row \u03c0" and host.model.digest == digest
    trainer.step(batch)
    assert host.model.digest == following
    changed = host.options.clone()
    changed["optimizer.lr"] = 0.0
    trainer.set_options(changed)
    assert trainer.step(batch).metric("actor/lr") == 0
    trainer.cancel()  # nothing runs


def test_forwards_need_no_trainer(host):
    batch, trainer = host.group(), rl.Trainer(host.model)
    served = rl.Model(host.runtime, host.options, rl.Use.FORWARD)
    for output in (rl.Output.LOGPROBS, rl.Output.ENTROPIES):
        assert bytes(served.forward(output, batch).memoryview()) == \
            bytes(trainer.forward(output, batch).memoryview())
    rows = served.forward(rl.Output.LOGITS, batch, rows=[4, 0])
    assert rows.shape == (2, host.model.info.vocab)
    assert served.forward(rl.Output.HIDDEN, batch).shape[1] == host.model.info.hidden
    with pytest.raises(rl.Error) as raised:
        served.forward(rl.Output.VALUES, batch)
    assert raised.value.code == rl.Code.FAILED_PRECONDITION


def test_an_engine_returns_samples_as_they_finish(host):
    engine = rl.Engine(host.model)
    short = rl.Options({"sampling.max_new_tokens": 1})
    long_id = engine.submit([1, 2, 3])
    short_id = engine.submit([1, 2, 3], sampling=short)
    batches = [[sample.sample_id for sample in batch] for batch in engine.batches()]
    assert batches == [[short_id], [long_id]]
    stats = engine.stats()
    assert stats.finished == 2 and stats.running == 0 and engine.take() is None
    assert engine.stats(replica=0) == stats
    assert not engine.step()


def test_an_aborted_sample_goes_on_where_it_was(host):
    engine = rl.Engine(host.model)
    engine.submit([1, 2, 3])
    engine.run()
    whole = engine.take()[0].ids.tolist()
    again = rl.Engine(host.model)
    first = again.submit([1, 2, 3])
    again.step()
    again.step()
    again.abort(first)
    part = again.take()[0]
    assert part.finish is rl.Finish.ABORTED and 3 < part.num_ids < len(whole)
    rest = host.options.clone()
    rest["sampling.max_new_tokens"] = len(whole) - part.num_ids
    again.submit(resume=part, sampling=rest)
    again.run()
    assert again.take()[0].ids.tolist() == whole


def test_a_pause_ends_a_run_and_a_drain_lets_what_has_started_finish(host):
    engine = rl.Engine(host.model)
    engine.submit([1, 2, 3], 2)
    engine.step()
    engine.pause()
    with pytest.raises(rl.Paused):
        engine.run()
    engine.unpause()
    engine.drain()
    assert len(engine.take()) == 2
    waiting = engine.submit([1, 2, 3])
    engine.drain(0)
    assert engine.take() is None
    engine.unpause()
    engine.run()
    assert engine.take()[0].sample_id == waiting


def test_sleep_frees_memory_and_wake_takes_it_again(host):
    engine = rl.Engine(host.model)
    engine.sleep(1)
    engine.submit([1, 2, 3])
    with pytest.raises(rl.Error) as raised:
        engine.run()
    assert raised.value.code == rl.Code.FAILED_PRECONDITION
    engine.wake()
    engine.run()
    assert len(engine.take()) == 1


def test_a_conversation_trains_on_the_tokens_of_the_model_alone(host):
    engine, trainer = rl.Engine(host.model), rl.Trainer(host.model)
    first = rl.Conversation(engine, [1, 2, 3])
    second = first.fork()
    for turn, conversation in enumerate((first, second)):
        conversation.generate()
        engine.run()
        conversation.append([7, 8 + turn])
        conversation.generate()
        engine.run()
    assert engine.take() is None
    info = first.info
    assert info.num_turns == 2 and not info.generating and second.info.ordinal == info.ordinal
    buffer = rl.Buffer(host.options, 2)
    for reward, conversation in enumerate((first, second)):
        batch = conversation.sample()
        mask = batch[0].loss_mask.tolist()
        assert mask.count(0) == 2 and batch[0].ids.tolist()[3 + mask.index(0)] == 7
        batch.set_reward(0, reward)
        buffer.put(batch)
    assert trainer.step(buffer.take()).metric("actor/grad_norm") > 0


def test_foreign_samples_are_trained_on(host):
    trainer, buffer = rl.Trainer(host.model), rl.Buffer(host.options, 4)
    for slot in range(2):
        buffer.put(rl.Sample(ids=[1, 2, 3, 10 + slot, 4], num_prompt=3, ordinal=5, slot=slot,
                             sample_id=slot + 1, reward=slot, scored=True, tag="é, elsewhere"))
    batch = buffer.take()
    assert [sample.tag for sample in batch] == ["é, elsewhere"] * 2
    assert batch[-1].slot == 1 and batch[0].logprobs is None
    assert trainer.step(batch).metric("training/samples_without_logprobs") == 2


def test_batches_of_the_host_are_joined_and_carried_as_bytes():
    made = rl.Batch.of(rl.Sample(ids=[1, 2, 3 + i], num_prompt=2, ordinal=i // 2, slot=i % 2,
                                 scored=True, tag="é") for i in range(3))
    made.set_reward(2, 4)
    turned, none = made.select([2, 0]), made.select([])
    both = rl.Batch.concat([turned, none, made])
    for got in (rl.Batch.from_bytes(both.to_bytes()), pickle.loads(pickle.dumps(both))):
        assert [s.ids[2] for s in got] == [5, 3, 3, 4, 5]
        assert [s.reward for s in got] == [4, 0, 0, 0, 4]
        assert {s.tag for s in got} == {"é"} and len(none) == 0
    again = rl.Batch.of(both)
    assert [s.ids.tolist() for s in again] == [s.ids.tolist() for s in both]
    with pytest.raises(rl.Error) as raised:
        made.select([3])
    assert (raised.value.code, raised.value.key) == (rl.Code.OUT_OF_RANGE, "parts[0].indices")
    with pytest.raises(rl.Error) as raised:
        rl.Batch.of([rl.Sample(ids=[1, 2], num_prompt=1, scored=True, reward=float("nan"))])
    assert (raised.value.code, raised.value.key) == (rl.Code.NON_FINITE, "samples[0].reward")
    for data in (b"", both.to_bytes()[:-1], bytearray(both.to_bytes() + b"x")):
        with pytest.raises(rl.Error) as raised:
            rl.Batch.from_bytes(data)
        assert raised.value.code == rl.Code.DATA_LOSS
        assert raised.value.location.startswith("data offset ")


def test_a_buffer_drops_groups_and_lets_them_age():
    options = rl.Options({"pipeline.samples_per_prompt": 2, "buffer.max_staleness": 1,
                          "buffer.policy": "newest"})
    buffer = rl.Buffer(options, 16)
    for ordinal in range(5):
        for slot in range(2):
            buffer.put(rl.Sample(ids=[1, 2], num_prompt=1, ordinal=ordinal, slot=slot,
                                 versions=[ordinal], scored=True))
    assert buffer.drop([]) == 0 and buffer.drop([0, 9]) == 2
    assert buffer.drop(incomplete_only=True) == 0 and buffer.drop(below_version=2) == 2
    assert {s.ordinal for s in buffer.take(1)} == {4}
    assert buffer.take(min_groups=2, version=4, timeout=0.01) is None
    stats = buffer.stats()
    assert (stats.samples, stats.groups, stats.whole_groups) == (2, 1, 1)
    assert (stats.put, stats.taken, stats.dropped, stats.stale) == (10, 2, 4, 2)
    assert (stats.stored, stats.duplicate_groups, stats.spilled_groups) == (0, 0, 0)
    assert buffer.drop() == 2 and buffer.stats().samples == 0


def test_a_wait_for_groups_ends_with_them_or_with_the_buffer(host):
    buffer, batch, ends = rl.Buffer(host.options, 4), host.group(), []

    def wait():
        try:
            ends.append(len(buffer.take(timeout=None)))
        except (rl.Done, rl.ClosedError, rl.Error) as raised:
            ends.append(type(raised))

    for end in (lambda: buffer.put(batch), buffer.close):
        waits = threading.Thread(target=wait)
        waits.start()
        end()
        waits.join(PATIENCE_S)
    assert ends[0] == 2 and len(ends) == 2 and ends[1] != 2


def test_requests_and_conversations_are_named_by_the_host(host):
    engine = rl.Engine(host.model)
    assert engine.submit([1, 2], 2, tag="row 7", ordinal=7, sample_id=900, slot=3) == 900
    with pytest.raises(rl.Error) as raised:
        engine.submit([1, 2], sample_id=901)
    assert raised.value.code == rl.Code.FAILED_PRECONDITION
    samples = [sample for batch in engine.batches() for sample in batch]
    named = sorted((s.sample_id, s.ordinal, s.slot, s.tag) for s in samples)
    assert named == [(900, 7, 3, "row 7"), (901, 7, 4, "row 7")]
    talk = rl.Conversation(engine, [1, 2], tag="talk", ordinal=9, sample_id=950)
    assert (talk.info.sample_id, talk.info.ordinal) == (950, 9)
    assert talk.sample()[0].tag == "talk"


def test_a_copy_of_a_sample_is_the_host_s_own(host):
    batch = host.group()
    batch.set_reward(0, 0.5, parts=[0.25, 4.0])
    sample = batch[0].copy()
    assert sample.reward_parts.tolist() == [0.25, 4.0] and sample.reward == 0.5
    assert sample.tag == ""
    batch.close()
    sample.ordinal = 77
    buffer = rl.Buffer(host.options, 4)
    sample.scored = True
    buffer.put(sample)
    assert buffer.stats().samples == 1
    with pytest.raises(IndexError):
        host.group()[2]


def test_a_buffer_file_carries_groups_to_another_buffer(host, tmp_path):
    buffer, other = rl.Buffer(host.options, 2), rl.Buffer(host.options, 2)
    buffer.put(host.group())
    path = tmp_path / "step.rlbuf"
    buffer.save(path, host.model)
    with pytest.raises(rl.Error) as raised:
        buffer.save(path)
    assert raised.value.code == rl.Code.ALREADY_EXISTS
    buffer.save(path, host.model, replace=True)
    info = rl.buffer_file_info(path)
    assert info.has_model and info.weight_digest == host.model.digest and info.group_size == 2
    assert other.load(path, host.model) == 2
    mine, theirs = buffer.take(), other.take()
    assert [s.ids.tolist() for s in mine] == [s.ids.tolist() for s in theirs]


def test_a_profiler_records_what_is_computed(host, tmp_path):
    with rl.Profiler(host.runtime) as profiler:
        host.group()
        assert profiler.count().records > 0 and "engine" in profiler.summary()
        profiler.write_trace(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 100


def test_a_saved_model_has_the_same_weights(host, tmp_path):
    host.model.save(tmp_path / "saved", rl.DType.F32)
    options = rl.Options({"model.path": tmp_path / "saved", "runtime.threads": 1})
    with rl.Runtime(options) as runtime, rl.Model(runtime, options, rl.Use.MODEL) as model:
        assert model.digest == host.model.digest
        assert model.info.family == "llama" and model.eos_ids


def test_text_goes_to_ids_and_back(open_host):
    path = ROOT / "tests/fixtures/gguf/tiny_llama_half.gguf"
    host = open_host(rl.Use.MODEL, model__path=path)
    ids = host.model.encode("2 + 3?")
    assert ids.format == "i" and host.model.decode(ids) == "2 + 3?"
    assert host.model.decode(ids.tolist()) == "2 + 3?"
    with pytest.raises(rl.Error) as raised:
        host.model.decode([-1])
    assert raised.value.code == rl.Code.OUT_OF_RANGE


def test_a_chat_is_messages_or_a_whole_object(open_host):
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ end }}"
    path = ROOT / "tests/fixtures/gguf/tiny_llama_half.gguf"
    place = open_host(rl.Use.MODEL).directory / "template.jinja"
    place.write_text(template, encoding="utf-8")
    model = open_host(rl.Use.MODEL, model__path=path, model__chat_template_path=place).model
    messages = [{"role": "user", "content": "2?"}]
    assert model.render_chat(messages) == "<user>2?"
    whole = {"messages": messages, "chat_template_kwargs": {"end": "!"}}
    assert model.render_chat(whole) == "<user>2?!"
    assert model.decode(model.encode_chat(json.dumps(whole))) == "<user>2?!"


def test_log_lines_reach_the_host(open_host, caplog):
    host, lines = open_host(rl.Use.MODEL, runtime__log_level="debug"), []

    def open_again():
        rl.Model(host.runtime, use=rl.Use.MODEL).close()

    host.runtime.set_log(lines.append)
    before = host.runtime.clock()
    open_again()
    after = host.runtime.clock()
    assert lines and all(line.level > rl.LogLevel.OFF and line.component for line in lines)
    loaded = next(line for line in lines if line.component == "model")
    assert loaded.fields["path"] in loaded.message and loaded.fields["parameters"] > 1000
    assert before.steady_ns <= loaded.steady_ns <= after.steady_ns
    assert abs(loaded.time - time.time()) < 3600
    count = len(lines)
    host.runtime.set_log(None)
    open_again()
    assert len(lines) == count
    with caplog.at_level(logging.DEBUG):
        host.runtime.set_log(logging.getLogger("mine"))
        open_again()
        host.runtime.set_log(lambda line: 1 / 0)
        open_again()
    assert any(record.name == f"mine.{lines[0].component}"
               and record.message == lines[0].message and record.fields == lines[0].fields
               for record in caplog.records)
    assert any(record.name == "rl" and record.exc_info[0] is ZeroDivisionError
               for record in caplog.records)


def test_an_engine_tells_of_its_samples(host):
    options = host.options.clone()
    options.update({"engine.thread": True, "engine.stream_tokens": 1})
    queue, engine = rl.EventQueue(), rl.Engine(host.model, options)
    engine.set_queue(queue, 3)
    first = engine.submit([1, 2, 3])
    ids = []
    while (event := queue.next(timeout=60)).kind is rl.EventKind.TOKENS:
        assert event.sample.sample_id == first and event.view.source == 3
        ids += list(event.sample.ids)
    assert event.kind is rl.EventKind.FINISHED
    assert list(event.sample.response_ids) == ids
    engine.run()
    assert list(engine.take()[0].response_ids) == ids
    queue.interrupt()
    with pytest.raises(rl.Interrupted):
        queue.next()
    with pytest.raises(rl.Timeout):
        queue.next(timeout=0)
    engine.set_queue(None)


def test_an_event_loop_waits_for_the_events_of_an_engine(host):
    options = host.options.clone()
    options["engine.thread"] = True
    queue, engine = rl.EventQueue(), rl.Engine(host.model, options)
    engine.set_queue(queue)
    beats = []

    async def beat():
        while True:
            beats.append(len(queue))
            await asyncio.sleep(0.01)

    async def serve():
        heart, events = asyncio.ensure_future(beat()), queue.__aiter__()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(events.__anext__(), 0.1)  # ends the wait alone
        assert len(beats) > 1  # others ran meanwhile
        first = engine.submit([1, 2, 3], 4)
        seen = set()
        async for event in events:
            assert event.kind is rl.EventKind.FINISHED
            seen.add(event.sample.sample_id)
            if len(seen) == 4:
                break
        heart.cancel()
        return seen == set(range(first, first + 4))

    assert asyncio.run(asyncio.wait_for(serve(), PATIENCE_S))
    queue.interrupt()
    with pytest.raises(rl.Interrupted):
        for _ in queue:
            pass


def test_iterating_a_queue_ends_with_its_pipeline(open_host):
    pipeline, kinds = open_host(rl.Use.PIPELINE).pipeline(1), []

    async def serve(queue):
        async for event in queue:
            kinds.append(event.kind)
            if event.kind is rl.EventKind.SCORE:
                pipeline.score(event.sample.sample_id, event.sample.slot)

    pipeline.start()
    with pipeline.queue() as queue:
        asyncio.run(asyncio.wait_for(serve(queue), PATIENCE_S))
        assert kinds.count(rl.EventKind.SCORE) == 2 and rl.EventKind.STEP in kinds
        assert list(queue) == []


def test_a_buffer_and_a_trainer_tell_of_what_they_do(open_host, tmp_path):
    host = open_host(buffer__max_staleness=0)
    queue, buffer, trainer = rl.EventQueue(), rl.Buffer(host.options, 8), rl.Trainer(host.model)
    buffer.set_queue(queue, 1)
    trainer.set_queue(queue, 2)

    def told():
        events = []
        while len(queue):
            events.append(queue.next(timeout=0))
        return [(event.kind, event.view.source) for event in events], events

    batch = host.group()
    buffer.put(batch)
    kinds, events = told()
    assert kinds == [(rl.EventKind.GROUPS, 1)] and events[0].view.count == 1
    step = trainer.step(buffer.take())
    kinds, events = told()
    assert kinds == [(rl.EventKind.STEP, 2), (rl.EventKind.PUBLISHED, 2)]
    assert events[0].metrics == step.metrics and events[1].view.version == host.model.version
    path = trainer.save(tmp_path / "saved")
    kinds, events = told()
    assert kinds == [(rl.EventKind.CHECKPOINT, 2)] and events[0].text == path
    buffer.put(batch)
    assert buffer.take(version=1) is None  # of version 0
    kinds, events = told()
    assert kinds == [(rl.EventKind.GROUPS, 1), (rl.EventKind.GROUP_DROPPED, 1)]
    assert events[0].view.count == 0 and events[1].view.reason is rl.DropReason.STALE
    buffer.set_queue(None)
    trainer.set_queue(None)
    buffer.put(batch)
    trainer.step(batch)
    assert told()[0] == []


def test_every_object_returns_its_options(open_host):
    host, own = open_host(), open_host(rl.Use.PIPELINE)
    given = host.options.clone()
    given["optimizer.lr"] = 0.25
    trainer = rl.Trainer(host.model, given)
    objects = [host.runtime, host.model, rl.Plan(host.options, rl.Use.MODEL),
               rl.Engine(host.model), rl.Buffer(host.options), rl.Pipeline(own.model)]
    for thing in objects:
        assert thing.options().dump() == host.options.dump()
    assert trainer.options().dump() == given.dump()
    given["optimizer.lr"] = 0.5
    trainer.set_options(given)
    assert trainer.options()["optimizer.lr"] == 0.5
