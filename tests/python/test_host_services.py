"""What a host provides to a runtime: files, spans of its own work in the trace, a clock."""
import json
import threading
import time

import pytest

import rl
from conftest import MODEL, SETTINGS, run_to_end


class MemoryFiles(rl.FileSystem):
    """Files in memory. `fails` is what the next call raises."""

    def __init__(self):
        self.files, self.directories, self.open_count = {}, set(), 0
        self.lock = threading.Lock()
        self.fails = None

    def step(self):
        if self.fails is not None:
            raised, self.fails = self.fails, None
            raise raised

    def open(self, path):
        self.step()
        if path not in self.files:
            raise FileNotFoundError(path)
        self.open_count += 1
        return self.files[path], len(self.files[path])

    def create(self, path, append):
        self.step()
        self.files[path] = bytearray(self.files.get(path, b"") if append else b"")
        self.open_count += 1
        return self.files[path]

    def read(self, file, offset, into):
        into[:] = file[offset:offset + len(into)]

    def write(self, file, data):
        file.extend(data)

    def close(self, file, discard):
        self.open_count -= 1

    def kind(self, path):
        self.step()
        if path in self.files:
            return rl.FileKind.REGULAR
        there = any(name.startswith(path + "/") for name in [*self.files, *self.directories])
        return rl.FileKind.DIRECTORY if there or path in self.directories else rl.FileKind.ABSENT

    def list(self, path):
        names = [name[len(path) + 1:] for name in [*self.files, *self.directories]
                 if name.startswith(path + "/")]
        return {name.split("/")[0] for name in names}

    def make_directories(self, path):
        self.directories.add(path)

    def rename(self, source, target):
        with self.lock:
            moved = {name: target + name[len(source):] for name in [*self.files, *self.directories]
                     if name == source or name.startswith(source + "/")}
            self.files.pop(target, None)
            self.files = {moved.get(name, name): data for name, data in self.files.items()}
            self.directories = {moved.get(name, name) for name in self.directories}

    def remove(self, path):
        def inside(name):
            return name == path or name.startswith(path + "/")
        self.files = {name: data for name, data in self.files.items() if not inside(name)}
        self.directories = {name for name in self.directories if not inside(name)}


@pytest.fixture
def files():
    made = MemoryFiles()
    for name in ("config.json", "model.safetensors"):
        made.files[f"model/{name}"] = bytearray((MODEL / name).read_bytes())
    rows = "".join(json.dumps({"ids": [1, 2, 3, 4 + i]}) + "\n" for i in range(2))
    made.files["rows.jsonl"] = bytearray(rows, "utf-8")
    return made


def options_of(**settings):
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return rl.Options({**SETTINGS, "model.path": "model", **named})


def test_a_run_has_its_files_in_memory(files):
    options = options_of(data__path="rows.jsonl", pipeline__total_steps=2,
                         checkpoint__dir="checkpoints", checkpoint__every_steps=1,
                         metrics__jsonl="metrics.jsonl")
    with rl.Runtime(options, files) as runtime:
        assert rl.Plan(None, rl.Use.PIPELINE, runtime).info.total_bytes > 0
        with rl.Model(runtime, options, rl.Use.PIPELINE) as model:
            with rl.Pipeline(model, options) as pipeline:
                run_to_end(pipeline)
            model.save("saved", rl.DType.F32)
            digest = model.digest
        assert any(name.startswith("checkpoints/step_") for name in files.files)
        assert len(files.files["metrics.jsonl"].splitlines()) == 2
        with rl.Model(runtime, options_of(model__path="saved"), rl.Use.MODEL) as again:
            assert again.digest == digest
    assert files.open_count == 0


def test_what_a_method_raises_is_the_error_of_the_call(files):
    options = options_of()
    with rl.Runtime(options, files) as runtime:
        for raised, code, text in ((PermissionError(13, "the token has expired"), rl.Code.IO,
                                    "the token has expired"),
                                   (KeyError("bucket"), rl.Code.IO, "KeyError: 'bucket'"),
                                   (FileNotFoundError("gone"), rl.Code.NOT_FOUND, "gone")):
            files.fails = raised
            with pytest.raises(rl.Error, match=text) as failure:
                rl.Model(runtime, options, rl.Use.MODEL)
            assert failure.value.code == code
        files.fails = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            rl.Model(runtime, options, rl.Use.MODEL)


def test_buffers_use_the_files_of_a_runtime(host, files):
    with rl.Runtime(options_of(), files) as runtime:
        buffer = rl.Buffer(host.options)
        buffer.put(host.group())
        buffer.set_runtime(runtime)
        buffer.save("samples.rlbuf")
        assert "samples.rlbuf" in files.files
        assert rl.buffer_file_info("samples.rlbuf", runtime).group_size == 2
        other = rl.Buffer(host.options)
        other.set_runtime(runtime)
        assert other.load("samples.rlbuf") == 2


def test_spans_of_the_host_are_in_the_trace(host, tmp_path):
    with rl.Profiler(host.runtime) as profiler:
        with host.runtime.span("judge", lane="rewards"):
            time.sleep(0.002)
        profiler.write_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    span = next(event for event in trace["traceEvents"] if event["name"] == "judge")
    assert span["dur"] >= 2000
    lanes = [event["args"]["name"] for event in trace["traceEvents"]
             if event["name"] == "thread_name" and event["tid"] == span["tid"]]
    assert lanes == ["rewards"]
    clock = host.runtime.clock()
    assert abs(clock.steady_ns - time.monotonic_ns()) < 60e9
    assert abs(clock.unix_ns - time.time_ns()) < 60e9
    assert int(trace["otherData"]["origin_ns"]) <= clock.steady_ns
    with pytest.raises(rl.Error, match="span.end_ns"):
        host.runtime.trace_span("rewards", "judge", 2, 1)


class MemoryStore(rl.Store):
    """A queue in memory. `fails` is what the next call raises."""

    def __init__(self):
        self.ready, self.claimed, self.damaged, self.book = {}, {}, {}, None
        self.fails = None

    def step(self):
        if self.fails is not None:
            raised, self.fails = self.fails, None
            raise raised

    def put(self, name, group):
        self.step()
        self.ready[name] = group

    def claim(self, max_groups):
        for token in sorted(self.ready)[:max_groups]:
            self.claimed[token] = self.ready.pop(token)
            yield token, self.claimed[token]
            self.step()

    def recover(self):
        self.ready.update(self.claimed)
        self.claimed = {}

    def acknowledge(self, token):
        self.step()
        self.claimed.pop(token, None)

    def set_aside(self, token):
        self.damaged[token] = self.claimed.pop(token)

    def read_book(self):
        return self.book

    def write_book(self, book):
        self.step()
        self.book = book


def stored(store, *ordinals):
    buffer = rl.Buffer(rl.Options({"pipeline.samples_per_prompt": 1}), 16, store)
    for ordinal in ordinals:
        buffer.put(rl.Sample(ids=[1, 2, 3], num_prompt=1, ordinal=ordinal, sample_id=ordinal + 1,
                             scored=True))
    return buffer


def test_groups_go_through_a_store_of_the_host_once():
    store = MemoryStore()
    with stored(store, 0, 1, 2) as sampler, stored(store) as trainer:
        assert len(store.ready) == 3 and sampler.stats().stored == 3
        assert [s.ordinal for s in trainer.take(2, step=1)] == [0, 1]
        assert store.claimed and store.book
    with stored(store) as trainer:  # it died before the step was durable
        trainer.resume(0)
        assert [s.ordinal for s in trainer.take(step=1)] == [0, 1, 2]
        trainer.acknowledge(1)
        assert not store.claimed
        stored(store, 1).close()
        assert trainer.take(step=2) is None and trainer.stats().duplicate_groups == 1
        stored(store, 9).close()
        (token, group), = store.ready.items()
        store.ready[token] = group[:60] + b"?" + group[61:]
        with pytest.raises(rl.Error) as failure:
            trainer.take(step=2)
        assert failure.value.code == rl.Code.DATA_LOSS and list(store.damaged) == [token]


def test_what_a_store_raises_is_the_error_of_the_call():
    store = MemoryStore()
    with stored(store, 0, 1) as buffer:
        for raised, text in ((ConnectionResetError(104, "the queue is gone"), "the queue is gone"),
                             (KeyError("stream"), "KeyError: 'stream'")):
            store.fails = raised
            with pytest.raises(rl.Error, match=text) as failure:
                buffer.take(step=1)
            assert failure.value.code == rl.Code.IO
        store.fails = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            buffer.take(step=1)
        store.recover()
        buffer.resume(0)
        assert len(buffer.take(step=1)) == 2
        store.fails = OSError(28, "the disk of the queue is full")
        with pytest.raises(rl.Error, match="full") as failure:
            buffer.acknowledge(1)
        assert failure.value.code == rl.Code.IO
        buffer.acknowledge(1)
