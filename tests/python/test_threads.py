"""Calls release the interpreter's lock, waits end on Ctrl-C, and objects may be closed under a
call of another thread."""
import array
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import rl
from conftest import MODEL, PATIENCE_S
from rl._arrays import Pinned
from rl._handle import Token

pytestmark = pytest.mark.filterwarnings("error")  # such as a thread that raised
HERE = pathlib.Path(__file__).resolve().parent


def eventually(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_wait_leaves_the_interpreter_to_other_threads(open_host):
    pipeline, ended = open_host(rl.Use.PIPELINE).pipeline(1), []

    def wait():
        with pytest.raises(rl.Timeout):
            pipeline.next(timeout=0.5)
        ended.append(time.monotonic())

    thread = threading.Thread(target=wait)
    start = time.monotonic()
    thread.start()
    counted = 0
    while not ended:
        counted += 1
    thread.join()
    assert counted > 1000 and ended[0] - start >= 0.5


def test_several_threads_answer_one_pipeline(open_host):
    steps = 6
    host = open_host(rl.Use.PIPELINE, pipeline__samples_per_prompt=4)
    pipeline, kinds = host.pipeline(steps), []

    def serve():
        for event in pipeline:
            kinds.append(event.kind)
            if event.kind is rl.EventKind.SCORE:
                event.score(float(event.sample.slot % 2))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    pipeline.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(kinds) == [rl.EventKind.SCORE] * 4 * steps + [rl.EventKind.STEP] * steps


@pytest.mark.parametrize("waits", [False, True])
def test_a_call_that_computes_waits_as_long_as_the_runtime_says(open_host, waits):
    settings = {"runtime__busy_timeout_ns": 10 ** 9 * 3600} if waits else {}
    host, ended = open_host(rl.Use.PIPELINE, **settings), []
    engine = rl.Engine(rl.Model(host.runtime, host.options, rl.Use.GENERATE))
    engine.submit([1, 2, 3], 2)
    pipeline = host.pipeline(1)
    pipeline.start()
    if not waits:
        with pytest.raises(rl.Error, match="busy with a pipeline") as refused:
            engine.run()
        assert refused.value.code == rl.Code.BUSY
        return

    def run():
        engine.run()
        ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    assert not ended and engine.stats().waiting == 2  # which waits for nothing
    for event in pipeline:
        if event.kind is rl.EventKind.SCORE:
            event.score(float(event.sample.slot))
    thread.join(PATIENCE_S)
    assert ended and len(engine.take()) == 2


def test_closing_ends_the_wait_of_another_thread(open_host):
    pipeline, raised = open_host(rl.Use.PIPELINE).pipeline(1), []

    def wait():
        try:
            pipeline.next()
        except (rl.Error, rl.Outcome) as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    pipeline.close()
    thread.join(PATIENCE_S)
    assert isinstance(raised[0], (rl.Done, rl.Error))
    if isinstance(raised[0], rl.Error):
        assert raised[0].code == rl.Code.STALE_HANDLE


def test_texts_and_arrays_are_read_while_their_owner_is_closed(host):
    def read(batch, seen):
        try:
            while True:
                seen.append(batch[0].ids[0] + len(batch[1].logprobs))
        except rl.ClosedError:
            pass

    for _ in range(20):
        batch, seen = host.group(), []
        thread = threading.Thread(target=read, args=(batch, seen))
        thread.start()
        eventually(lambda: seen)
        batch.close()
        thread.join(PATIENCE_S)
        assert set(seen) == {5}


@pytest.mark.parametrize("wait", ["next", "iterate", "run", "checkpoint"])
def test_ctrl_c_ends_a_wait(wait, tmp_path):
    program = subprocess.Popen(
        [sys.executable, HERE / "waiting_host.py", wait, MODEL, tmp_path], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "waiting\n", program.stderr.read()
        time.sleep(0.3)
        assert program.poll() is None, program.stderr.read()
        os.kill(program.pid, signal.SIGINT)
        out, errors = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
        program.communicate()
    assert out == "interrupted\n" and program.returncode == 0, errors


def test_ctrl_c_during_a_call_is_not_lost_when_its_array_is_let_go():
    raise_signal = ctypes.CDLL(None)["raise"]  # a call of C code, like those of librl

    class Argument(Pinned):
        _as_parameter_ = 0

    with pytest.raises(KeyboardInterrupt):
        raise_signal(int(signal.SIGINT), Argument(array.array("f", [1])))


def test_ctrl_c_while_a_dropped_object_ends_is_raised_by_the_next_call(host):
    token = Token("rl_options", 1)  # ends as below, not as options
    ended = []

    def end_interrupted(value):
        ended.append(value)
        signal.raise_signal(signal.SIGINT)

    token._end = end_interrupted
    del token
    assert ended == [1]
    with pytest.raises(KeyboardInterrupt):
        _ = host.model.version


def test_a_host_that_ends_without_closing_ends_cleanly(tmp_path):
    done = subprocess.run([sys.executable, HERE / "forgetful_host.py", MODEL, tmp_path], text=True,
                          capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.endswith("called\nended\nreturned\n")  # the step in training is finished


def test_ctrl_c_inside_a_function_of_the_host_ends_the_call(open_host):
    host = open_host(rl.Use.PARTS, algo__advantage="custom", runtime__log_level="debug")
    batch, trainer = host.group(), rl.Trainer(host.model)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    trainer.set_advantage(interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.step(batch)
    host.runtime.set_log(interrupt)
    before = host.runtime.reserved_bytes
    with pytest.raises(KeyboardInterrupt):
        rl.Model(host.runtime, use=rl.Use.PARTS)
    host.runtime.set_log(None)
    assert host.runtime.reserved_bytes == before  # the model has ended


def test_an_event_that_came_with_ctrl_c_is_not_lost(open_host, monkeypatch):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    pipeline.start()
    eventually(lambda: pipeline.stats.unscored == 2)
    import rl.pipeline as module
    plain = module.result

    def interrupted(*arguments):
        plain(*arguments)
        raise KeyboardInterrupt  # as if the signal had come during the call

    monkeypatch.setattr(module, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipeline.next()
    monkeypatch.undo()
    seen = [pipeline.next(PATIENCE_S).sample.slot for _ in range(2)]
    assert seen == [0, 1]


@pytest.mark.parametrize("ends", ["the call", "the wait"])
def test_an_event_of_a_queue_that_came_with_ctrl_c_is_not_lost(host, monkeypatch, ends):
    queue, engine = rl.EventQueue(), rl.Engine(host.model)
    engine.set_queue(queue)
    first = engine.submit([1, 2, 3], 2)
    engine.run()
    import rl.event as module
    name = "result" if ends == "the call" else "waiting"
    plain = getattr(module, name)

    def interrupted(*arguments):
        plain(*arguments)
        raise KeyboardInterrupt  # as if the signal had come meanwhile

    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.next()
    monkeypatch.undo()
    assert len(queue) == 2
    assert {queue.next(0).sample.sample_id for _ in range(2)} == {first, first + 1}
    with pytest.raises(rl.Timeout):
        queue.next(0)
