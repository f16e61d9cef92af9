"""What the tests of the Python package share: a host with a tiny model, and a pipeline of it."""
import gc
import json
import pathlib

import pytest

import rl

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/fixtures/models/llama"
SETTINGS = {"model.path": MODEL, "runtime.threads": 1, "engine.max_num_seqs": 4,
            "engine.max_model_len": 64, "pipeline.samples_per_prompt": 2,
            "pipeline.prompts_per_step": 1, "sampling.max_new_tokens": 4, "runtime.seed": 7,
            "optimizer.lr": 1e-3}
PATIENCE_S = 60  # for what takes milliseconds on a free machine


class Host:
    """A runtime and a model of the tiny fixture."""

    def __init__(self, use, directory, **settings):
        named = {key.replace("__", "."): value for key, value in settings.items()}
        self.directory = directory
        self.options = rl.Options({**SETTINGS, **named})
        self.runtime = rl.Runtime(self.options)
        self.model = rl.Model(self.runtime, self.options, use)

    def pipeline(self, steps, **settings):
        """A pipeline of so many steps, each of one prompt."""
        rows = [{"ids": [1, 2, 3, 4 + i], "tag": f"row {i}"} for i in range(steps)]
        path = self.directory / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        options = self.options.clone()
        options.update({"data.path": path, "pipeline.total_steps": steps})
        options.update({key.replace("__", "."): value for key, value in settings.items()})
        return rl.Pipeline(self.model, options)

    def group(self, engine=None):
        """A batch of two samples with rewards 0 and 1."""
        engine = engine or rl.Engine(self.model)
        engine.submit([1, 2, 3], 2)
        engine.run()
        batch = engine.take()
        for index in range(2):
            batch.set_reward(index, index)
        return batch


@pytest.fixture
def open_host(tmp_path):
    """Makes hosts; all that they hold is closed with the test."""
    yield lambda use=rl.Use.PARTS, **settings: Host(use, tmp_path, **settings)
    gc.collect()


@pytest.fixture
def host(open_host):
    """A host for parts."""
    return open_host()


def run_to_end(pipeline):
    """Starts a pipeline, answers every sample with its slot, and returns all other events."""
    others = []
    pipeline.start()
    for event in pipeline:
        if event.kind == rl.EventKind.SCORE:
            event.score(float(event.sample.slot))
        else:
            others.append(event)
    return others


def pytest_terminal_summary(terminalreporter):
    """Names every skip as tools/test_summary.py reads it."""
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line("skipped: " + report.longrepr[2].replace("Skipped: ", ""))
