#!/usr/bin/env python3
"""2_generate: asks a model a question and prints several answers.

  2_generate.py MODEL [QUESTION]        MODEL is a Hugging Face directory or a GGUF file

New here: rl.Runtime, rl.Model, Model.encode_chat, rl.Engine, Engine.submit, Engine.run,
Engine.take, Model.decode."""
import sys

import rl

NUM_ANSWERS = 4

# ---- errors ----


def encode(model, question):
    """The question as token ids: as a chat when the model has a chat format that librl knows, else
    as plain text."""
    try:
        return model.encode_chat([{"role": "user", "content": question}])
    except rl.Error as error:
        if error.code not in (rl.Code.UNSUPPORTED, rl.Code.FAILED_PRECONDITION):
            raise
        print(f"(no chat: {error.message})")
        return model.encode(question)


# ---- pieces ----


def print_answer(model, sample):
    """Prints an answer with its mean log-prob. True when the sample is whole."""
    total, count = sum(sample.logprobs), sample.num_generated
    text = model.decode(sample.response_ids, skip_special=True)
    print(f"response {sample.slot}, {count} tokens, log-prob {total / count:.3f} per token: {text}")
    return count > 0 and total <= 0 and sample.finish is not rl.Finish.ABORTED


# ---- main ----


def main(path, question="What is 7 + 5? Answer with the number only."):
    # Options and objects.
    options = rl.Options({"model.path": path, "engine.max_num_seqs": 4,
                          "sampling.temperature": 0.7, "sampling.max_new_tokens": 32})
    runtime = rl.Runtime(options)
    model = rl.Model(runtime, options, rl.Use.GENERATE)
    options["sampling.stop_token_ids"] = model.eos_ids  # an answer ends with the model's turn
    engine = rl.Engine(model, options)

    # Work.
    engine.submit(encode(model, question), NUM_ANSWERS)
    engine.run()
    batch = engine.take()
    good = sum(print_answer(model, sample) for sample in batch)

    # Check.
    if good != NUM_ANSWERS:
        print(f"2_generate: {good} of {NUM_ANSWERS} responses are complete", file=sys.stderr)

    # End: any order will do.
    for thing in (model, runtime, options, engine, batch):
        thing.close()
    return 0 if good == NUM_ANSWERS else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: 2_generate.py MODEL [QUESTION]", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:3]))
    except rl.Error as error:
        sys.exit(str(error))
