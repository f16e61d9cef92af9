#!/usr/bin/env python3
"""Runs 4_grpo of any language on a tiny model and looks at everything it leaves behind.

usage: run_grpo.py run|interrupt|modes|arguments|ranks|parts|launchers PROGRAM MODEL DIRECTORY
       run_grpo.py processes|torchrun PROGRAM MODEL DIRECTORY
                                 ranks that are processes, started by a shell script or by torchrun
       run_grpo.py same PROGRAM MODEL DIRECTORY REFERENCE
                                 both give the same metrics and weights for one seed
       run_grpo.py gpu PROGRAM MODEL DIRECTORY
                                 one option moves the run to a GPU, where the policy learns
       run_grpo.py gpu_same PROGRAM MODEL DIRECTORY REFERENCE
                                 the weights are those that "gpu" left in the directory REFERENCE
"""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

KEYS = {"steps", "step_s_median", "first_step_end_s", "eval_before_s", "accuracy_before",
        "accuracy_after", "reward_first", "reward_last", "rollout_tokens_per_s",
        "train_tokens_per_s", "logprob_max_abs_diff", "peak_rss_bytes", "planned_bytes",
        "weight_digest", "wall_s", "seed", "threads"}
MEASURED = {"step_s_median", "first_step_end_s", "eval_before_s", "rollout_tokens_per_s",
            "train_tokens_per_s", "peak_rss_bytes", "wall_s"}
# The tiny model draws from "1", "2" and six letters, so some of its answers end with the right
# digit: there is something to learn, and equal weights say something.
SMALL = ["sampling.allowed_token_ids=19,20,67,68,69,70,71,72", "sampling.temperature=8",
         "sampling.max_new_tokens=8", "pipeline.prompts_per_step=2",
         "pipeline.samples_per_prompt=4", "eval.max_new_tokens=4", "runtime.seed=7",
         "optimizer.lr=1e-3"]
# A run that learns: in a few steps most answers become right.
LEARNING = ["optimizer.lr=5e-3", "sampling.temperature=3", "sampling.max_new_tokens=2",
            "pipeline.prompts_per_step=4", "pipeline.samples_per_prompt=8", "runtime.seed=8"]
LEARNING_STEPS = 8
GPU = ["runtime.device=cuda"]
LAUNCH = pathlib.Path(__file__).resolve().parent / "launch.sh"
SKIPPED = 77
# What launchers set.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_NTASKS",
             "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "JOB_COMPLETION_INDEX")


class Demo:
    def __init__(self, program, model, directory):
        self.program, self.model, self.directory = program, model, pathlib.Path(directory)
        self.launched_by = []  # what starts the program
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.data, self.eval = self.directory / "train.jsonl", self.directory / "eval.jsonl"
        self.data.write_text(rows(12), encoding="utf-8")
        self.eval.write_text(rows(5), encoding="utf-8")

    def command(self, out, steps, *more):
        return [*self.launched_by, self.program, "--model", self.model, "--data", self.data,
                "--eval", self.eval, "--steps", str(steps), "--out", self.directory / out,
                *assignments(SMALL), *more]

    def run(self, out, steps, *more):
        return json.loads((self.whole(out, steps, *more)[0] / "summary.json").read_text())

    def whole(self, out, steps, *more):
        """The directory and the standard output of a run to its end."""
        done = subprocess.run(self.command(out, steps, *more), capture_output=True, text=True,
                              timeout=300)
        expect(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
        expect("\r" not in done.stdout, "a file gets no progress bar")
        return self.directory / out, done.stdout


def assignments(settings):
    return [word for setting in settings for word in ("--set", setting)]


def rows(count):
    return "".join(json.dumps({"prompt": f"{a % 2} + 1?", "tag": str(a % 2 + 1)}) + "\n"
                   for a in range(count))


def expect(condition, text):
    if not condition:
        sys.exit(text)


def run(demo):
    summary = demo.run("one", 3)
    out = demo.directory / "one"
    expect(set(summary) == KEYS, f"keys {sorted(set(summary) ^ KEYS)} are missing or unknown")
    expect(None not in summary.values(), f"null in {summary}")
    expect(summary["steps"] == 3 and summary["seed"] == 7 and summary["logprob_max_abs_diff"] == 0,
           f"{summary}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    expect([line["training/global_step"] for line in lines] == [1, 2, 3],
           "one line of metrics a step")
    expect(all(line["actor/grad_norm"] > 0 for line in lines), "a step had nothing to learn")
    trace = json.loads((out / "trace.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    expect({"pipeline.step", "train.forward", "engine.decode"} <= names,
           f"the trace holds {sorted(map(str, names))}")
    evals = [json.loads(line) for line in (out / "evals.jsonl").read_text().splitlines()]
    expect([line["training/global_step"] for line in evals] == [0, 3], "one line an evaluation")
    expect(len(list(out.glob("events.out.tfevents.*"))) == 1, "there is a TensorBoard file")
    report(out)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        expect((out / "model" / name).is_file(), f"the saved model lacks {name}")
    again = demo.run("two", 3)
    other = demo.run("seed", 3, "--set", "runtime.seed=8")
    expect(other["weight_digest"] != summary["weight_digest"], "another seed")
    for key in ("weight_digest", "reward_first", "reward_last", "accuracy_before",
                "accuracy_after"):
        expect(again[key] == summary[key], f"{key} differs between two runs of one seed")
    on_terminal(demo)


def modes(demo):
    """One option changes how rollout and training are interleaved. Of an asynchronous run it is
    its record that is repeated."""
    ahead = ["model.compute_copies=2", "trainer.max_tokens_per_device=64"]
    off = ["pipeline.mode=one_step_off", *ahead]
    flows = ["pipeline.mode=async", "pipeline.partial_rollout=true", *ahead]
    record = demo.directory / "schedule"
    sync = demo.run("sync", 4)
    first = demo.run("off", 4, *assignments(off))
    second = demo.run("off_again", 4, *assignments(off))
    expect(first["weight_digest"] == second["weight_digest"], "one_step_off differs from itself")
    expect(first["weight_digest"] != sync["weight_digest"], "one_step_off trains on newer samples")
    run = demo.run("async", 4, *assignments([*flows, f"pipeline.record_path={record}"]))
    again = demo.run("again", 4, *assignments([*flows, f"pipeline.replay_path={record}"]))
    for key in ("steps", "weight_digest", "reward_first", "reward_last", "accuracy_before",
                "accuracy_after"):
        expect(run[key] == again[key], f"{key} of a replay is {again[key]}, not {run[key]}")
    for summary in (sync, first, run):
        expect(summary["steps"] == 4 and summary["logprob_max_abs_diff"] == 0, f"{summary}")
    ages = [json.loads(line)["pipeline/staleness/max"] for line in
            (demo.directory / "async/metrics.jsonl").read_text().splitlines()]
    expect(max(ages) == 1, f"the samples are {ages} versions old")


def report(out):
    """The page is XML as well as HTML, holds its plots, and loads nothing."""
    text = (out / "report.html").read_text(encoding="utf-8")
    elements = list(xml.etree.ElementTree.fromstring(text).iter())
    plots = [e for e in elements if e.tag == "svg" and e.get("role") == "img"]
    expect(len(plots) >= 6, f"{len(plots)} plots")
    expect(all([c.tag for c in plot][:2] == ["title", "desc"] for plot in plots),
           "a plot has no title or description")
    expect(not {"script", "link", "img", "iframe", "object"} & {e.tag for e in elements},
           "the page may load or run")
    expect(not any({"src", "href"} & set(e.keys()) for e in elements),
           "something refers to elsewhere")
    expect("://" not in text and "url(" not in text, "an address is in the page")
    expect(any(e.get("name") == "viewport" for e in elements), "no word on the width of a phone")
    shown = "".join("".join(e.itertext()) for e in elements if e.tag == "main")
    for part in ("tiny_llama_half.gguf", "Changed responses", "Best responses in training",
                 "phase workspace"):
        expect(part in shown, f"{part!r} is not in the report")
    expect("Not in this report" not in shown, "the report lacks something of a whole run")
    expect(str(out) not in text, "the page names a directory of this machine")


def on_terminal(demo):
    parent, child = pty.openpty()
    process = subprocess.Popen(demo.command("terminal", 1), stdout=child)
    os.close(child)
    shown = b""
    try:
        while chunk := os.read(parent, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    expect(process.wait(timeout=120) == 0, "the run on a terminal failed")
    expect(b"\r" in shown and b"####" in shown, f"no progress bar in {shown!r}")


def cut(demo, *more):
    """Ctrl-C after two steps of a run into the directory "cut"."""
    process = subprocess.Popen(demo.command("cut", 10000, *more), stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("step 2 "):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    expect(process.wait(timeout=120) == 0, "Ctrl-C is a clean end")
    expect("stopped after step" in rest, f"no word of the end in {rest!r}")


def interrupt(demo):
    cut(demo)
    end = json.loads((demo.directory / "cut/summary.json").read_text())
    expect(end["steps"] >= 2 and list((demo.directory / "cut/checkpoints").iterdir()),
           "there is no checkpoint")
    expect(end["accuracy_after"] is None, "a run that was cut has no accuracy after")
    steps = end["steps"] + 2
    resumed = demo.run("cut", steps, "--resume")
    whole = demo.run("whole", steps)
    expect(resumed["steps"] == steps, f"resumed to step {resumed['steps']} instead of {steps}")
    expect(resumed["weight_digest"] == whole["weight_digest"],
           "a resumed run differs from an uninterrupted one")


def ranks(demo):
    """Several ranks end as one does: the same files and counts, and almost the same numbers."""
    one, three = demo.run("one", 3), demo.run("three", 3, "--ranks", "3")
    expect(three["steps"] == 3 and three["logprob_max_abs_diff"] == 0, f"{three}")
    expect(three["accuracy_before"] == one["accuracy_before"], "the evaluation before the run")
    lines = {name: [json.loads(line) for line in
                    (demo.directory / name / "metrics.jsonl").read_text().splitlines()]
             for name in ("one", "three")}
    expect([line["training/global_step"] for line in lines["three"]] == [1, 2, 3],
           "one line of metrics a step")
    for key in ("critic/rewards/mean", "training/samples", "pipeline/prompts_trained",
                "response_length/mean", "training/loss_tokens"):
        expect(lines["three"][0][key] == lines["one"][0][key], f"{key} of the first step")
    again = demo.run("again", 3, "--ranks", "3")
    expect(again["weight_digest"] == three["weight_digest"], "two runs of one layout differ")
    expect(three["weight_digest"] != one["weight_digest"], "the order of sums")
    ring = demo.run("ring", 3, *assignments(["parallel.context=2", "parallel.context_kind=ring"]),
                    "--ranks", "2")
    expect(0 < ring["logprob_max_abs_diff"] < 0.05, f"the bound of a ring: {ring}")
    cut(demo, "--ranks", "2")


def parts(demo):
    """Ranks that divide the model leave what one rank with as many parts does."""
    halves = assignments(["parallel.reduction_parts=2"])
    one = demo.run("one", 3, *halves)
    two = assignments(["parallel.tensor=2"])
    eight = [*two, *assignments(["parallel.context=2"]), "--ranks", "8"]
    for name, more in {"two": two, "four": [*two, "--ranks", "4"], "eight": eight}.items():
        out = demo.run(name, 3, *halves, *more)
        expect(out["steps"] == 3 and out["logprob_max_abs_diff"] == 0, f"{out}")
    for name in ("metrics.jsonl", "evals.jsonl"):
        lines = [[{k: v for k, v in line.items() if not k.startswith(("rollout/kv", "comm/"))}
                  for line in steady(demo.directory / run / name)] for run in ("one", "two")]
        expect(lines[0] == lines[1], f"{name} differs: {lines}")
    saved = [(demo.directory / run / "model/model.safetensors").read_bytes()
             for run in ("one", "two")]
    expect(saved[0] == saved[1], f"other weights than {one}")
    cut(demo, *halves, *two)
    stages(demo, *halves, *two)


def stages(demo, *divided):
    """So do stages, of a model with two layers."""
    demo.model = deeper(demo.directory / "one/model", demo.directory / "deeper")
    one = demo.run("deep", 3, *divided)
    axes = [*divided, *assignments(["parallel.pipeline=2"])]
    two = demo.run("staged", 3, *axes)
    expect(two["steps"] == 3 and two["reward_last"] == one["reward_last"], f"{two}, not {one}")
    saved = [(demo.directory / run / "model/model.safetensors").read_bytes()
             for run in ("deep", "staged")]
    expect(saved[0] == saved[1], "stages leave other weights")
    out = demo.run("staged_data", 3, *axes, "--ranks", "8")
    expect(out["steps"] == 3 and out["logprob_max_abs_diff"] == 0, f"{out}")
    shutil.rmtree(demo.directory / "cut")
    cut(demo, *axes)


def deeper(source, out):
    """A copy of a model of one layer that has this layer twice."""
    shutil.copytree(source, out)
    config = json.loads((out / "config.json").read_text())
    expect(config["num_hidden_layers"] == 1, "the model has one layer")
    (out / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    raw = (out / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:begin]), raw[begin:]
    for name, tensor in list(header.items()):
        if ".layers.0." in name:
            first, end = tensor["data_offsets"]
            header[name.replace(".layers.0.", ".layers.1.")] = {
                **tensor, "data_offsets": [len(data), len(data) + end - first]}
            data += data[first:end]
    text = json.dumps(header).encode()
    (out / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return out


def processes(demo):
    """Ranks that are processes leave what ranks that are threads do."""
    threads = demo.run("threads", 4, "--ranks", "2")
    demo.launched_by = [LAUNCH, "2"]
    as_threads(demo, "processes", 4, threads)
    meeting = demo.directory / "meeting"
    meeting.mkdir()
    other = stopped_rank(demo, "--launcher", "torchrun", "--rendezvous", f"file:{meeting}")
    steps = other["steps"] + 2
    resumed = demo.run("cut", steps, "--resume", "--launcher", "torchrun")
    divided = assignments(["parallel.reduction_parts=2", "parallel.tensor=2"])
    parts = demo.run("parts", 4, "--launcher", "torchrun", *divided)
    demo.launched_by = []
    whole = demo.run("whole", steps, "--ranks", "2")
    expect(resumed["weight_digest"] == whole["weight_digest"],
           "a run of processes that goes on differs from an uninterrupted one")
    divided = demo.run("divided", 4, *divided)
    expect(parts["weight_digest"] == divided["weight_digest"], "processes that divide the model")


def as_threads(demo, out, steps, threads):
    out, shown = demo.whole(out, steps, "--launcher", "torchrun")
    summary = json.loads((out / "summary.json").read_text())
    for key in ("steps", "weight_digest", "reward_first", "accuracy_before", "accuracy_after"):
        expect(summary[key] == threads[key], f"{key} is {summary[key]}, not {threads[key]}")
    expect(f"rank 1: weights {threads['weight_digest']}" in shown, f"no rank 1 in {shown!r}")
    expect(steady(out / "metrics.jsonl") == steady(demo.directory / "threads/metrics.jsonl"),
           "other metrics than those of threads")
    expect(shown.count("step 1 ") == 1, f"several ranks print metrics: {shown!r}")


def stopped_rank(demo, *more):
    """Ctrl-C for rank 1 alone: rank 0 leaves a checkpoint, and says that steps are missing."""
    command = demo.command("cut", 10000, *more)[len(demo.launched_by):]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
             for rank in (0, 1)]
    for line in ranks[0].stdout:
        if line.startswith("step 2 "):
            break
    ranks[1].send_signal(signal.SIGINT)
    shown = [rank.communicate(timeout=120) for rank in ranks]
    status = [rank.returncode for rank in ranks]
    expect(status == [1, 0], f"exit statuses {status}: {shown}")
    expect("stopped after step" in shown[0][0] and "stopped after step" not in shown[1][0],
           f"the checkpoint is rank 0's: {shown}")
    expect("steps are missing" in shown[0][1], f"{shown}")
    return json.loads((demo.directory / "cut/summary.json").read_text())


def torchrun(demo):
    if shutil.which("torchrun") is None:
        print("skipped: external: there is no torchrun")
        sys.exit(SKIPPED)
    threads = demo.run("threads", 4, "--ranks", "2")
    demo.launched_by = ["torchrun", "--no-python", "--nproc-per-node=2", "--master-port=29513"]
    as_threads(demo, "torchrun", 4, threads)


def launchers(demo):
    """What a launcher's variables may be, and what a program says of others."""
    def says(status, text, variables, *more):
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        done = subprocess.run(demo.command("launched", 1, *more), capture_output=True, text=True,
                              timeout=60, env={**environment, **variables})
        expect(done.returncode == status and text in done.stderr,
               f"{variables} and {more}: exit status {done.returncode}, {done.stderr!r}, not "
               f"{status} and {text!r}")

    names = {"torchrun": ("RANK", "WORLD_SIZE"), "slurm": ("SLURM_PROCID", "SLURM_NTASKS"),
             "mpi": ("PMI_RANK", "PMI_SIZE"), "kubernetes": ("JOB_COMPLETION_INDEX", "WORLD_SIZE"),
             "ray": ("RANK", "WORLD_SIZE")}
    for name, (rank, size) in names.items():
        by, first = ["--launcher", name], "OMPI_COMM_WORLD_RANK" if name == "mpi" else rank
        says(2, f"launcher {name}: {first} is not set", {}, *by)
        says(2, f"launcher {name}: {size} is not set", {rank: "0"}, *by)
        says(2, f"launcher {name}: {rank} is not set", {size: "2"}, *by)
        says(2, f'launcher {name}: {rank} is "-1", not a number', {rank: "-1", size: "2"}, *by)
        says(2, f"launcher {name}: {rank} is 2, but {size} is 2", {rank: "2", size: "2"}, *by)
        says(1, "comm.rendezvous", {rank: "1", size: "2"}, *by, "--rendezvous", "nowhere")
        says(0, "", {rank: "0", size: "1"}, *by)
    both = {"RANK": "0", "WORLD_SIZE": "2"}
    by = ["--launcher", "torchrun"]
    says(2, "MASTER_ADDR is not set", both, *by)
    says(2, "MASTER_PORT is not set", {**both, "MASTER_ADDR": "localhost"}, *by)
    says(2, "MASTER_PORT is 65535, not 1 to 65534",
         {**both, "MASTER_ADDR": "localhost", "MASTER_PORT": "65535"}, *by)
    says(2, 'WORLD_SIZE is "two", not a number', {**both, "WORLD_SIZE": "two"}, *by)
    says(2, "WORLD_SIZE is not set", {**both, "WORLD_SIZE": ""}, *by)
    says(2, "OMPI_COMM_WORLD_SIZE is not set",
         {"OMPI_COMM_WORLD_RANK": "0", "PMI_RANK": "0", "PMI_SIZE": "1"}, "--launcher", "mpi")
    divided = assignments(["parallel.reduction_parts=2", "parallel.tensor=2", "parallel.context=3",
                           "parallel.pipeline=2"])
    problem = ("18 ranks are not a multiple of parallel.tensor * parallel.context * "
               "parallel.pipeline = 12")
    says(2, problem, {**both, "WORLD_SIZE": "18"}, *by, "--rendezvous", "file:.", *divided)
    says(2, problem, {}, "--ranks", "18", *divided)
    says(2, "launcher pbs: it is none of torchrun, slurm, mpi, kubernetes and ray", both,
         "--launcher", "pbs")
    says(2, "--launcher", both, *by, "--ranks", "2")
    says(2, "--launcher", {}, "--rendezvous", "file:.")


def same(demo, reference):
    """What a run leaves and prints does not depend on the host's language, times and rates
    apart."""
    two = demo.run("ranks", 3, "--ranks", "2")["weight_digest"]
    out, shown = demo.whole("here", 3)
    summary = json.loads((out / "summary.json").read_text())
    demo.program = reference
    reference_two = demo.run("reference_ranks", 3, "--ranks", "2")["weight_digest"]
    expect(two == reference_two, f"two ranks end with {two}, not {reference_two}")
    reference_out, reference_shown = demo.whole("reference", 3)
    reference_summary = json.loads((reference_out / "summary.json").read_text())
    for key in sorted(KEYS):
        if key not in MEASURED:
            expect(summary[key] == reference_summary[key],
                   f"{key}: {summary[key]}, not {reference_summary[key]}")
    for name in ("metrics.jsonl", "evals.jsonl"):
        expect(steady(out / name) == steady(reference_out / name),
               f"{name} differs from that of {reference}")
    expect(words(shown) == words(reference_shown), f"printed {shown!r}, not {reference_shown!r}")


def gpu(demo):
    """The mean reward rises, and the weights are not those of a CPU."""
    out, _ = demo.whole("gpu", LEARNING_STEPS, *assignments(LEARNING + GPU))
    summary = json.loads((out / "summary.json").read_text())
    expect(summary["steps"] == LEARNING_STEPS and summary["logprob_max_abs_diff"] == 0,
           f"{summary}")
    rewards = [json.loads(line)["critic/rewards/mean"]
               for line in (out / "metrics.jsonl").read_text().splitlines()]
    expect(rewards[-1] > rewards[0] + 0.2, f"the mean rewards are {rewards}")
    cpu = demo.run("cpu", LEARNING_STEPS, *assignments(LEARNING))
    expect(cpu["weight_digest"] != summary["weight_digest"], "a CPU gives the same bits")


def gpu_same(demo, reference):
    digest = demo.run("gpu", LEARNING_STEPS, *assignments(LEARNING + GPU))["weight_digest"]
    wanted = json.loads((pathlib.Path(reference) / "gpu/summary.json").read_text())
    expect(digest == wanted["weight_digest"],
           f"the weights' digest is {digest}, not {wanted['weight_digest']}")


def steady(path):
    """The metrics of a file that do not vary from run to run."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [{k: v for k, v in line.items() if not k.startswith(("timing_", "perf/"))}
             for line in lines]
    expect(len(found) >= 2 and all(len(line) >= 2 for line in found),
           f"{path} has no metrics to compare")
    return found


def words(shown):
    """What a run printed, without times and rates."""
    return re.sub(r"[0-9.]+ (s|tokens/s)\b", r"# \1", shown).splitlines()


def arguments(demo):
    def fails(status, text, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(done.returncode == status,
               f"exit status {done.returncode} instead of {status}: {done.stderr}")
        expect(text in done.stderr, f"{text!r} is not in {done.stderr!r}")

    fails(2, "--model", [demo.program])
    fails(2, "--model", demo.command("bad", 1, "--sett", "a=b"))
    for steps in (0, 10001):
        fails(2, "--steps must be 1 to 10000", demo.command("bad", steps))
    fails(1, "pipeline.samples_per_prompt",
          demo.command("bad", 1, "--set", "pipeline.samples_per_promt=4"))
    fails(1, "optimizer.lr", demo.command("bad", 1, "--set", "optimizer.lr=fast"))
    demo.data.write_text('{"prompt": "1?", "tagg": "1"}\n', encoding="utf-8")
    fails(1, "tagg", demo.command("bad", 1))
    fails(1, "nowhere.gguf",
          [demo.program, "--model", "nowhere.gguf", "--data", demo.data, "--steps", "1", "--out",
           demo.directory / "bad"])


if __name__ == "__main__":
    counts = {"run": 5, "interrupt": 5, "modes": 5, "arguments": 5, "ranks": 5,
              "parts": 5, "launchers": 5, "processes": 5, "torchrun": 5, "same": 6, "gpu": 5,
              "gpu_same": 6}
    if len(sys.argv) != counts.get(sys.argv[1] if len(sys.argv) > 1 else ""):
        sys.exit(__doc__)
    globals()[sys.argv[1]](Demo(*sys.argv[2:5]), *sys.argv[5:])
