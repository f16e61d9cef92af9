package rl

/*
#include "dlpack.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// DLPack is a tensor between two libraries, a DLManagedTensorVersioned of DLPack 1.x, that nobody
// has taken yet.
type DLPack struct{ managed unsafe.Pointer }

// NewDLPack takes a tensor of another library over. Its deleter may be called on any thread, and
// its memory is not Go's.
func NewDLPack(managed unsafe.Pointer) *DLPack {
	return backstop(&DLPack{managed}, (*DLPack).Close)
}

// Take is the tensor, whose deleter is the caller's to call; nil when it was taken or closed.
func (d *DLPack) Take() unsafe.Pointer {
	if d == nil {
		return nil
	}
	return atomic.SwapPointer(&d.managed, nil)
}

// Close ends a tensor that was not taken, by its deleter.
func (d *DLPack) Close() {
	C.rl_go_dlpack_end((*C.struct_DLManagedTensorVersioned)(d.Take()))
}

// A Stream of a GPU, as CUDA's runtime numbers it: 1 and 2 are its default streams, other values
// addresses. 0 is none: then values are there before and after a call.
type Stream uintptr

// DLPack is the tensor for another library, without a copy. It keeps alive what its memory belongs
// to, also after Close of every object.
func (t *Tensor) DLPack() (*DLPack, error) { return t.DLPackBehind(0) }

// DLPackBehind is the same for a consumer whose later work in the stream reads the values.
func (t *Tensor) DLPackBehind(stream Stream) (*DLPack, error) {
	var out *C.struct_DLManagedTensorVersioned
	var record *C.rl_error
	status := C.rl_go_export(t.handle(), C.uintptr_t(stream), &out, &record)
	if err := outcome(status, &record, t); err != nil {
		return nil, err
	}
	return NewDLPack(unsafe.Pointer(out)), nil
}

// Import takes the tensor of another library, also when it fails. With TensorCopy its values are
// copied, else they are read where they lie.
func (r *Runtime) Import(tensor *DLPack, flags TensorFlags) (*Tensor, error) {
	return r.ImportBehind(tensor, flags, 0)
}

// ImportBehind is the same for a tensor of a GPU whose values are there behind the stream's work.
func (r *Runtime) ImportBehind(tensor *DLPack, flags TensorFlags, stream Stream) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_go_import(r.ptr, (*C.struct_DLManagedTensorVersioned)(tensor.Take()),
		C.uintptr_t(stream), C.uint64_t(flags), &out, &record)
	runtime.KeepAlive(r)
	return tensorOf(status, out, &record)
}
