package rl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

const (
	fixtures = "../../../tests/fixtures/"
	patience = 60 * time.Second // for what takes milliseconds on a free machine
)

// ok ends the test when there is an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		ok(t, err)
		return value
	}
}

// expect ends the test when an error is not that of a code.
func expect(t *testing.T, err error, code Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%v instead of %v", err, code)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		runtime.GC()
	}
}

// A host has a runtime and a model, which end with the test.
type host struct {
	t       *testing.T
	options *Options
	runtime *Runtime
	model   *Model
}

// newHost opens a tiny model; settings are "key=value".
func newHost(t *testing.T, use Use, settings ...string) *host {
	t.Helper()
	options := value[*Options](t)(NewOptions())
	all := append([]string{"model.path=" + fixtures + "models/llama", "runtime.threads=1",
		"engine.max_num_seqs=4", "engine.max_model_len=64", "pipeline.samples_per_prompt=2",
		"pipeline.prompts_per_step=1", "sampling.max_new_tokens=4"}, settings...)
	for _, setting := range all {
		ok(t, options.SetAssignment(setting))
	}
	runtime := value[*Runtime](t)(NewRuntime(options))
	model := value[*Model](t)(runtime.Open(options, use))
	t.Cleanup(func() {
		runtime.Close()
		model.Close()
		options.Close()
	})
	return &host{t, options, runtime, model}
}

func (h *host) engine() *Engine {
	h.t.Helper()
	engine := value[*Engine](h.t)(h.model.NewEngine(nil))
	h.t.Cleanup(engine.Close)
	return engine
}

func (h *host) trainer() *Trainer {
	h.t.Helper()
	trainer := value[*Trainer](h.t)(h.model.NewTrainer(nil))
	h.t.Cleanup(trainer.Close)
	return trainer
}

// scored is a group of two samples with rewards 1 and 0.
func (h *host) scored() *Batch {
	h.t.Helper()
	engine := h.engine()
	value[uint64](h.t)(engine.Submit(Request{Prompt: []int32{1, 2, 3}, NumSamples: 2}))
	ok(h.t, engine.Run(context.Background()))
	batch := value[*Batch](h.t)(engine.Take())
	h.t.Cleanup(batch.Close)
	ok(h.t, batch.SetReward(0, 1))
	ok(h.t, batch.SetReward(1, 0))
	return batch
}

func (h *host) digest() uint64 {
	h.t.Helper()
	return value[uint64](h.t)(h.model.Digest())
}

// pipeline is one of steps steps, each of one prompt.
func (h *host) pipeline(steps int) *Pipeline {
	h.t.Helper()
	rows, path := "", filepath.Join(h.t.TempDir(), "rows.jsonl")
	for i := 0; i < steps; i++ {
		rows += fmt.Sprintf("{\"ids\": [1, 2, 3, %d], \"tag\": \"row %d\"}\n", 4+i, i)
	}
	ok(h.t, os.WriteFile(path, []byte(rows), 0o666))
	options := value[*Options](h.t)(h.options.Clone())
	defer options.Close()
	ok(h.t, options.Set("data.path", path))
	ok(h.t, options.SetInt("pipeline.total_steps", int64(steps)))
	p := value[*Pipeline](h.t)(h.model.NewPipeline(options))
	h.t.Cleanup(p.Close)
	return p
}

// answer scores the sample of a score event, and closes the event.
func answer(t *testing.T, p *Pipeline, event *Event) {
	t.Helper()
	defer event.Close()
	if event.Kind() == EventScore {
		sample := value[*Sample](t)(event.Sample())
		ok(t, p.Score(sample.SampleID, float64(sample.Slot)))
	}
}
