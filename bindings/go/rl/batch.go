package rl

/*
#include "rl.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

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

// NewBatch copies samples of the host, all of whose slices are checked.
func NewBatch(samples []*Sample) (*Batch, error) {
	var memory arena
	defer memory.free()
	views := make([]C.rl_sample_view, len(samples))
	for i, sample := range samples {
		view, err := sample.view(&memory)
		if err != nil {
			return nil, err
		}
		views[i] = *view
	}
	array := placed[C.rl_sample_view](&memory, views)
	var out *C.rl_batch
	var record *C.rl_error
	status := C.rl_batch_create(array, C.size_t(len(views)), &out, &record)
	return batchOf(status, &out, &record)
}

// ConcatBatches has the samples of batches one after the other, with their present rewards.
func ConcatBatches(batches ...*Batch) (*Batch, error) {
	parts := make([]C.rl_batch_part, len(batches))
	for i, batch := range batches {
		C.rl_batch_part_init(&parts[i], C.sizeof_rl_batch_part)
		parts[i].batch = batch.handle()
	}
	return joined(parts, batches)
}

// Select has the samples at these indices, in any order, also repeated, with their present rewards.
func (b *Batch) Select(indices []int) (*Batch, error) {
	var memory arena
	defer memory.free()
	sizes := make([]C.size_t, len(indices)+1) // one more, since no pointer stands for all samples
	for i, index := range indices {
		sizes[i] = C.size_t(index)
	}
	parts := make([]C.rl_batch_part, 1)
	C.rl_batch_part_init(&parts[0], C.sizeof_rl_batch_part)
	parts[0].batch = b.handle()
	parts[0].indices = placed[C.size_t](&memory, sizes)
	parts[0].num_indices = C.size_t(len(indices))
	return joined(parts, []*Batch{b})
}

func joined(parts []C.rl_batch_part, batches []*Batch) (*Batch, error) {
	var memory arena
	defer memory.free()
	var out *C.rl_batch
	var record *C.rl_error
	array := placed[C.rl_batch_part](&memory, parts)
	status := C.rl_batch_select(array, C.size_t(len(parts)), &out, &record)
	return batchOf(status, &out, &record, batches)
}

// BatchFromBytes has the samples of what Batch.Bytes or a buffer file holds. Bytes may come from
// anywhere: they are checked.
func BatchFromBytes(data []byte) (*Batch, error) {
	var out *C.rl_batch
	var record *C.rl_error
	var none [1]byte
	start := unsafe.Pointer(&none)
	if len(data) > 0 {
		start = unsafe.Pointer(&data[0])
	}
	status := C.rl_batch_import(start, C.size_t(len(data)), &out, &record)
	return batchOf(status, &out, &record, data)
}

// Bytes are the samples with their present rewards, for another process or a file.
func (b *Batch) Bytes() ([]byte, error) {
	var bytes *C.rl_bytes
	var record *C.rl_error
	status := C.rl_batch_export(b.ptr, &bytes, &record)
	return taken[byte](bytes), outcome(status, &record, b)
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
	return b.Score(index, Score{Reward: reward, Parts: parts})
}

// Score sets the rewards of samples from sample first on, all of them or, after a failure, none.
func (b *Batch) Score(first int, scores ...Score) error {
	defer b.ending()() // of what a view of before points to
	var memory arena
	defer memory.free()
	var record *C.rl_error
	status := C.rl_batch_score(b.ptr, C.size_t(first), memory.scores(scores),
		C.size_t(len(scores)), &record)
	return outcome(status, &record, b)
}
