package rl

import (
	"context"
	"errors"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync/atomic"
	"testing"
)

// centred is dr_grpo: reward - mean of the group.
func centred(tokens *Tokens, advantages []float64) error {
	mean, t := 0.0, 0
	for _, reward := range tokens.Rewards {
		mean += reward / float64(len(tokens.Rewards))
	}
	for i, length := range tokens.Lengths {
		for end := t + int(length); t < end; t++ {
			advantages[t] = tokens.Rewards[i] - mean
		}
	}
	return nil
}

// reinforce is -A log-prob.
func reinforce(tokens *Tokens, weights, gradient []float64) (float64, error) {
	loss := 0.0
	for t, weight := range weights {
		loss -= weight * float64(tokens.Advantages[t]) * float64(tokens.Logprobs[t])
		gradient[t] = weight * -float64(tokens.Advantages[t])
	}
	return loss, nil
}

// trained is the digest of the weights after two steps.
func trained(t *testing.T, set func(*Trainer) error, settings ...string) uint64 {
	t.Helper()
	h := newHost(t, UseParts, settings...)
	trainer, batch := h.trainer(), h.scored()
	ok(t, set(trainer))
	for i := 0; i < 2; i++ {
		value[*Event](t)(trainer.Step(context.Background(), batch, nil)).Close()
	}
	return h.digest()
}

func TestTheSameFormulasTrainToTheSameWeights(t *testing.T) {
	builtIn := trained(t, func(*Trainer) error { return nil }, "algo.advantage=dr_grpo",
		"algo.policy_loss=none")
	ownAdvantage := trained(t, func(trainer *Trainer) error {
		return trainer.SetAdvantage(centred)
	}, "algo.advantage=custom", "algo.policy_loss=none")
	ownLoss := trained(t, func(trainer *Trainer) error {
		return trainer.SetLoss(reinforce)
	}, "algo.advantage=dr_grpo", "algo.policy_loss=custom")
	if ownAdvantage != builtIn || ownLoss != builtIn {
		t.Errorf("%x, %x and %x", builtIn, ownAdvantage, ownLoss)
	}
}

func TestAPanicInAnAdvantageFunctionIsTheStepsError(t *testing.T) {
	h := newHost(t, UseParts, "algo.advantage=custom")
	trainer, batch, before := h.trainer(), h.scored(), h.digest()
	ok(t, trainer.SetAdvantage(func(tokens *Tokens, advantages []float64) error {
		advantages[len(advantages)] = 1
		return nil
	}))
	event, err := trainer.Step(context.Background(), batch, nil)
	expect(t, err, ErrCancelled)
	var panicked *PanicError
	var fault runtime.Error
	if event != nil || !errors.As(err, &panicked) || !errors.As(err, &fault) ||
		!strings.Contains(string(panicked.Stack), "callbacks_test.go") ||
		!strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("%v, %v", event, err)
	}
	if h.digest() != before {
		t.Error("the weights moved")
	}
	mine := errors.New("no advantages today")
	ok(t, trainer.SetAdvantage(func(*Tokens, []float64) error { return mine }))
	_, err = trainer.Step(context.Background(), batch, nil)
	if !errors.Is(err, mine) || errors.As(err, &panicked) {
		t.Error(err)
	}
	ok(t, trainer.SetAdvantage(centred))
	value[*Event](t)(trainer.Step(context.Background(), batch, nil)).Close()
	if h.digest() == before {
		t.Error("the trainer did not go on")
	}
	ok(t, trainer.SetAdvantage(nil))
	_, err = trainer.Step(context.Background(), batch, nil)
	expect(t, err, ErrFailedPrecondition)
}

func TestAPanicInALossFunctionIsReported(t *testing.T) {
	h := newHost(t, UseParts, "algo.policy_loss=custom")
	trainer, batch, before := h.trainer(), h.scored(), h.digest()
	ok(t, trainer.SetLoss(func(*Tokens, []float64, []float64) (float64, error) { panic("ouch") }))
	_, err := trainer.Step(context.Background(), batch, nil)
	expect(t, err, ErrCancelled)
	if !strings.Contains(err.Error(), "ouch") || h.digest() != before {
		t.Error(err)
	}
	ok(t, trainer.SetLoss(reinforce))
	value[*Event](t)(trainer.Step(context.Background(), batch, nil)).Close()
}

// run takes events until there is an error.
func run(t *testing.T, p *Pipeline) (steps int, err error) {
	t.Helper()
	for {
		event, err := p.Next(context.Background())
		if err != nil {
			return steps, err
		}
		if event.Kind() == EventStep {
			steps++
		}
		answer(t, p, event)
	}
}

func TestAPanicOnTheThreadOfAPipelineIsItsFailure(t *testing.T) {
	p := newHost(t, UsePipeline, "algo.advantage=custom").pipeline(2)
	ok(t, p.SetAdvantage(func(*Tokens, []float64) error { panic("ouch") }))
	ok(t, p.Start())
	for i := 0; i < 2; i++ { // again and again
		steps, err := run(t, p)
		var panicked *PanicError
		if steps != 0 || !errors.Is(err, ErrCancelled) || !errors.As(err, &panicked) {
			t.Fatalf("%d steps, %v", steps, err)
		}
	}
}

func TestALossFunctionOfAPipelineFailsOnceAndTheLoopGoesOn(t *testing.T) {
	p := newHost(t, UsePipeline, "algo.policy_loss=custom").pipeline(3)
	var calls int32
	ok(t, p.SetLoss(func(tokens *Tokens, weights, gradient []float64) (float64, error) {
		if atomic.AddInt32(&calls, 1) == 1 {
			panic("ouch")
		}
		return reinforce(tokens, weights, gradient)
	}))
	ok(t, p.Start())
	first, err := run(t, p)
	var panicked *PanicError
	if !errors.As(err, &panicked) {
		t.Fatal(err)
	}
	rest, err := run(t, p)
	if err != ErrDone || first+rest != 3 {
		t.Errorf("%d and %d steps, %v", first, rest, err)
	}
}

func TestAFunctionIsLetGoOfWhenItIsReplacedAndWhenItsObjectEnds(t *testing.T) {
	h := newHost(t, UseParts, "algo.advantage=custom")
	trainer := h.trainer()
	var collected int32
	function := func() AdvantageFunc {
		big := new([1 << 16]byte)
		runtime.SetFinalizer(big, func(*[1 << 16]byte) { atomic.AddInt32(&collected, 1) })
		return func(*Tokens, []float64) error { big[0]++; return nil }
	}
	gone := func(count int32) func() bool {
		return func() bool { return atomic.LoadInt32(&collected) == count }
	}
	ok(t, trainer.SetAdvantage(function()))
	ok(t, trainer.SetAdvantage(function()))
	eventually(t, "a replaced function is collected", gone(1))
	trainer.Close()
	eventually(t, "the function of a closed object is collected", gone(2))
	expect(t, trainer.SetAdvantage(function()), ErrStaleHandle)
	eventually(t, "a function that was refused is collected", gone(3))
}

func TestADroppedHookIsNoHookAnyMore(t *testing.T) {
	handle := newHook(&hook{})
	rlGoDrop(handle)
	defer func() {
		if recover() == nil {
			t.Error("the handle still stands for something")
		}
	}()
	cgo.Handle(handle).Value()
}

func TestTheLogComesAndItsPanicsAreKept(t *testing.T) {
	h := newHost(t, UseModel, "runtime.log_level=debug")
	var lines []string
	ok(t, h.runtime.SetLog(func(line LogLine) {
		if line.Level == LogOff || line.Component == "" || line.Time.Year() < 2020 {
			t.Errorf("%+v", line)
		}
		for _, field := range line.Fields {
			if field.Name == "path" && strings.Contains(line.Message, field.Value) {
				lines = append(lines, line.Message)
			}
		}
	}))
	value[*Model](t)(h.runtime.Open(nil, UseModel)).Close()
	ok(t, h.runtime.SetLog(nil)) // from here on the lines are ours
	if len(lines) == 0 || h.runtime.LogError() != nil {
		t.Errorf("%q, %v", lines, h.runtime.LogError())
	}
	ok(t, h.runtime.SetLog(func(LogLine) { panic("ouch") }))
	value[*Model](t)(h.runtime.Open(nil, UseModel)).Close()
	var panicked *PanicError
	if !errors.As(h.runtime.LogError(), &panicked) || panicked.Value != "ouch" {
		t.Error(h.runtime.LogError())
	}
}
