package rl

/*
#include "rl.h"
#include "store.h"
*/
import "C"

import (
	"runtime/cgo"
	"syscall"
	"unsafe"
)

// A Store holds groups of the host on their way from the processes that sample to the one that
// trains, such as a queue. It is called on any thread, and may call nothing of this package. It may
// deliver a group several times and in any order: a group is trained on once. An error, or a panic,
// fails the call of librl as ErrIO, with its text.
type Store interface {
	// Put keeps a group durably; one of the same name that waits may be replaced.
	Put(name string, group []byte) error
	// Claim calls found for groups that nobody has claimed, at most maxGroups, each with the token
	// of its delivery; they are claimed from then on. It waits for none, and returns the error of
	// found.
	Claim(maxGroups uint64, found func(token string, group []byte) error) error
	// Recover makes groups that were claimed and not acknowledged claimable again, also those that
	// other processes have claimed.
	Recover() error
	// Acknowledge forgets a group, which may be gone already.
	Acknowledge(token string) error
	// SetAside keeps a group that cannot be read where nobody claims it; it may be gone already.
	SetAside(token string) error
	// ReadBook gives the book, which says which groups were trained on; nil if there is none.
	ReadBook() ([]byte, error)
	// WriteBook keeps the book durably, in place of the one before, in one go.
	WriteBook(book []byte) error
}

// NewStoredBuffer makes a buffer whose whole groups go to a store of the host; Take claims them
// there. maxSamples bounds those that are here.
func NewStoredBuffer(options *Options, maxSamples uint64, store Store) (*Buffer, error) {
	var out *C.rl_buffer
	var record *C.rl_error
	hooked := newHandle(&storeHook{store, hostErrors{texts: map[int]string{}}})
	status := C.rl_go_buffer_create_stored(options.handle(), C.uint64_t(maxSamples), hooked, &out,
		&record)
	if err := outcome(status, &record, options); err != nil {
		return nil, err
	}
	return backstop(&Buffer{out}, (*Buffer).Close), nil
}

// NewStoredPipeline makes one half of a run (pipeline.role) over a store of the host.
func NewStoredPipeline(model *Model, options *Options, store Store) (*Pipeline, error) {
	var out *C.rl_pipeline
	var record *C.rl_error
	hooked := newHandle(&storeHook{store, hostErrors{texts: map[int]string{}}})
	status := C.rl_go_pipeline_create_stored(model.ptr, options.handle(), hooked, &out, &record)
	if err := outcome(status, &record, model, options); err != nil {
		return nil, err
	}
	return backstop(newPipeline(out), (*Pipeline).Close), nil
}

// ---- what store.c calls ----

// A storeHook is what stands behind the user_data of a store.
type storeHook struct {
	store Store
	hostErrors
}

func storeOf(handle C.uintptr_t) *storeHook { return cgo.Handle(handle).Value().(*storeHook) }

// give hands a group or the book to librl, which copies it.
func give(found C.rl_store_found_fn, context unsafe.Pointer, token string, data []byte) error {
	start, size := chars(token)
	code := C.rl_go_store_found(found, context, start, size, unsafe.Pointer(first[byte](data)),
		C.uint64_t(len(data)))
	if code != 0 {
		return syscall.Errno(code)
	}
	return nil
}

// A copy of memory of librl, of any size.
func bytesAt(data unsafe.Pointer, size C.uint64_t) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(data), int(size))...)
}

//export rlGoStorePut
func rlGoStorePut(handle C.uintptr_t, name *C.char, nameSize C.size_t, data unsafe.Pointer,
	size C.uint64_t) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error {
		return h.store.Put(textOf(name, nameSize), bytesAt(data, size))
	})
}

//export rlGoStoreClaim
func rlGoStoreClaim(handle C.uintptr_t, maxGroups C.uint64_t, found C.rl_store_found_fn,
	context unsafe.Pointer) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error {
		return h.store.Claim(uint64(maxGroups), func(token string, group []byte) error {
			return give(found, context, token, group)
		})
	})
}

//export rlGoStoreRecover
func rlGoStoreRecover(handle C.uintptr_t) C.int32_t {
	h := storeOf(handle)
	return h.run(h.store.Recover)
}

//export rlGoStoreAcknowledge
func rlGoStoreAcknowledge(handle C.uintptr_t, token *C.char, size C.size_t) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error { return h.store.Acknowledge(textOf(token, size)) })
}

//export rlGoStoreSetAside
func rlGoStoreSetAside(handle C.uintptr_t, token *C.char, size C.size_t) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error { return h.store.SetAside(textOf(token, size)) })
}

//export rlGoStoreReadBook
func rlGoStoreReadBook(handle C.uintptr_t, found C.rl_store_found_fn,
	context unsafe.Pointer) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error {
		book, err := h.store.ReadBook()
		if err != nil || book == nil {
			return err
		}
		return give(found, context, "", book)
	})
}

//export rlGoStoreWriteBook
func rlGoStoreWriteBook(handle C.uintptr_t, data unsafe.Pointer, size C.uint64_t) C.int32_t {
	h := storeOf(handle)
	return h.run(func() error { return h.store.WriteBook(bytesAt(data, size)) })
}

//export rlGoStoreDescribe
func rlGoStoreDescribe(handle C.uintptr_t, text *C.char, textSize C.size_t) {
	storeOf(handle).describe(text, textSize)
}
