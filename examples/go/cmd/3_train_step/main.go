// 3_train_step: one step of reinforcement learning by hand: draw a group, score it, train on it,
// publish.
//
//	3_train_step MODEL        MODEL is a Hugging Face directory or a GGUF file
//
// No tokenizer is needed. The toy reward is the share of even token ids. The log-probs stored while
// sampling must equal the trainer's bit for bit. New here: Batch.SetReward, Buffer.PutBatch,
// Buffer.Take, Trainer.Logprobs, Trainer.Step, Trainer.Publish, Event.Metrics.
package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"librl/rl"
)

const group = 8

// ---- errors ----

func check(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// ---- pieces ----

// Draws a group of samples after a short prompt.
func drawGroup(engine *rl.Engine) *rl.Batch {
	must(engine.Submit(rl.Request{Prompt: []int32{1, 2, 3, 4}, NumSamples: group}))
	check(engine.Run(context.Background()))
	return must(engine.Take())
}

// Rewards sample `index`. True when the trainer's log-probs equal the stored ones.
func score(trainer *rl.Trainer, batch *rl.Batch, index int) bool {
	sample := must(batch.Sample(index))
	even, count := 0, sample.NumGenerated()
	for _, id := range sample.IDs[sample.NumPrompt:] {
		if id%2 == 0 {
			even++
		}
	}
	reward := float64(even) / float64(count)
	check(batch.SetReward(index, reward))
	logprobs := must(trainer.Logprobs(sample.IDs, sample.NumPrompt, sample.Temperature))
	fmt.Printf("slot %d: %d tokens, reward %.3f\n", sample.Slot, count, reward)
	for i := range logprobs {
		if math.Float32bits(logprobs[i]) != math.Float32bits(sample.Logprobs[i]) {
			return false
		}
	}
	return true
}

// Prints the step's metrics. True when the trainer saw no log-prob differ.
func printStep(step *rl.Event) bool {
	for _, metric := range must(step.Metrics()) {
		fmt.Printf("  %-36s %.6g\n", metric.Name, metric.Value)
	}
	return must(step.Metric("training/logprob_max_abs_diff")) == 0
}

// ---- main ----

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: 3_train_step MODEL")
		os.Exit(2)
	}

	// Options and objects.
	options := must(rl.NewOptions())
	check(options.Set("model.path", os.Args[1]))
	check(options.Set("engine.max_num_seqs", "8"))
	check(options.Set("engine.max_model_len", "64"))
	check(options.Set("pipeline.samples_per_prompt", "8"))
	check(options.Set("sampling.max_new_tokens", "16"))
	check(options.Set("optimizer.lr", "1e-4"))
	runtime := must(rl.NewRuntime(options))
	model := must(runtime.Open(options, rl.UseParts))
	engine := must(model.NewEngine(options))
	trainer := must(model.NewTrainer(options))
	buffer := must(rl.NewBuffer(options, group))

	// Work.
	drawn, equal := drawGroup(engine), 0
	for i := 0; i < drawn.Count(); i++ {
		if score(trainer, drawn, i) {
			equal++
		}
	}
	check(buffer.PutBatch(drawn))
	batch := must(buffer.TryTake(rl.Groups{}))
	step := must(trainer.Step(context.Background(), batch, nil))
	version := must(trainer.Publish())

	// Check.
	good := printStep(step) && equal == group && version == 1
	fmt.Printf("%d of %d samples have equal log-probs; the weights are version %d\n", equal, group,
		version)

	// End.
	step.Close()
	batch.Close()
	drawn.Close()
	buffer.Close()
	trainer.Close()
	engine.Close()
	model.Close()
	runtime.Close()
	options.Close()
	if !good {
		fmt.Fprintln(os.Stderr, "3_train_step: the step did not do what was expected")
		os.Exit(1)
	}
}
