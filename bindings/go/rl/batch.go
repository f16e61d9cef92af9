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

// SetReward sets the reward of a sample, replacing an earlier one.
func (b *Batch) SetReward(index int, reward float64) error {
	var record *C.rl_error
	status := C.rl_batch_set_reward(b.ptr, C.size_t(index), C.double(reward), &record)
	return outcome(status, &record, b)
}

// SetRewardParts sets the kinds of reward beside the reward of a sample.
func (b *Batch) SetRewardParts(index int, parts []float64) error {
	defer b.ending()() // of the parts that a view of before points to
	var record *C.rl_error
	status := C.rl_batch_set_reward_parts(b.ptr, C.size_t(index), first[C.double](parts),
		C.size_t(len(parts)), &record)
	return outcome(status, &record, b)
}
