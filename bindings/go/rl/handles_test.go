package rl

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestObjectsEndInAnyOrderAndTwice(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		h := newHost(t, UseParts)
		engine, trainer := h.engine(), h.trainer()
		buffer := value[*Buffer](t)(NewBuffer(nil, 64))
		batch := h.scored()
		event := value[*Event](t)(trainer.Step(context.Background(), batch, nil))
		closers := []func(){h.runtime.Close, h.options.Close, h.model.Close, engine.Close,
			trainer.Close, buffer.Close, batch.Close, event.Close}
		for i := range closers {
			if backwards {
				i = len(closers) - 1 - i
			}
			closers[i]()
			closers[i]()
		}
		_, err := trainer.Step(context.Background(), batch, nil)
		expect(t, err, ErrStaleHandle)
		expect(t, engine.Run(context.Background()), ErrStaleHandle)
		expect(t, h.options.Set("runtime.threads", "1"), ErrStaleHandle)
		_, err = event.View()
		expect(t, err, ErrStaleHandle)
		_, err = h.model.NewEngine(nil)
		expect(t, err, ErrStaleHandle)
		if batch.Count() != 0 || event.Kind() != 0 {
			t.Error("a closed object still has something")
		}
	}
}

func TestObjectsOutliveWhatTheyWereMadeFrom(t *testing.T) {
	h := newHost(t, UseGenerate)
	engine := h.engine()
	h.options.Close()
	h.runtime.Close()
	h.model.Close()
	value[uint64](t)(engine.Submit(Request{Prompt: []int32{1}}))
	ok(t, engine.Run(context.Background()))
	batch := value[*Batch](t)(engine.Take())
	sample := value[*Sample](t)(batch.Sample(0))
	batch.Close()
	if sample.NumPrompt != 1 || sample.NumGenerated() == 0 || sample.IDs[0] != 1 {
		t.Errorf("%+v is no copy of its own", sample)
	}
}

func TestClosingNothingIsNoError(t *testing.T) {
	(*Options)(nil).Close()
	(*Runtime)(nil).Close()
	(*Plan)(nil).Close()
	(*Model)(nil).Close()
	(*Pipeline)(nil).Close()
	(*EventQueue)(nil).Close()
	(*Event)(nil).Close()
	(*Batch)(nil).Close()
	(*Engine)(nil).Close()
	(*Conversation)(nil).Close()
	(*Buffer)(nil).Close()
	(*Trainer)(nil).Close()
	(*Profiler)(nil).Close()
	(*Tensor)(nil).Close()
	(*DLPack)(nil).Close()
}

func TestWhatIsNilIsAnArgumentThatIsMissing(t *testing.T) {
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	defer buffer.Close()
	expect(t, buffer.PutBatch(nil), ErrInvalidArgument)
	_, err := newHost(t, UseParts).trainer().Step(context.Background(), nil, nil)
	expect(t, err, ErrInvalidArgument)
	_, err = NewPlan(nil, UseModel)
	expect(t, err, ErrInvalidArgument)
}

func TestTheCollectorEndsWhatNobodyClosed(t *testing.T) {
	h := newHost(t, UseGenerate)
	before := value[uint64](t)(h.runtime.ReservedBytes())
	func() {
		engine := value[*Engine](t)(h.model.NewEngine(nil))
		value[uint64](t)(engine.Submit(Request{Prompt: []int32{1, 2}}))
		if held := value[uint64](t)(h.runtime.ReservedBytes()); held <= before {
			t.Fatalf("an engine holds nothing: %d bytes before, %d with it", before, held)
		}
	}()
	eventually(t, "the arenas of the engine are given back", func() bool {
		return value[uint64](t)(h.runtime.ReservedBytes()) == before
	})
}

// Freed memory has other bytes in it at once, so a copy that was made too late shows.
func TestCopiesAreWholeWhileTheirMemoryEnds(t *testing.T) {
	h := newHost(t, UseParts)
	parts := func(value float64) []float64 {
		all := make([]float64, 1024)
		for i := range all {
			all[i] = value
		}
		return all
	}
	for round := 0; round < 20; round++ {
		batch := h.scored()
		ok(t, batch.SetReward(0, 1, parts(1)...))
		var group sync.WaitGroup
		for reader := 0; reader < 2; reader++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := 0; i < 200; i++ {
					sample, err := batch.Sample(0)
					if errors.Is(err, ErrStaleHandle) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					for _, part := range sample.RewardParts {
						if part != sample.RewardParts[0] || part < 1 || part > 200 {
							t.Errorf("a part is %v beside %v", part, sample.RewardParts[0])
							return
						}
					}
				}
			}()
		}
		for i := 1; i <= 100; i++ {
			ok(t, batch.SetReward(0, 1, parts(float64(i))...))
		}
		batch.Close()
		group.Wait()
	}
}
