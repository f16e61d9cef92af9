package rl

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// soon is a context that ends while a wait is under way.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func expectDeadline(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no end of the context", err)
	}
}

func TestEveryWaitEndsWithItsContext(t *testing.T) {
	h := newHost(t, UsePipeline)
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	defer buffer.Close()
	batch, err := buffer.Take(soon(t), Groups{})
	expectDeadline(t, err)
	if batch != nil {
		t.Error("a batch came without samples")
	}
	queue := value[*EventQueue](t)(NewEventQueue())
	defer queue.Close()
	_, err = queue.Next(soon(t))
	expectDeadline(t, err)
	p := value[*Pipeline](t)(h.model.NewPipeline(nil))
	defer p.Close()
	for err = nil; err == nil; { // until the feed is full
		err = p.TryFeed(FeedRow{IDs: []int32{1, 2}})
	}
	expect(t, err, ErrTimeout)
	expectDeadline(t, p.Feed(soon(t), FeedRow{IDs: []int32{1, 2}}))
	events := value[*EventQueue](t)(p.Queue())
	defer events.Close()
	_, err = events.Next(soon(t))
	expectDeadline(t, err)
	if _, err = events.pull(0); err != ErrTimeout { // an interrupt was left
		t.Error(err)
	}
}

func TestAQueueAndItsPipelineEndTheirOwnWaitsAlone(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	queue := value[*EventQueue](t)(p.Queue())
	defer queue.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := p.Next(ctx) // nothing comes: the loop was not started
		ended <- err
	}()
	for i := 0; i < 3; i++ {
		_, err := queue.Next(soon(t))
		expectDeadline(t, err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the wait of the pipeline ended with %v", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAContextCancelsAStep(t *testing.T) {
	h := newHost(t, UseParts, "algo.policy_loss=custom", "trainer.epochs=1000")
	trainer, batch := h.trainer(), h.scored()
	ctx, cancel := context.WithCancel(context.Background())
	ok(t, trainer.SetLoss(func(tokens *Tokens, weights, gradient []float64) (float64, error) {
		cancel() // during the first optimizer step
		return reinforce(tokens, weights, gradient)
	}))
	_, err := trainer.Step(ctx, batch, nil)
	if !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err = trainer.Step(ctx, batch, nil); err != context.Canceled { // it does not begin
		t.Errorf("%v", err)
	}
}

func TestStepsOfSeveralGoroutinesTakeTurnsAndOneIsNotCancelledByAnother(t *testing.T) {
	h := newHost(t, UseParts)
	trainer, batch := h.trainer(), h.scored()
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(2)
		go func() {
			defer group.Done()
			event, err := trainer.Step(context.Background(), batch, []float64{1, -1})
			if err != nil {
				t.Error(err)
			}
			event.Close()
		}()
		go func(wait time.Duration) {
			defer group.Done()
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			event, err := trainer.Step(ctx, batch, []float64{1, -1})
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			event.Close()
		}(time.Duration(i) * time.Millisecond)
	}
	group.Wait()
}

// closedUnderUse calls a method on several goroutines until the object, which another one closes,
// is gone.
func closedUnderUse(t *testing.T, name string, end func(), use func() error) {
	t.Helper()
	var group, begun sync.WaitGroup
	for i := 0; i < 3; i++ {
		group.Add(1)
		begun.Add(1)
		go func() {
			defer group.Done()
			err := use()
			for begun.Done(); !errors.Is(err, ErrStaleHandle); err = use() {
				var failure *Error
				var result Code
				if err != nil && !errors.As(err, &failure) && !errors.As(err, &result) {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		}()
	}
	begun.Wait()
	end()
	group.Wait()
}

func TestAHandleThatAnotherGoroutineClosesIsAnErrorWhateverRuns(t *testing.T) {
	background := context.Background()
	h := newHost(t, UseParts)
	batch := h.scored()
	engine, trainer := h.engine(), h.trainer()
	closedUnderUse(t, "an engine", engine.Close, func() error {
		if _, err := engine.Submit(Request{Prompt: []int32{1, 2}}); err != nil {
			return err
		}
		return engine.Run(background)
	})
	closedUnderUse(t, "a trainer", trainer.Close, func() error {
		event, err := trainer.Step(background, batch, nil)
		event.Close()
		return err
	})
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	closedUnderUse(t, "a buffer", buffer.Close, func() error {
		taken, err := buffer.TryTake(Groups{})
		taken.Close()
		return err
	})
	queue := value[*EventQueue](t)(NewEventQueue())
	closedUnderUse(t, "a queue", queue.Close, func() error {
		_, err := queue.pull(0)
		return err
	})
	conversation := value[*Conversation](t)(h.engine().NewConversation([]int32{1, 2}))
	closedUnderUse(t, "a conversation", conversation.Close, func() error {
		_, err := conversation.Info()
		return err
	})
	closedUnderUse(t, "a model", h.model.Close, func() error {
		_, err := h.model.WeightNames()
		return err
	})
	plan := value[*Plan](t)(NewPlan(h.options, UseModel))
	closedUnderUse(t, "a plan", plan.Close, func() error {
		_, err := plan.Items()
		return err
	})
	tensor := value[*Tensor](t)(NewTensor(h.runtime, make([]float32, 64), 64))
	closedUnderUse(t, "a tensor", tensor.Close, func() error {
		_, err := TensorValues[float32](tensor)
		return err
	})
}

func TestAPipelineMayBeClosedWhileGoroutinesWaitForItsEvents(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	closing := make(chan error, 3)
	for i := 0; i < cap(closing); i++ {
		go func() {
			_, err := p.Next(context.Background())
			closing <- err
		}()
	}
	time.Sleep(10 * time.Millisecond)
	p.Close()
	for i := 0; i < cap(closing); i++ {
		if err := <-closing; !errors.Is(err, ErrDone) && !errors.Is(err, ErrStaleHandle) {
			t.Error(err)
		}
	}
}
