"""A host that ends while its pipeline runs, calls its functions and logs; it closes nothing.

usage: forgetful_host.py MODEL DIRECTORY
"""
import pathlib
import sys
import time

import rl


def advantage(tokens, advantages):
    print("called", flush=True)
    time.sleep(0.5)
    advantages[:] = memoryview(bytes(8 * len(advantages))).cast("d")
    print("returned", flush=True)


def main(model, directory):
    rows = pathlib.Path(directory) / "rows.jsonl"
    rows.write_text('{"ids": [1, 2, 3], "tag": ""}\n', encoding="utf-8")
    options = rl.Options({
        "model.path": model, "runtime.threads": 1, "engine.max_num_seqs": 4,
        "engine.max_model_len": 64, "sampling.max_new_tokens": 4, "data.path": rows,
        "pipeline.samples_per_prompt": 2, "pipeline.prompts_per_step": 1,
        "algo.advantage": "custom", "runtime.log_level": "debug"})
    runtime = rl.Runtime(options)
    runtime.set_log(lambda line: None)
    pipeline = rl.Pipeline(rl.Model(runtime, options))
    pipeline.set_advantage(advantage)
    pipeline.start()
    for event in pipeline:
        if event.kind is rl.EventKind.SCORE:
            event.score(float(event.sample.slot))
            if event.sample.ordinal == 3 and event.sample.slot == 1:
                time.sleep(0.2)
                break  # the next call of the function is due
    globals()["kept"] = runtime, pipeline  # until the interpreter ends
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
