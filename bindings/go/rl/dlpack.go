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

// DLPack is the tensor for another library, without a copy. It keeps alive what its memory belongs
// to, also after Close of every object.
func (t *Tensor) DLPack() (*DLPack, error) {
	var out *C.struct_DLManagedTensorVersioned
	var record *C.rl_error
	status := C.rl_tensor_export_dlpack(t.handle(), nil, &out, &record)
	if err := outcome(status, &record, t); err != nil {
		return nil, err
	}
	return NewDLPack(unsafe.Pointer(out)), nil
}

// Import takes the tensor of another library, also when it fails. With TensorCopy its values are
// copied, else they are read where they lie.
func (r *Runtime) Import(tensor *DLPack, flags TensorFlags) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_tensor_import_dlpack(r.ptr,
		(*C.struct_DLManagedTensorVersioned)(tensor.Take()), nil, C.uint64_t(flags), &out, &record)
	runtime.KeepAlive(r)
	return tensorOf(status, out, &record)
}
