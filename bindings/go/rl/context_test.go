package rl

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

func TestNextEndsWithItsContext(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	event, err := p.Next(ctx) // nothing comes: the loop was not started
	if event != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", event, err)
	}
	_, err = p.Next(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ok(t, p.Start())
	answer(t, p, value[*Event](t)(p.Next(context.Background())))
	ok(t, p.Interrupt())
	for err = nil; err == nil; { // no interrupt of a context is left, the host's own comes through
		event, err = p.Next(context.Background())
		event.Close()
	}
	expect(t, err, ErrInterrupted)
}

// A lateContext ends just after it was found alive.
type lateContext struct {
	context.Context
	asked int
}

func (c *lateContext) Done() <-chan struct{} {
	done := make(chan struct{})
	if c.asked++; c.asked > 1 {
		close(done)
	}
	return done
}

func (c *lateContext) Err() error {
	if c.asked > 1 {
		return context.Canceled
	}
	return nil
}

func TestAnInterruptThatCameTooLateIsNotLeftForTheNextCall(t *testing.T) {
	const samples = 32
	p := newHost(t, UsePipeline, "pipeline.samples_per_prompt=32").pipeline(1)
	ok(t, p.Start())
	eventually(t, "all samples wait for a score", func() bool {
		return value[PipelineStats](t)(p.Stats()).Unscored == samples
	})
	seen := map[uint64]bool{}
	take := func(event *Event, err error) {
		if !errors.Is(err, context.Canceled) {
			ok(t, err)
			seen[value[*Sample](t)(event.Sample()).SampleID] = true
			event.Close()
		}
	}
	for len(seen) < samples {
		take(p.Next(&lateContext{Context: context.Background()}))
		if len(seen) < samples {
			take(p.Next(context.Background()))
		}
	}
}

// collect takes every event under contexts that end at any moment, and counts them by kind.
func collect(t *testing.T, p *Pipeline) (map[EventKind]int, int) {
	counts, cut := map[EventKind]int{}, 0
	for wait := time.Duration(0); ; wait = (wait + 7*time.Microsecond) % time.Millisecond {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		event, err := p.Next(ctx)
		cancel()
		switch {
		case err == nil:
			counts[event.Kind()]++
			answer(t, p, event)
		case errors.Is(err, context.DeadlineExceeded):
			cut++
		default:
			expect(t, err, ErrDone)
			return counts, cut
		}
	}
}

func TestNoEventIsLostHoweverContextsEnd(t *testing.T) {
	const steps = 12
	p := newHost(t, UsePipeline).pipeline(steps)
	ok(t, p.Start())
	counts, cut := collect(t, p)
	if !reflect.DeepEqual(counts, map[EventKind]int{EventScore: 2 * steps, EventStep: steps}) {
		t.Errorf("%v, %d waits cut short", counts, cut)
	}
	stats := value[PipelineStats](t)(p.Stats())
	if stats.State != StateDone || stats.Step != steps || stats.AttemptsTrained != 2*steps {
		t.Errorf("%+v", stats)
	}
	ok(t, p.CloseResult())
}

func TestAFedPipelineRunsToTheEndOfItsFeed(t *testing.T) {
	h := newHost(t, UsePipeline)
	p := value[*Pipeline](t)(h.model.NewPipeline(nil))
	defer p.Close()
	chat := FeedRow{JSON: `{"messages": [{"role": "user", "content": "2?"}]}`}
	err := p.TryFeed(chat) // there is no template
	var cause *Error
	if !errors.As(errors.Unwrap(err), &cause) || cause.Message == "" {
		t.Errorf("%v has no cause", err)
	}
	ok(t, p.TryFeed(FeedRow{JSON: `{"ids": [1, 2], "tag": "as JSON"}`}))
	ok(t, p.TryFeed(FeedRow{IDs: []int32{1, 2}, Tag: "as ids"}))
	rows := 2
	for ; err != ErrTimeout; rows++ {
		if err = p.TryFeed(FeedRow{IDs: []int32{1, 2}}); err != nil && err != ErrTimeout {
			t.Fatal(err)
		}
	}
	if rows--; uint64(rows) != value[PipelineStats](t)(p.Stats()).FeedCapacity {
		t.Errorf("the feed was full with %d rows", rows)
	}
	ok(t, p.FinishFeed())
	ok(t, p.Start())
	tags := map[string]int{}
	for events := p.Events(context.Background()); ; {
		event, open := <-events.C
		if !open {
			ok(t, events.Err())
			break
		}
		if sample, err := event.Sample(); err == nil {
			tags[sample.Tag]++
		}
		answer(t, p, event)
	}
	if !reflect.DeepEqual(tags, map[string]int{"as JSON": 2, "as ids": 2, "": 2*rows - 4}) {
		t.Error(tags)
	}
}

func TestTheEventGoroutineDeliversEverythingAndEnds(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(3)
	before := runtime.NumGoroutine()
	ok(t, p.Start())
	events, counts := p.Events(context.Background()), map[EventKind]int{}
	for event := range events.C {
		counts[event.Kind()]++
		answer(t, p, event)
	}
	ok(t, events.Err())
	if !reflect.DeepEqual(counts, map[EventKind]int{EventScore: 6, EventStep: 3}) {
		t.Error(counts)
	}
	eventually(t, "the goroutine ends", func() bool { return runtime.NumGoroutine() <= before })
}

func TestTheEventGoroutineEndsWithItsContextAndKeepsWhatNobodyTook(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	before := runtime.NumGoroutine()
	ok(t, p.Start())
	ctx, cancel := context.WithCancel(context.Background())
	events := p.Events(ctx)
	queue := value[*EventQueue](t)(p.Queue())
	defer queue.Close()
	eventually(t, "an event waits to be taken from the channel", func() bool {
		return value[PipelineStats](t)(p.Stats()).Unscored == 2 && queue.Size() == 1
	})
	cancel()
	eventually(t, "the goroutine ends", func() bool { return runtime.NumGoroutine() <= before })
	if _, open := <-events.C; open || !errors.Is(events.Err(), context.Canceled) {
		t.Errorf("open %v, %v", open, events.Err())
	}
	counts, _ := collect(t, p)
	if !reflect.DeepEqual(counts, map[EventKind]int{EventScore: 2, EventStep: 1}) {
		t.Error(counts)
	}
}

func TestTheEventGoroutineEndsWithThePipeline(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	before := runtime.NumGoroutine()
	events := p.Events(context.Background())
	time.AfterFunc(20*time.Millisecond, p.Close)
	for event := range events.C {
		event.Close()
	}
	if err := events.Err(); err != nil && !errors.Is(err, ErrStaleHandle) {
		t.Error(err)
	}
	eventually(t, "the goroutine ends", func() bool { return runtime.NumGoroutine() <= before })
}

func TestTheDescriptorIsReadableWhenAnEventWaits(t *testing.T) {
	type pollFD struct {
		fd              int32
		events, revents int16
	}
	p := newHost(t, UsePipeline).pipeline(1)
	queue := value[*EventQueue](t)(p.Queue())
	defer queue.Close()
	ready := func() bool {
		fds := [1]pollFD{{fd: int32(queue.FD()), events: 1}}
		count, _, _ := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(&fds)), 1, 0)
		return count == 1 && fds[0].revents&1 == 1
	}
	if ready() || queue.Size() != 0 {
		t.Error("nothing has happened")
	}
	ok(t, p.Start())
	eventually(t, "the descriptor is readable", ready)
}

func TestAStoppedPipelineLeavesACheckpoint(t *testing.T) {
	h := newHost(t, UsePipeline, "checkpoint.dir="+t.TempDir())
	p := h.pipeline(8)
	ok(t, p.Start())
	for events := p.Events(context.Background()); ; {
		event, open := <-events.C
		if !open {
			ok(t, events.Err())
			break
		}
		if event.Kind() == EventStep {
			if err := p.Stop(0); err != nil && err != ErrTimeout {
				t.Fatal(err)
			}
		}
		if sample, err := event.Sample(); err == nil {
			p.Score(sample.SampleID, 1) // refused once the loop is stopped
		}
		event.Close()
	}
	if path := value[string](t)(p.Checkpoint(-1)); path == "" {
		t.Error("no checkpoint")
	}
}

// finished is the ids of what an engine has finished, by slot.
func finished(t *testing.T, engine *Engine) [][]int32 {
	t.Helper()
	batch := value[*Batch](t)(engine.Take())
	defer batch.Close()
	ids := make([][]int32, batch.Count())
	for i := range ids {
		sample := value[*Sample](t)(batch.Sample(i))
		ids[sample.Slot] = sample.IDs
	}
	return ids
}

// cutRun runs an engine to its end under contexts that end at once, and counts the cuts.
func cutRun(t *testing.T, engine *Engine) int {
	t.Helper()
	for cuts := 0; ; cuts++ {
		err := engine.Run(&lateContext{Context: context.Background()})
		if err == nil {
			return cuts
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		ok(t, engine.Unpause())
	}
}

func TestRunEndsWithItsContextAndGoesOnAfterwards(t *testing.T) {
	h := newHost(t, UseGenerate, "sampling.max_new_tokens=56", "sampling.ignore_eos=true")
	whole, cut := h.engine(), h.engine()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := cut.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	request := Request{Prompt: []int32{1, 2, 3}, NumSamples: 2}
	for cuts, attempts := 0, 0; cuts == 0; attempts++ { // a run may be over before it is cut
		if attempts == 100 {
			t.Fatal("nothing was ever cut")
		}
		value[uint64](t)(whole.Submit(request))
		value[uint64](t)(cut.Submit(request))
		ok(t, whole.Run(context.Background()))
		cuts = cutRun(t, cut)
		if has, wanted := finished(t, cut), finished(t, whole); !reflect.DeepEqual(has, wanted) {
			t.Errorf("%v instead of %v after %d cuts", has, wanted, cuts)
		}
	}
}

func TestARunWaitsForWhatComputesAndNoLongerThanItsContext(t *testing.T) {
	h := newHost(t, UsePipeline, "runtime.busy_timeout_ns=1h")
	model := value[*Model](t)(h.runtime.Open(h.options, UseGenerate))
	defer model.Close()
	engine := value[*Engine](t)(model.NewEngine(nil))
	defer engine.Close()
	value[uint64](t)(engine.Submit(Request{Prompt: []int32{1, 2, 3}, NumSamples: 2}))
	p := h.pipeline(1)
	ok(t, p.Start())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := engine.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ok(t, engine.Unpause())
	ended := make(chan error)
	go func() { ended <- engine.Run(context.Background()) }()
	for {
		event, err := p.Next(context.Background())
		if errors.Is(err, ErrDone) {
			break
		}
		ok(t, err)
		answer(t, p, event)
	}
	ok(t, <-ended)
	if samples := len(finished(t, engine)); samples != 2 {
		t.Errorf("%d samples", samples)
	}
}

func TestAnAbortedSampleGoesOnFromGo(t *testing.T) {
	h := newHost(t, UseGenerate, "sampling.max_new_tokens=12")
	whole, cut := h.engine(), h.engine()
	value[uint64](t)(whole.Submit(Request{Prompt: []int32{1, 2, 3}}))
	ok(t, whole.Run(context.Background()))
	value[uint64](t)(cut.Submit(Request{Prompt: []int32{1, 2, 3}}))
	for i := 0; i < 3; i++ {
		ok(t, cut.Step())
	}
	ok(t, cut.Abort())
	batch := value[*Batch](t)(cut.Take())
	defer batch.Close()
	sample := value[*Sample](t)(batch.Sample(0))
	if sample.Finish != FinishAborted || len(sample.Versions) != sample.NumGenerated() {
		t.Fatalf("%+v", sample)
	}
	value[uint64](t)(cut.Submit(Request{Resume: sample}))
	ok(t, cut.Run(context.Background()))
	// The sample that went on may have as many new tokens again.
	has, wanted := finished(t, cut)[0], finished(t, whole)[0]
	if len(has) < len(wanted) || !reflect.DeepEqual(has[:len(wanted)], wanted) {
		t.Errorf("%v does not begin with %v", has, wanted)
	}
}
