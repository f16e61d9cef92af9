"""examples/deploy/ray_pair.py without Ray: its actors, in processes or here, end with the weights
of one process, also when they are killed."""
import itertools
import pathlib
import re
import subprocess
import sys
import types

import pytest

from conftest import ROOT
from killed_actors import Actor

sys.path.insert(0, str(ROOT / "examples/deploy"))
import ray_pair  # noqa: E402

MODEL = ROOT / "tests/fixtures/gguf/tiny_llama_half.gguf"
SETTINGS = [f"model.path={MODEL}", "runtime.threads=1", "optimizer.lr=1e-3"]
STEPS = 4


def digest_of(capsys, steps, rollout, trainer, get=lambda value: value):
    """Runs the loop; the digest that it prints, after a line for each step."""
    capsys.readouterr()
    ray_pair.run(rollout, trainer, steps, get)
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["step"] * len(lines)
    return re.fullmatch(rf"{steps} steps, weights ([0-9a-f]{{16}})", last)[1], lines


def alone(capsys, out, steps):
    shared = ray_pair.opened(SETTINGS, ray_pair.ALONE)
    return digest_of(capsys, steps, ray_pair.Here(ray_pair.Rollout(SETTINGS, shared)),
                     ray_pair.Here(ray_pair.Trainer(SETTINGS, str(out), shared)))


def test_two_models_end_with_the_weights_of_one(capsys, tmp_path):
    digest, lines = alone(capsys, tmp_path / "alone", STEPS)
    assert len(lines) == STEPS and all("with 8 samples in flight" in line for line in lines)
    assert digest != alone(capsys, tmp_path / "longer", STEPS + 1)[0]
    trainer = ray_pair.Trainer(SETTINGS, str(tmp_path / "out"))
    rollout = ray_pair.Rollout(SETTINGS)
    assert digest_of(capsys, STEPS, ray_pair.Here(rollout), ray_pair.Here(trainer)) == (
        digest, lines)
    assert rollout.model.version == STEPS - 1 and trainer.model.version == STEPS


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_run_that_is_started_again_goes_on(capsys, tmp_path, stop):
    expected, _ = alone(capsys, tmp_path / "alone", STEPS)
    for steps, count in ((stop, stop), (STEPS, STEPS - stop), (STEPS, 0)):
        digest, lines = digest_of(
            capsys, steps, ray_pair.Here(ray_pair.Rollout(SETTINGS)),
            ray_pair.Here(ray_pair.Trainer(SETTINGS, str(tmp_path / "out"))))
        assert len(lines) == count
    assert digest == expected
    assert len(list((tmp_path / "out").glob("step_*"))) == 2


def test_actors_that_are_killed_are_replaced_and_change_nothing(capsys, tmp_path):
    expected, _ = alone(capsys, tmp_path / "alone", STEPS)
    rollout = Actor(ray_pair.Rollout, SETTINGS)
    trainer = Actor(ray_pair.Trainer, SETTINGS, str(tmp_path / "out"))
    killed = {3: rollout, 5: trainer}
    waits = itertools.count()

    def get(future):
        if actor := killed.get(next(waits)):
            actor.kill()
        return future.result(timeout=250)

    assert digest_of(capsys, STEPS, rollout, trainer, get)[0] == expected
    assert (rollout.launches, trainer.launches) == (2, 2)


class Recorded:
    """An actor, or a method of one, whose calls are only written down: the results of others that
    one waits for, and its own."""

    def __init__(self, calls, num_returns=1):
        self.calls, self.num_returns = calls, num_returns

    def __getattr__(self, name):
        return self

    def options(self, num_returns):
        return Recorded(self.calls, num_returns)

    def remote(self, *given):
        results = [object() for _ in range(self.num_returns)]
        self.calls.append(([value for value in given if type(value) is object], results))
        return results if self.num_returns > 1 else results[0]


def test_each_call_of_an_actor_waits_for_the_one_before():
    all_calls = []

    class Shared(list):  # the calls of one actor, which are among all
        def append(self, call):
            super().append(call)
            all_calls.append(call)

    facts = dict.fromkeys(("step", "reward", "version", "in_flight", "compared", "process"), 0)
    actors = Shared(), Shared()
    ray_pair.run(*map(Recorded, actors), STEPS, lambda _: {**facts, "digest": ""})
    for calls in actors:
        assert len(calls) > STEPS
        for (_, before), (waits, _) in zip(calls, calls[1:]):
            waits = list(waits)
            for needed in waits:  # grows
                waits += [more for given, results in all_calls if needed in results
                          for more in given]
            assert set(before) & set(waits)


def test_weights_of_another_version_are_refused(tmp_path):
    rollout = ray_pair.Rollout(SETTINGS)
    for weights, step in ((None, 3), ((1, {}), 1)):
        with pytest.raises(RuntimeError, match="version . of the weights came instead of"):
            rollout.begin(step, weights)
    trainer = ray_pair.Trainer(SETTINGS, str(tmp_path / "out"))
    with pytest.raises(RuntimeError, match="step 2 is asked for after 0 steps"):
        trainer.train(2, b"")


def test_calls_that_come_again_do_nothing(tmp_path):
    rollout = ray_pair.Rollout(SETTINGS)
    trainer = ray_pair.Trainer(SETTINGS, str(tmp_path / "out"))
    sampled, groups = rollout.finish(0, None, None)
    assert rollout.finish(0, None, None) == (sampled, groups)
    facts, _ = trainer.train(0, groups)
    assert trainer.train(0, groups)[0] == facts and trainer.model.version == 1
    replacement = ray_pair.Trainer(SETTINGS, str(tmp_path / "out"))
    assert replacement.train(0, groups)[0] == facts and replacement.model.version == 1
    rollout.begin(1, None)
    forwards = rollout.engine.stats().forwards
    rollout.begin(1, None)
    assert rollout.engine.stats().forwards == forwards


def test_the_program_refuses_what_is_wrong_before_ray_starts():
    program = pathlib.Path(ray_pair.__file__)
    for words, status, text in (
            ([], 2, "MODEL"), ([MODEL, "--steps", "0"], 2, "--steps must be 1 or more"),
            ([MODEL, "--out", "here", "--alone"], 2, "not allowed with"),
            ([MODEL, "--alone", "--set", "optimizer.lrr=1"], 1, "optimizer.lr")):
        done = subprocess.run([sys.executable, program, *words], capture_output=True, text=True,
                              timeout=250, check=False)
        assert (done.returncode, text in done.stderr) == (status, True), done.stderr


class FakeRay(types.ModuleType):
    """What run_with_ray calls of Ray; actors are made here, and `made` says how."""

    def __init__(self, monkeypatch, has_place=True):
        super().__init__("ray")
        self.groups, self.made = [], []
        groups, strategies = types.ModuleType("groups"), types.ModuleType("strategies")

        def placement_group(bundles, strategy):
            self.groups.append((bundles, strategy))
            return types.SimpleNamespace(wait=lambda timeout_seconds: has_place)

        groups.placement_group = placement_group
        strategies.PlacementGroupSchedulingStrategy = lambda group, part: part
        for name, module in (("ray", self), ("ray.util", types.ModuleType("ray.util")),
                             ("ray.util.placement_group", groups),
                             ("ray.util.scheduling_strategies", strategies)):
            monkeypatch.setitem(sys.modules, name, module)

    def init(self, **_):
        pass

    shutdown = init

    def get(self, value):
        return value

    def remote(self, scheduling_strategy, num_cpus, **_):
        def make(kind):
            self.made.append((kind.__name__, num_cpus, scheduling_strategy))
            return types.SimpleNamespace(remote=lambda *given: ray_pair.Here(kind(*given)))
        return make


@pytest.mark.parametrize("placement", ["pack", "strict_spread"])
def test_the_actors_are_placed_as_the_options_say(capsys, monkeypatch, tmp_path, placement):
    ray = FakeRay(monkeypatch)
    given = types.SimpleNamespace(set=[*SETTINGS, f"pipeline.placement={placement}"], threads=1,
                                  steps=1)
    ray_pair.run_with_ray(given, str(tmp_path))
    assert ray.groups == [([{"CPU": 1}, {"CPU": 1}], placement.upper())]
    assert ray.made == [("Rollout", 1, 0), ("Trainer", 1, 1)]
    assert "1 steps, weights" in capsys.readouterr().out


def test_no_place_for_the_actors_ends_the_program(monkeypatch, tmp_path):
    FakeRay(monkeypatch, has_place=False)
    given = types.SimpleNamespace(set=[*SETTINGS, "pipeline.placement=strict_spread"], threads=1,
                                  steps=1)
    with pytest.raises(SystemExit, match="pipeline.placement is strict_spread"):
        ray_pair.run_with_ray(given, str(tmp_path))
