package rl

/*
#include "rl.h"
*/
import "C"

import (
	"context"
	"runtime"
	"time"
)

// Engine draws samples by continuous batching on the caller's thread: submit requests, run until
// idle, take what finished.
type Engine struct{ ptr *C.rl_engine }

// Request asks for samples of a prompt.
type Request struct {
	Prompt     []int32  // at least 1; none with Resume
	NumSamples uint64   // 0 means 1
	Sampling   *Options // sampling.* of this request; nil: those of the engine
	Priority   int64    // higher goes first, with engine.scheduling_policy = priority
	Resume     *Sample  // nil, or the sample to go on from
	Tag        string   // for every sample, returned unread
	Ordinal    *uint64  // of the samples; nil: librl chooses
	SampleID   uint64   // of the first sample; 0: librl chooses
	Slot       uint32   // of the first sample
}

// EngineStats are what an engine holds at the end of a time, and counts over that time.
type EngineStats struct {
	Running, Waiting, Started             uint64 // samples now
	BlocksInUse, BlocksTotal, BlocksPeak  uint64 // KV blocks
	PrefillTokens, DecodeTokens, Forwards uint64
	GeneratedTokens, MixedKVTokens        uint64
	Admitted, Finished, Aborted           uint64 // samples
	Nonfinite, Preemptions, SwappedBlocks uint64
	LookedUpTokens, CachedTokens          uint64
	Prefill, Decode, Busy                 time.Duration
	Queue, LongestQueue                   time.Duration // over Admitted samples
	FirstTokens                           uint64
	FirstToken, LongestFirstToken         time.Duration // over FirstTokens samples
}

// Close ends the engine with all its requests.
func (e *Engine) Close() {
	if e != nil {
		C.rl_engine_destroy(e.ptr)
		runtime.KeepAlive(e)
	}
}

// Submit queues a request. Its first sample has the id that is returned, and each further one has
// one more.
func (e *Engine) Submit(request Request) (uint64, error) {
	var memory arena
	defer memory.free()
	var r C.rl_request
	C.rl_request_init(&r, C.sizeof_rl_request)
	r.prompt = placed[C.int32_t](&memory, request.Prompt)
	r.num_prompt = C.size_t(len(request.Prompt))
	if request.NumSamples != 0 {
		r.num_samples = C.uint64_t(request.NumSamples)
	}
	r.sampling, r.priority = request.Sampling.handle(), C.int64_t(request.Priority)
	r.tag, r.tag_len = memory.text(request.Tag)
	if request.Ordinal != nil {
		r.ordinal = C.uint64_t(*request.Ordinal)
	}
	r.sample_id, r.slot = C.uint64_t(request.SampleID), C.uint32_t(request.Slot)
	if request.Resume != nil {
		view, err := request.Resume.view(&memory)
		if err != nil {
			return 0, err
		}
		r.resume = placed[C.rl_sample_view](&memory, []C.rl_sample_view{*view})
	}
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_engine_submit(e.ptr, &r, &out, &record)
	return uint64(out), outcome(status, &record, e, request.Sampling)
}

// Step computes one forward. ErrIdle when there is nothing to do, ErrPaused while the engine is
// paused.
func (e *Engine) Step() error {
	var record *C.rl_error
	return outcome(C.rl_engine_step(e.ptr, &record), &record, e)
}

// Run steps until nothing is left to do. Once ctx is done the engine pauses, as by Pause, and Run
// waits for the forward under way and returns ctx.Err(); after Unpause the samples go on.
func (e *Engine) Run(ctx context.Context) error {
	return e.computing(ctx, func(record **C.rl_error) C.rl_status {
		return C.rl_engine_run(e.ptr, record)
	})
}

// computing makes a call that computes, and pauses the engine once ctx is done.
func (e *Engine) computing(ctx context.Context, call func(record **C.rl_error) C.rl_status) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	stop := onDone(ctx, func() { C.rl_engine_pause(e.ptr, nil) })
	var record *C.rl_error
	err := outcome(call(&record), &record, e)
	if stop() && (err == nil || err == ErrPaused) {
		return ctx.Err()
	}
	return err
}

// Pause: nothing is computed from the end of a step under way until Unpause.
func (e *Engine) Pause() error {
	var record *C.rl_error
	return outcome(C.rl_engine_pause(e.ptr, &record), &record, e)
}

// Unpause ends a pause and a drain.
func (e *Engine) Unpause() error {
	var record *C.rl_error
	return outcome(C.rl_engine_unpause(e.ptr, &record), &record, e)
}

// Drain lets no sample begin and steps until those that have begun are finished. The drain stays in
// force until Unpause. Once ctx is done the engine pauses too, as in Run.
func (e *Engine) Drain(ctx context.Context) error {
	return e.computing(ctx, func(record **C.rl_error) C.rl_status {
		return C.rl_engine_drain(e.ptr, -1, record)
	})
}

// TryDrain begins a drain, and waits for nothing: ErrTimeout while samples that have begun are not
// finished.
func (e *Engine) TryDrain() error {
	var record *C.rl_error
	return outcome(C.rl_engine_drain(e.ptr, 0, &record), &record, e)
}

// SetQueue sends the engine's events to a queue from now on, with the number source; nil: nowhere.
func (e *Engine) SetQueue(queue *EventQueue, source uint64) error {
	var record *C.rl_error
	status := C.rl_engine_set_queue(e.ptr, queue.handle(), C.uint64_t(source), &record)
	return outcome(status, &record, e, queue)
}

// Options are a copy of the options that the engine was made with.
func (e *Engine) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_engine_options(e.ptr, &out, &record), &out, &record, e)
}

// Take gives the samples that finished since the last call. ErrWouldBlock when none did but
// requests are running, ErrIdle when none did and none run.
func (e *Engine) Take() (*Batch, error) {
	var out *C.rl_batch
	var record *C.rl_error
	return batchOf(C.rl_engine_take(e.ptr, &out, &record), &out, &record, e)
}

// Abort ends all requests; their samples come through Take with all that they have.
func (e *Engine) Abort() error {
	_, err := e.abort(0)
	return err
}

// AbortRequest ends the one request that the sample belongs to.
func (e *Engine) AbortRequest(sampleID uint64) error {
	var record *C.rl_error
	status := C.rl_engine_abort_request(e.ptr, C.uint64_t(sampleID), &record)
	return outcome(status, &record, e)
}

// AbortSparing ends all requests but those with a sample that was aborted
// pipeline.partial_rollout_max_aborts times; spared samples go on.
func (e *Engine) AbortSparing() (spared uint64, err error) { return e.abort(AbortSpare) }

func (e *Engine) abort(flags AbortFlags) (spared uint64, err error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_engine_abort(e.ptr, C.uint64_t(flags), &out, &record)
	return uint64(out), outcome(status, &record, e)
}

// Sleep gives memory back to the system until Wake; level is 1 or 2.
func (e *Engine) Sleep(level int32) error {
	var record *C.rl_error
	return outcome(C.rl_engine_sleep(e.ptr, C.int32_t(level), &record), &record, e)
}

// Wake takes the memory again.
func (e *Engine) Wake() error {
	var record *C.rl_error
	return outcome(C.rl_engine_wake(e.ptr, &record), &record, e)
}

// Stats are those since the engine was made, of all its replicas together.
func (e *Engine) Stats() (EngineStats, error) { return e.stats(-1, PeriodTotal) }

// ReplicaStats are those of one replica, counted from 0.
func (e *Engine) ReplicaStats(index int) (EngineStats, error) { return e.stats(index, PeriodTotal) }

// Interval are those of a replica over its last interval of engine.stats_interval_ns.
// ErrWouldBlock before the first one ended.
func (e *Engine) Interval(index int) (EngineStats, error) { return e.stats(index, PeriodInterval) }

func (e *Engine) stats(replica int, period Period) (EngineStats, error) {
	var s C.rl_engine_stats
	var record *C.rl_error
	C.rl_engine_stats_init(&s, C.sizeof_rl_engine_stats)
	status := C.rl_engine_get_stats(e.ptr, C.int64_t(replica), C.int32_t(period), &s, &record)
	return engineStatsOf(&s), outcome(status, &record, e)
}

func engineStatsOf(s *C.rl_engine_stats) EngineStats {
	return EngineStats{
		Running:           uint64(s.running),
		Waiting:           uint64(s.waiting),
		Started:           uint64(s.started),
		BlocksInUse:       uint64(s.blocks_in_use),
		BlocksTotal:       uint64(s.blocks_total),
		BlocksPeak:        uint64(s.blocks_peak),
		PrefillTokens:     uint64(s.prefill_tokens),
		DecodeTokens:      uint64(s.decode_tokens),
		Forwards:          uint64(s.forwards),
		GeneratedTokens:   uint64(s.generated_tokens),
		MixedKVTokens:     uint64(s.mixed_kv_tokens),
		Admitted:          uint64(s.admitted),
		Finished:          uint64(s.finished),
		Aborted:           uint64(s.aborted),
		Nonfinite:         uint64(s.nonfinite),
		Preemptions:       uint64(s.preemptions),
		SwappedBlocks:     uint64(s.swapped_blocks),
		LookedUpTokens:    uint64(s.looked_up_tokens),
		CachedTokens:      uint64(s.cached_tokens),
		Prefill:           time.Duration(s.prefill_ns),
		Decode:            time.Duration(s.decode_ns),
		Busy:              time.Duration(s.busy_ns),
		Queue:             time.Duration(s.queue_ns),
		LongestQueue:      time.Duration(s.longest_queue_ns),
		FirstTokens:       uint64(s.first_tokens),
		FirstToken:        time.Duration(s.first_token_ns),
		LongestFirstToken: time.Duration(s.longest_first_token_ns),
	}
}
