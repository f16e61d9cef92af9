package rl

/*
#include "rl.h"
*/
import "C"

import "runtime"

// Batch is a list of samples.
type Batch struct {
	ptr *C.rl_batch
	guard
}

func batchOf(status C.rl_status, out **C.rl_batch, record **C.rl_error,
	used ...any) (*Batch, error) {
	if err := outcome(status, record, used...); err != nil {
		return nil, err
	}
	return backstop(&Batch{ptr: *out}, (*Batch).Close), nil
}

// Close ends the batch.
func (b *Batch) Close() {
	if b != nil {
		defer b.ending()()
		C.rl_batch_release(b.ptr)
	}
}

func (b *Batch) handle() *C.rl_batch {
	if b == nil {
		return nil
	}
	return b.ptr
}

// Count is the number of samples; 0 once the batch is closed.
func (b *Batch) Count() int {
	count := C.rl_batch_count(b.handle())
	runtime.KeepAlive(b)
	return int(count)
}

// Sample is a copy of sample index, counted from 0. Its texts are empty: Model.Decode makes them.
func (b *Batch) Sample(index int) (*Sample, error) {
	defer b.reading()()
	view := newView()
	var record *C.rl_error
	status := C.rl_batch_sample(b.ptr, C.size_t(index), view, &record)
	if err := outcome(status, &record); err != nil {
		return nil, err
	}
	return sampleOf(view), nil
}

// SetReward sets the reward of a sample and the kinds of reward beside it, replacing earlier ones.
func (b *Batch) SetReward(index int, reward float64, parts ...float64) error {
	defer b.ending()() // of the parts that a view of before points to
	var memory arena
	defer memory.free()
	score := memory.scores([]Score{{Reward: reward, Parts: parts}})
	var record *C.rl_error
	status := C.rl_batch_score(b.ptr, C.size_t(index), score, 1, &record)
	return outcome(status, &record, b)
}
