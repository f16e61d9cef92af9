// 5_tools: trains an agent that calls a tool. The model calls it by writing the digit 1 or 2, the
// tool replies with the other one, and the answer is right when it repeats the tool's digit.
//
//	5_tools MODEL        MODEL is a GGUF file or a directory with a tokenizer
//
// A sample has two turns of the model: the pipeline reports the first one, the host replies, and
// the reply's tokens carry no loss. New here: EventTurn, Pipeline.Reply, Pipeline.Feed.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"librl/rl"
)

const (
	steps   = 3
	prompts = 2
)

type run struct {
	pipeline    *rl.Pipeline
	calls, step uint64 // of the tool; steps done
	logprobDiff float64
}

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

func configure(options *rl.Options, path string) {
	check(options.Set("model.path", path))
	check(options.Set("pipeline.turns", "stop_string"))
	check(options.Set("pipeline.max_turns", "2"))
	check(options.Set("pipeline.prompts_per_step", "2"))
	check(options.Set("pipeline.samples_per_prompt", "4"))
	check(options.Set("sampling.stop", "1,2"))
	check(options.Set("sampling.temperature", "8"))
	check(options.Set("sampling.max_new_tokens", "8"))
	check(options.Set("engine.max_model_len", "64"))
	check(options.Set("optimizer.lr", "1e-3"))
	check(options.Set("runtime.seed", "7"))
}

// Lets the model write only digits 1 and 2 and letters: calls and answers, and what is neither.
func allow(options *rl.Options, model *rl.Model) {
	var list []string
	for _, c := range "12abcdef" {
		ids := must(model.Encode(string(c), 0))
		list = append(list, strconv.Itoa(int(ids[len(ids)-1])))
	}
	check(options.Set("sampling.allowed_token_ids", strings.Join(list, ",")))
}

// The digits of a text.
func digits(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '1' || c == '2' {
			return c
		}
		return -1
	}, text)
}

func feed(r *run) {
	for i := 0; i < steps*prompts; i++ {
		row := rl.FeedRow{JSON: fmt.Sprintf(`{"prompt": "%d + 1?"}`, i)}
		check(r.pipeline.Feed(context.Background(), row))
	}
	check(r.pipeline.FinishFeed())
}

// ---- events ----

// The tool: it replies with the digit that the call does not have.
func onTurn(r *run, event *rl.Event, view rl.EventView) {
	reply := rl.Reply{SampleID: must(event.Sample()).SampleID, Turn: view.Count, Text: "1"}
	if digits(view.Text)[0] == '1' {
		reply.Text = "2"
	}
	must(r.pipeline.Reply(reply))
	r.calls++
}

// The response has the digits of the call, of the reply and of the answer.
func onScore(r *run, event *rl.Event) {
	sample := must(event.Sample())
	found, reward := digits(sample.Text), 0.0
	if len(found) > 2 && found[2] == found[1] {
		reward = 1
	}
	check(r.pipeline.Score(sample.SampleID, reward))
}

func onEvent(r *run, event *rl.Event) {
	view := must(event.View())
	switch view.Kind {
	case rl.EventTurn:
		onTurn(r, event, view)
	case rl.EventScore:
		onScore(r, event)
	case rl.EventStep:
		r.step = view.Step
		r.logprobDiff += must(event.Metric("training/logprob_max_abs_diff"))
		fmt.Printf("step %d  reward %.3f  calls so far %d\n", view.Step,
			must(event.Metric("critic/rewards/mean")), r.calls)
	}
	event.Close()
}

// ---- main ----

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: 5_tools MODEL")
		os.Exit(2)
	}

	// Options and objects.
	options := must(rl.NewOptions())
	configure(options, os.Args[1])
	runtime := must(rl.NewRuntime(options))
	model := must(runtime.Open(options, rl.UsePipeline))
	allow(options, model)
	r := &run{pipeline: must(model.NewPipeline(options))}
	before := must(model.Digest())

	// Work.
	check(r.pipeline.Start())
	feed(r)
	events := r.pipeline.Events(context.Background())
	for event := range events.C {
		onEvent(r, event)
	}
	check(events.Err())
	after := must(model.Digest())

	// Check.
	good := r.step == steps && r.calls > 0 && r.logprobDiff == 0 && after != before
	fmt.Printf("%d calls of the tool; weights %016x\n", r.calls, after)

	// End.
	r.pipeline.Close()
	model.Close()
	runtime.Close()
	options.Close()
	if !good {
		fmt.Fprintln(os.Stderr, "5_tools: the run did not do what was expected")
		os.Exit(1)
	}
}
