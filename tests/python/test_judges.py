"""examples/async/judges.py: with judges that take time, a run that generates ahead is faster."""
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

MODEL = ROOT / "tests/fixtures/gguf/tiny_llama_half.gguf"
PROGRAM = pathlib.Path(ROOT / "examples/async/judges.py")
LINE = re.compile(r"(\w+) +([0-9.]+) steps/min  nothing to compute for +([0-9.]+) s of +([0-9.]+) s"
                  r"  samples up to ([0-9]+) versions old")


def shown(*words):
    return subprocess.run([sys.executable, PROGRAM, MODEL, "--set", "runtime.threads=1", *words],
                          capture_output=True, text=True, timeout=250, check=False)


def test_judges_are_waited_for_less_in_each_mode():
    done = shown("--steps", "6", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    found = {line[0]: tuple(map(float, line[1:])) for line in LINE.findall(done.stdout)}
    assert list(found) == ["sync", "one_step_off", "async"], done.stdout
    (sync, *_, sync_age), (_, *_, off_age), (ahead, *_, age) = found.values()
    assert found["sync"][1] > 5, "each of six steps waits for its judges"
    # Answers of four steps are judged at once; much less of a gain is enough on a busy machine.
    assert ahead > 1.5 * sync, done.stdout
    assert (sync_age, off_age) == (0, 1) and 1 <= age <= 3


@pytest.mark.parametrize("words, status, text", [
    (("--judges", "0"), 2, "--judges and --steps must be 1 or more"),
    (("--seconds", "-1"), 2, "--seconds 0 to 3600"),
    (("--set", "optimizer.lrr=1"), 1, "optimizer.lr")])
def test_the_program_refuses_what_is_wrong(words, status, text):
    done = shown(*words)
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
