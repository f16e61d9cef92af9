"""A host that waits for what never comes, until Ctrl-C.

usage: waiting_host.py WAIT MODEL DIRECTORY
"""
import pathlib
import sys

import rl

ROW = '{"ids": [1, 2, 3], "tag": ""}\n'


def pipeline_of(settings, directory, started):
    (directory / "rows.jsonl").write_text(ROW, encoding="utf-8")
    settings.update({"data.path": directory / "rows.jsonl", "pipeline.samples_per_prompt": 2,
                     "pipeline.prompts_per_step": 1, "checkpoint.dir": directory / "checkpoints"})
    options = rl.Options(settings)
    pipeline = rl.Pipeline(rl.Model(rl.Runtime(options), options))
    if started:
        pipeline.start()
        for _ in range(2):
            pipeline.next()  # the samples, which get no reward
    return pipeline


def endless_engine(settings):
    settings.update({"sampling.ignore_eos": True})
    options = rl.Options(settings)
    engine = rl.Engine(rl.Model(rl.Runtime(options), options, rl.Use.GENERATE))
    step = engine.step

    def step_again():  # there is always something left to do
        if not step():
            engine.take()
            engine.submit([1, 2, 3])
        return True

    engine.step = step_again
    return engine


def main(wait, model, directory):
    settings = {"model.path": model, "runtime.threads": 1, "engine.max_num_seqs": 4,
                "engine.max_model_len": 64, "sampling.max_new_tokens": 4}
    if wait == "run":
        call = endless_engine(settings).run
    else:
        pipeline = pipeline_of(settings, pathlib.Path(directory), wait == "checkpoint")
        call = {"next": pipeline.next, "iterate": lambda: list(pipeline),
                "checkpoint": pipeline.checkpoint}[wait]
    print("waiting", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
