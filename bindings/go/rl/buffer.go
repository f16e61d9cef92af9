package rl

/*
#include "rl.h"
*/
import "C"

import "runtime"

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

// Take gives the whole groups of lowest ordinals, at most maxGroups. ErrWouldBlock when none is
// whole.
func (b *Buffer) Take(maxGroups uint64) (*Batch, error) {
	var out *C.rl_batch
	var record *C.rl_error
	status := C.rl_buffer_take(b.ptr, C.uint64_t(maxGroups), &out, &record)
	return batchOf(status, &out, &record, b)
}

// Count is the number of samples held, and of groups that are whole.
func (b *Buffer) Count() (samples, wholeGroups uint64, err error) {
	var numSamples, numGroups C.uint64_t
	var record *C.rl_error
	status := C.rl_buffer_count(b.ptr, &numSamples, &numGroups, &record)
	return uint64(numSamples), uint64(numGroups), outcome(status, &record, b)
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
