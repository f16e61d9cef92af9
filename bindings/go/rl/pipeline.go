package rl

/*
#include "rl.h"
#include "hooks.h"
*/
import "C"

import (
	"context"
	"runtime"
	"time"
)

// Pipeline is the training loop on a thread of librl. The host pulls events with Next or from the
// channel of Events, and scores samples.
type Pipeline struct {
	ptr      *C.rl_pipeline
	failures *failures
	turn     turn     // of the waits for events, also of its queues
	kept     []*Event // taken from librl, but not given out; belongs to the turn
}

func newPipeline(ptr *C.rl_pipeline) *Pipeline {
	return &Pipeline{ptr: ptr, failures: &failures{}, turn: newTurn()}
}

// PipelineStats are the books of a run.
type PipelineStats struct {
	State    State
	Step     uint64 // training steps done
	Version  uint64 // of the weights
	Unscored uint64 // samples that wait for a reward
	// Samples that wait for a reply.
	Unreplied uint64
	// Samples.
	AttemptsStarted, AttemptsTrained, AttemptsDiscarded, AttemptsInFlight uint64
	// Tokens.
	TokensGenerated, TokensTrained, TokensDiscarded, TokensInFlight uint64
	// Groups.
	PromptsDrawn, PromptsTrained, PromptsDropped, PromptsOpen uint64
	// Refused scores.
	LateScores, DuplicateScores, UnknownScores, NonfiniteScores uint64
	// Rows in the feed, and the most it can hold.
	FeedSize, FeedCapacity uint64
}

// Close stops the loop and ends the handle; it waits for a training step in progress.
func (p *Pipeline) Close() {
	if p != nil {
		C.rl_pipeline_destroy(p.ptr)
		runtime.KeepAlive(p)
	}
}

// call is what most methods do: one function of rl.h without a result.
func (p *Pipeline) call(f func(record **C.rl_error) C.rl_status, used ...any) error {
	var record *C.rl_error
	status := f(&record)
	runtime.KeepAlive(p)
	return outcome(status, &record, used...)
}

// ---- events ----

// Next is the next event, which the caller closes; it waits until ctx is done, and goroutines that
// ask at once get events in turn. ErrDone: the loop ended and every event was taken.
// ErrInterrupted: Interrupt. A failure of the loop is returned again and again, once every event
// was taken. A loss function that failed is reported once, and the loop goes on.
func (p *Pipeline) Next(ctx context.Context) (*Event, error) {
	if err := p.turn.take(ctx); err != nil {
		return nil, err
	}
	defer p.turn.giveBack()
	if err := p.failures.takeLoss(); err != nil {
		return nil, err
	}
	if len(p.kept) > 0 {
		event := p.kept[0]
		p.kept = p.kept[1:]
		return event, nil
	}
	event, err := nextEvent(ctx, p.pull, func() { C.rl_pipeline_interrupt(p.ptr, nil) })
	return event, p.failures.explain(err)
}

func (p *Pipeline) pull(timeout C.int64_t) (*Event, error) {
	var out *C.rl_event
	var record *C.rl_error
	status := C.rl_pipeline_next(p.ptr, timeout, &out, &record)
	if err := outcome(status, &record, p); err != nil {
		return nil, err
	}
	return eventOf(out), nil
}

// keep gives an event back, for a later Next.
func (p *Pipeline) keep(event *Event) {
	<-p.turn
	p.kept = append(p.kept, event)
	p.turn.giveBack()
}

// Events are delivered on C, which is closed after the last one, by a goroutine of their own. It
// ends with the loop, with the pipeline or with its context; an event that nobody took by then is
// kept for Next.
type Events struct {
	C   <-chan *Event
	err error
}

// Events starts the goroutine. Whoever stops receiving cancels ctx.
func (p *Pipeline) Events(ctx context.Context) *Events {
	channel := make(chan *Event)
	events := &Events{C: channel}
	go func() {
		defer close(channel)
		for {
			event, err := p.Next(ctx)
			if err != nil {
				events.err = err
				return
			}
			select {
			case channel <- event:
			case <-ctx.Done():
				p.keep(event)
				events.err = ctx.Err()
				return
			}
		}
	}()
	return events
}

// Err is why C was closed: nil when the loop ended and every event was taken. It may be asked for
// once C is closed.
func (e *Events) Err() error {
	if e.err == ErrDone {
		return nil
	}
	return e.err
}

// Interrupt makes one Next, running or next, return ErrInterrupted.
func (p *Pipeline) Interrupt() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_interrupt(p.ptr, record)
	})
}

// EventQueue is where events wait: those of a pipeline, and of engines, buffers and trainers that
// were given it.
type EventQueue struct {
	ptr  *C.rl_event_queue
	turn turn // of the waits for events; a pipeline's, where it is the pipeline's queue
}

// NewEventQueue is a queue for engines, buffers and trainers.
func NewEventQueue() (*EventQueue, error) {
	var out *C.rl_event_queue
	var record *C.rl_error
	if err := outcome(C.rl_event_queue_create(&out, &record), &record); err != nil {
		return nil, err
	}
	return backstop(&EventQueue{out, newTurn()}, (*EventQueue).Close), nil
}

// Next is the next event, which the caller closes; it waits until ctx is done, and goroutines that
// ask at once get events in turn. ErrInterrupted: Interrupt. ErrDone: the pipeline of the queue has
// ended and every event was taken. Of a pipeline's queue, Next of the pipeline takes events too.
func (q *EventQueue) Next(ctx context.Context) (*Event, error) {
	if err := q.turn.take(ctx); err != nil {
		return nil, err
	}
	defer q.turn.giveBack()
	return nextEvent(ctx, q.pull, func() { C.rl_event_queue_interrupt(q.ptr, nil) })
}

func (q *EventQueue) pull(timeout C.int64_t) (*Event, error) {
	var out *C.rl_event
	var record *C.rl_error
	status := C.rl_event_queue_next(q.ptr, timeout, &out, &record)
	if err := outcome(status, &record, q); err != nil {
		return nil, err
	}
	return eventOf(out), nil
}

// Interrupt makes one Next, running or next, return ErrInterrupted.
func (q *EventQueue) Interrupt() error {
	var record *C.rl_error
	return outcome(C.rl_event_queue_interrupt(q.ptr, &record), &record, q)
}

func (q *EventQueue) handle() *C.rl_event_queue {
	if q == nil {
		return nil
	}
	return q.ptr
}

// Queue is the queue of the pipeline's events, for its descriptor.
func (p *Pipeline) Queue() (*EventQueue, error) {
	var out *C.rl_event_queue
	var record *C.rl_error
	if err := outcome(C.rl_pipeline_queue(p.ptr, &out, &record), &record, p); err != nil {
		return nil, err
	}
	return backstop(&EventQueue{out, p.turn}, (*EventQueue).Close), nil
}

// Close ends the queue's handle.
func (q *EventQueue) Close() {
	if q != nil {
		C.rl_event_queue_release(q.ptr)
		runtime.KeepAlive(q)
	}
}

// FD is a descriptor for poll and epoll; never read or close it.
func (q *EventQueue) FD() int {
	fd := C.rl_event_queue_fd(q.ptr)
	runtime.KeepAlive(q)
	return int(fd)
}

// Size is the number of events waiting now.
func (q *EventQueue) Size() int {
	size := C.rl_event_queue_size(q.ptr)
	runtime.KeepAlive(q)
	return int(size)
}

// ---- scores ----

// A Score is the reward of a sample with its parts, or why it gets none.
type Score struct {
	SampleID uint64
	Reward   float64
	Parts    []float64 // kinds of reward beside the reward
	Failure  string    // why the sample gets no reward; empty: it gets one
	// What each token after the prompt earns in addition to the reward; nil: nothing.
	TokenRewards []float64
}

// Score rewards a sample, in any order, until its deadline.
func (p *Pipeline) Score(sampleID uint64, reward float64) error {
	_, err := p.ScoreMany([]Score{{SampleID: sampleID, Reward: reward}})
	return err
}

// ScoreMany rewards many samples. All are tried; results has the code of each, 0 for one that was
// accepted, and of several refusals the error has Parts.
func (p *Pipeline) ScoreMany(scores []Score) (results []Code, err error) {
	var memory arena
	defer memory.free()
	results = make([]Code, len(scores))
	err = p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_score(p.ptr, memory.scores(scores), C.size_t(len(scores)),
			first[C.rl_status](results), record)
	})
	return results, err
}

// Fail says that the sample will get no reward: its group is dropped.
func (p *Pipeline) Fail(sampleID uint64, reason string) error {
	_, err := p.ScoreMany([]Score{{SampleID: sampleID, Failure: reason}})
	return err
}

// scores is an array of the arena.
func (a *arena) scores(scores []Score) *C.rl_score {
	raw := make([]C.rl_score, len(scores))
	for i, score := range scores {
		C.rl_score_init(&raw[i], C.sizeof_rl_score)
		raw[i].sample_id = C.uint64_t(score.SampleID)
		raw[i].reward = C.double(score.Reward)
		raw[i].parts = placed[C.double](a, score.Parts)
		raw[i].num_parts = C.size_t(len(score.Parts))
		raw[i].token_rewards = placed[C.double](a, score.TokenRewards)
		raw[i].num_token_rewards = C.size_t(len(score.TokenRewards))
		if score.Failure != "" {
			raw[i].failure, raw[i].failure_len = a.text(score.Failure)
		}
	}
	return placed[C.rl_score](a, raw)
}

// ---- turns ----

// A Reply answers a turn of the model (EventTurn): token ids, a text, or that the sample has no
// further turn.
type Reply struct {
	SampleID uint64
	Turn     uint64 // the turn that it answers, EventView.Count; 0: the present one
	IDs      []int32
	Text     string    // encoded, if there are no IDs
	Flags    TextFlags // of the text, as for Model.Encode
	Finish   bool      // without tokens: the sample waits for its reward from now on
}

// Reply answers turns, in any order, until their deadline. All are tried; results has the code of
// each, 0 for one that was accepted, and of several refusals the error has Parts.
func (p *Pipeline) Reply(replies ...Reply) (results []Code, err error) {
	var memory arena
	defer memory.free()
	results = make([]Code, len(replies))
	err = p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_reply(p.ptr, memory.replies(replies), C.size_t(len(replies)),
			first[C.rl_status](results), record)
	})
	return results, err
}

// replies is an array of the arena.
func (a *arena) replies(replies []Reply) *C.rl_reply {
	raw := make([]C.rl_reply, len(replies))
	for i, reply := range replies {
		C.rl_reply_init(&raw[i], C.sizeof_rl_reply)
		raw[i].sample_id = C.uint64_t(reply.SampleID)
		raw[i].turn = C.uint64_t(reply.Turn)
		raw[i].ids = placed[C.int32_t](a, reply.IDs)
		raw[i].num_ids = C.size_t(len(reply.IDs))
		raw[i].finish = truth(reply.Finish)
		raw[i].text, raw[i].text_len = a.text(reply.Text)
		raw[i].flags = C.uint64_t(reply.Flags)
	}
	return placed[C.rl_reply](a, raw)
}

// ---- the feed ----

// A FeedRow is a row for the feed: a line as in the data file, or a prompt of token ids.
type FeedRow struct {
	JSON string
	IDs  []int32
	Tag  string // of a row of ids: a text that is returned in its samples
}

// Feed adds one row; it waits for room until ctx is done.
func (p *Pipeline) Feed(ctx context.Context, row FeedRow) error {
	return p.feed(row, func(add func(timeout C.int64_t) error) error {
		return inSlices(ctx, add)
	})
}

// TryFeed adds one row if there is room; ErrTimeout: there is none.
func (p *Pipeline) TryFeed(row FeedRow) error {
	return p.feed(row, func(add func(timeout C.int64_t) error) error { return add(0) })
}

func (p *Pipeline) feed(row FeedRow, with func(add func(timeout C.int64_t) error) error) error {
	var memory arena
	defer memory.free()
	var r C.rl_feed_row
	C.rl_feed_row_init(&r, C.sizeof_rl_feed_row)
	if row.JSON != "" {
		r.json, r.json_len = memory.text(row.JSON)
	}
	r.ids, r.num_ids = placed[C.int32_t](&memory, row.IDs), C.size_t(len(row.IDs))
	if row.Tag != "" {
		r.tag, r.tag_len = memory.text(row.Tag)
	}
	return with(func(timeout C.int64_t) error {
		return p.call(func(record **C.rl_error) C.rl_status {
			return C.rl_pipeline_feed(p.ptr, &r, timeout, record)
		})
	})
}

// FinishFeed says that no more rows come: the loop ends after the last whole step.
func (p *Pipeline) FinishFeed() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_finish_feed(p.ptr, record)
	})
}

// ---- the loop ----

// Start starts the loop.
func (p *Pipeline) Start() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_start(p.ptr, record)
	})
}

// Pause halts the loop before its next forward, wait or update.
func (p *Pipeline) Pause() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_pause(p.ptr, record)
	})
}

// Unpause ends a pause.
func (p *Pipeline) Unpause() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_unpause(p.ptr, record)
	})
}

// Stop ends the loop: a step in training is finished, one in rollout or scoring abandoned.
// ErrTimeout when it is still ending. Events can still be taken.
func (p *Pipeline) Stop(timeout time.Duration) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_stop(p.ptr, nanoseconds(timeout), record)
	})
}

// Checkpoint writes one at the next step boundary, or at once when the loop does not run, and
// gives its directory. ErrTimeout when it was not written in time; it still will be.
func (p *Pipeline) Checkpoint(timeout time.Duration) (string, error) {
	var path *C.rl_bytes
	err := p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_checkpoint(p.ptr, nanoseconds(timeout), &path, record)
	})
	return takenText(path), err
}

// SaveCritic writes the critic of algo.advantage = gae, as Model.Save the policy.
func (p *Pipeline) SaveCritic(dir string, dtype DType, flags SaveFlags) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		d, size := chars(dir)
		return C.rl_pipeline_save_critic(p.ptr, d, size, C.int32_t(dtype), C.uint64_t(flags),
			record)
	})
}

// Evaluate asks for an evaluation of eval.path at the next step boundary.
func (p *Pipeline) Evaluate() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_evaluate(p.ptr, record)
	})
}

// SetOptions takes over the values that may change while the pipeline runs.
func (p *Pipeline) SetOptions(options *Options) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_set_options(p.ptr, options.handle(), record)
	}, options)
}

// Options are a copy of the options, as SetOptions has changed them.
func (p *Pipeline) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_pipeline_options(p.ptr, &out, &record), &out, &record, p)
}

// SetAdvantage sets the function for algo.advantage = custom; nil for none. Before Start.
func (p *Pipeline) SetAdvantage(advantage AdvantageFunc) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_go_pipeline_set_advantage(p.ptr, advantage.hook(p.failures), record)
	})
}

// SetLoss sets the function for algo.policy_loss = custom; nil for none. Before Start.
func (p *Pipeline) SetLoss(loss LossFunc) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_go_pipeline_set_loss(p.ptr, loss.hook(p.failures), record)
	})
}

// ---- where the run stands ----

// Stats are the books of the run.
func (p *Pipeline) Stats() (PipelineStats, error) {
	var s C.rl_pipeline_stats
	C.rl_pipeline_stats_init(&s, C.sizeof_rl_pipeline_stats)
	err := p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_get_stats(p.ptr, &s, record)
	})
	return PipelineStats{
		State:             State(s.state),
		Step:              uint64(s.step),
		Version:           uint64(s.version),
		Unscored:          uint64(s.unscored),
		Unreplied:         uint64(s.unreplied),
		AttemptsStarted:   uint64(s.attempts_started),
		AttemptsTrained:   uint64(s.attempts_trained),
		AttemptsDiscarded: uint64(s.attempts_discarded),
		AttemptsInFlight:  uint64(s.attempts_in_flight),
		TokensGenerated:   uint64(s.tokens_generated),
		TokensTrained:     uint64(s.tokens_trained),
		TokensDiscarded:   uint64(s.tokens_discarded),
		TokensInFlight:    uint64(s.tokens_in_flight),
		PromptsDrawn:      uint64(s.prompts_drawn),
		PromptsTrained:    uint64(s.prompts_trained),
		PromptsDropped:    uint64(s.prompts_dropped),
		PromptsOpen:       uint64(s.prompts_open),
		LateScores:        uint64(s.late_scores),
		DuplicateScores:   uint64(s.duplicate_scores),
		UnknownScores:     uint64(s.unknown_scores),
		NonfiniteScores:   uint64(s.nonfinite_scores),
		FeedSize:          uint64(s.feed_size),
		FeedCapacity:      uint64(s.feed_capacity),
	}, err
}

// Plan is the memory plan that the pipeline runs by.
func (p *Pipeline) Plan() (*Plan, error) {
	var out *C.rl_plan
	var record *C.rl_error
	return planOf(C.rl_pipeline_plan(p.ptr, &out, &record), &out, &record, p)
}

// CloseResult says whether the metrics file and the trace were written to their end. Ask after
// ErrDone.
func (p *Pipeline) CloseResult() error {
	return p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_close_result(p.ptr, record)
	})
}

// ResumedFrom is the checkpoint that the run was resumed from; empty for a fresh one.
func (p *Pipeline) ResumedFrom() (string, error) {
	var path *C.rl_bytes
	err := p.call(func(record **C.rl_error) C.rl_status {
		return C.rl_pipeline_resumed_from(p.ptr, &path, record)
	})
	return takenText(path), err
}

// WriteReport writes what the pipeline did as one HTML file. profiler may be nil.
func (p *Pipeline) WriteReport(profiler *Profiler, path string) error {
	return p.call(func(record **C.rl_error) C.rl_status {
		start, size := chars(path)
		return C.rl_pipeline_write_report(p.ptr, profiler.handle(), start, size, record)
	}, profiler)
}
