package rl

/*
#include "rl.h"
*/
import "C"

import (
	"context"
	"runtime"
)

// Buffer gathers scored samples to groups, on their way to a trainer.
type Buffer struct{ ptr *C.rl_buffer }

// BufferFileInfo is what a buffer file says of itself. 0 where the writer did not know.
type BufferFileInfo struct {
	Step               uint64 // training step, from 1, whose batch it is; 0: of none
	GroupSize          uint64 // samples of a whole group
	MaxTokensPerDevice uint64 // of its run: a replay's trainer takes it
	OptionsIdentity    uint64 // digest of the options on which the bits of its run depend
	HasModel           bool   // whether the next three hold
	WeightVersion      uint64 // of the weights that training on it starts from
	WeightDigest       uint64
	Vocab              uint64
}

// Groups says which whole groups Buffer.Take gives.
type Groups struct {
	Min     uint64 // wait for so many; 0 means 1
	Max     uint64 // 0 means all
	Version uint64 // of the weights that are to be trained, for buffer.max_staleness
	Step    uint64 // that they are for, with buffer.store_path
}

// Drop says which groups Buffer.Drop removes: those that every field admits.
type Drop struct {
	Ordinals       []uint64 // nil: of all ordinals
	BelowVersion   uint64   // groups of an older version; 0: of every one
	IncompleteOnly bool     // only groups that are not whole
}

// BufferStats are what a buffer holds, and counts of samples since it was made.
type BufferStats struct {
	Samples, Groups, WholeGroups uint64 // now
	Put, Taken, Dropped          uint64
	Stale                        uint64 // removed by Take because of buffer.max_staleness
	Stored                       uint64 // given to a store
	AcknowledgedGroups           uint64 // trained by steps that are durable
	DuplicateGroups              uint64 // delivered again by the store, and dropped
	DamagedGroups                uint64 // set aside because they could not be read
	SpilledGroups                uint64 // now, those that wait in files of buffer.spill_path
}

// NewBuffer holds at most maxSamples samples. options may be nil: all defaults.
func NewBuffer(options *Options, maxSamples uint64) (*Buffer, error) {
	var out *C.rl_buffer
	var record *C.rl_error
	status := C.rl_buffer_create(options.handle(), C.uint64_t(maxSamples), &out, &record)
	if err := outcome(status, &record, options); err != nil {
		return nil, err
	}
	return backstop(&Buffer{out}, (*Buffer).Close), nil
}

// Close ends the buffer with its samples.
func (b *Buffer) Close() {
	if b != nil {
		C.rl_buffer_destroy(b.ptr)
		runtime.KeepAlive(b)
	}
}

// Put copies a sample into the buffer.
func (b *Buffer) Put(sample *Sample) error {
	var memory arena
	defer memory.free()
	view, err := sample.view(&memory)
	if err != nil {
		return err
	}
	var record *C.rl_error
	return outcome(C.rl_buffer_put(b.ptr, view, &record), &record, b)
}

// PutBatch copies every sample of a batch into the buffer.
func (b *Buffer) PutBatch(batch *Batch) error {
	var record *C.rl_error
	return outcome(C.rl_buffer_put_batch(b.ptr, batch.handle(), &record), &record, b, batch)
}

// Take removes whole groups, those of buffer.policy first; it waits for groups.Min of them until
// ctx is done. ErrDone: the buffer was closed meanwhile.
func (b *Buffer) Take(ctx context.Context, groups Groups) (batch *Batch, err error) {
	err = inSlices(ctx, func(timeout C.int64_t) error {
		batch, err = b.take(groups, timeout)
		return err
	})
	return batch, err
}

// TryTake removes whole groups if groups.Min of them are there; ErrTimeout: they are not.
func (b *Buffer) TryTake(groups Groups) (*Batch, error) { return b.take(groups, 0) }

func (b *Buffer) take(groups Groups, timeout C.int64_t) (*Batch, error) {
	var take C.rl_take
	C.rl_take_init(&take, C.sizeof_rl_take)
	take.version = C.uint64_t(groups.Version)
	take.step = C.uint64_t(groups.Step)
	if groups.Min != 0 {
		take.min_groups = C.uint64_t(groups.Min)
	}
	if groups.Max != 0 {
		take.max_groups = C.uint64_t(groups.Max)
	}
	var out *C.rl_batch
	var record *C.rl_error
	status := C.rl_buffer_take(b.ptr, &take, timeout, &out, &record)
	return batchOf(status, &out, &record, b)
}

// Acknowledge says that the weights of a training step are durable: the groups that were taken for
// it and for earlier steps leave the store.
func (b *Buffer) Acknowledge(step uint64) error {
	var record *C.rl_error
	return outcome(C.rl_buffer_acknowledge(b.ptr, C.uint64_t(step), &record), &record, b)
}

// Resume says that training goes on after a step, that of a checkpoint or 0: groups that were taken
// for later ones come again.
func (b *Buffer) Resume(step uint64) error {
	var record *C.rl_error
	return outcome(C.rl_buffer_resume(b.ptr, C.uint64_t(step), &record), &record, b)
}

// Drop removes groups, whole or not, and gives the number of their samples. Drop{} is all of them.
func (b *Buffer) Drop(groups Drop) (uint64, error) {
	if groups.Ordinals != nil && len(groups.Ordinals) == 0 {
		return 0, nil // no pointer stands for no ordinals
	}
	var memory arena
	defer memory.free()
	var drop C.rl_drop
	C.rl_drop_init(&drop, C.sizeof_rl_drop)
	drop.ordinals = placed[C.uint64_t](&memory, groups.Ordinals)
	drop.num_ordinals = C.size_t(len(groups.Ordinals))
	drop.below_version = C.uint64_t(groups.BelowVersion)
	drop.incomplete_only = truth(groups.IncompleteOnly)
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_buffer_drop(b.ptr, &drop, &out, &record)
	return uint64(out), outcome(status, &record, b)
}

// SetQueue sends the buffer's events to a queue from now on, with the number source; nil: nowhere.
// EventGroups says that whole groups wait: Take them without a wait until there are none.
// EventGroupDropped says which group was removed, and why.
func (b *Buffer) SetQueue(queue *EventQueue, source uint64) error {
	var record *C.rl_error
	status := C.rl_buffer_set_queue(b.ptr, queue.handle(), C.uint64_t(source), &record)
	return outcome(status, &record, b, queue)
}

// Options are a copy of the options that the buffer was made with.
func (b *Buffer) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_buffer_options(b.ptr, &out, &record), &out, &record, b)
}

// Stats are what the buffer holds, and its counts.
func (b *Buffer) Stats() (BufferStats, error) {
	var s C.rl_buffer_stats
	var record *C.rl_error
	C.rl_buffer_stats_init(&s, C.sizeof_rl_buffer_stats)
	status := C.rl_buffer_get_stats(b.ptr, &s, &record)
	return BufferStats{
		Samples:            uint64(s.samples),
		Groups:             uint64(s.groups),
		WholeGroups:        uint64(s.whole_groups),
		Put:                uint64(s.put),
		Taken:              uint64(s.taken),
		Dropped:            uint64(s.dropped),
		Stale:              uint64(s.stale),
		Stored:             uint64(s.stored),
		AcknowledgedGroups: uint64(s.acknowledged_groups),
		DuplicateGroups:    uint64(s.duplicate_groups),
		DamagedGroups:      uint64(s.damaged_groups),
		SpilledGroups:      uint64(s.spilled_groups),
	}, outcome(status, &record, b)
}

// Save writes every sample held to a buffer file. model may be nil.
func (b *Buffer) Save(path string, model *Model, flags SaveFlags) error {
	var record *C.rl_error
	start, size := chars(path)
	status := C.rl_buffer_save(b.ptr, start, size, model.handle(), C.uint64_t(flags), &record)
	return outcome(status, &record, b, model)
}

// Load adds every sample of a buffer file and gives their number. model may be nil.
func (b *Buffer) Load(path string, model *Model) (uint64, error) {
	var count C.uint64_t
	var record *C.rl_error
	start, size := chars(path)
	status := C.rl_buffer_load(b.ptr, start, size, model.handle(), &count, &record)
	return uint64(count), outcome(status, &record, b, model)
}

// ReadBufferFileInfo reads the beginning of a buffer file.
func ReadBufferFileInfo(path string) (BufferFileInfo, error) {
	var info C.rl_buffer_file_info
	var record *C.rl_error
	C.rl_buffer_file_info_init(&info, C.sizeof_rl_buffer_file_info)
	start, size := chars(path)
	status := C.rl_buffer_get_file_info(start, size, &info, &record)
	return fileInfoOf(&info), outcome(status, &record)
}

func fileInfoOf(info *C.rl_buffer_file_info) BufferFileInfo {
	return BufferFileInfo{
		Step:               uint64(info.step),
		GroupSize:          uint64(info.group_size),
		MaxTokensPerDevice: uint64(info.max_tokens_per_device),
		OptionsIdentity:    uint64(info.options_identity),
		HasModel:           info.has_model == 1,
		WeightVersion:      uint64(info.weight_version),
		WeightDigest:       uint64(info.weight_digest),
		Vocab:              uint64(info.vocab),
	}
}
