// Package rl is librl for Go: reinforcement-learning post-training of language models.
//
// It covers include/rl.h with Go's means and adds nothing to it; the reference text of a function
// is the one there, rl_engine_submit for (*Engine).Submit and so on. What is different:
//
//   - An object ends with Close, in any order; a second Close and one of a nil object have no
//     effect, and a closed object answers with ErrStaleHandle. Close waits where rl.h says that
//     the destroy function waits. The garbage collector ends what was never closed, later.
//   - A failure is an *Error, which errors.As finds; errors.Is compares it with a Code such as
//     ErrNotFound. ErrTimeout, ErrDone, ErrInterrupted, ErrWouldBlock, ErrIdle and ErrPaused are
//     results: plain Codes.
//   - What librl hands out is copied into Go's memory and stays valid; a Tensor lies where rl.h
//     says, and its values are copied out.
//   - Calls that wait take a context. When it is done, librl's own call to end the wait is made
//     (an interrupt, a pause, Trainer.Cancel), the wait is joined, and errors.Is finds ctx.Err() in
//     the result; goroutines that wait on one object do so in turn. Pipeline.Stop and
//     Pipeline.Checkpoint take a time, since librl ends a step by it or goes on afterwards; one
//     below 0 has no end.
//   - A library of another version is ErrIncompatible from every function; nothing panics.
//   - Functions that librl calls may panic: the panic is the Cause of an *Error.
//
// All of it may be called from every goroutine, also at once, but not inside a function that librl
// calls. What copies memory of an object holds off Close of it until the copy is made.
package rl

/*
#include <stdlib.h>
#include "rl.h"
#if RL_ABI_MAJOR != 0 || RL_ABI_MINOR != 3
#error "package rl needs rl.h 0.3: before 1.0 each minor version is an interface of its own"
#endif
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// versionError is why the library cannot serve this package, if so. The linker keeps such a library
// away by its soname; where it does not, every call ends with this, and no object comes to be.
var versionError = incompatible(C.RL_ABI_VERSION, ABIVersion())

// incompatible says why a library cannot serve hosts that were built with a header, if so. Before
// 1.0 each minor version is an interface of its own; later ones serve those before them.
func incompatible(header, library uint32) error {
	if library == header || library>>16 == header>>16 && header>>16 > 0 && library > header {
		return nil
	}
	message := fmt.Sprintf("this program was built with rl.h %d.%d, but librl at run time is %d.%d",
		header>>16, header&0xffff, library>>16, library&0xffff)
	return &Error{
		Code:    ErrIncompatible,
		Message: message,
		Summary: "RL_INCOMPATIBLE: " + message, // rl_status_name is not called: it may be another
	}
}

// Handles of rl.h are tokens, not addresses. A *C.rl_model may hold one all the same: its type is
// incomplete, and the collector does not follow pointers to such types. An object keeps its token
// after Close, since librl tells a dead one from a live one.

// A guard is of an object whose calls show memory that ends with it: the lock is held for reading
// while Go copies that, and for writing by whatever ends it.
type guard struct{ lock sync.RWMutex }

// reading holds the guard until the function that it gives is called.
func (g *guard) reading() (done func()) {
	g.lock.RLock()
	return g.lock.RUnlock
}

// ending is the same for what ends the memory.
func (g *guard) ending() (done func()) {
	g.lock.Lock()
	return g.lock.Unlock
}

// backstop ends an object that nobody closed and nobody can reach. Ending one may wait for a
// step, so it has a goroutine of its own.
func backstop[T any](object *T, end func(*T)) *T {
	runtime.SetFinalizer(object, func(object *T) { go end(object) })
	return object
}

// nanoseconds is a timeout of rl.h; below 0 it waits for ever.
func nanoseconds(d time.Duration) C.int64_t { return C.int64_t(d.Nanoseconds()) }

// ---- values that cross the border ----

// chars is a text as rl.h takes it. Go keeps it in place during the call that it is given to.
func chars(text string) (*C.char, C.size_t) {
	return *(**C.char)(unsafe.Pointer(&text)), C.size_t(len(text))
}

// first is an array as rl.h takes it, as chars.
func first[To, From any](values []From) *To {
	if len(values) == 0 {
		return nil
	}
	return (*To)(unsafe.Pointer(&values[0]))
}

// pointer is an array as first, of any type.
func pointer[From any](values []From) unsafe.Pointer {
	return unsafe.Pointer(first[byte](values))
}

func truth(value bool) C.uint32_t {
	if value {
		return 1
	}
	return 0
}

// copied is a copy of an array of librl's.
func copied[To, From any](values *From, count C.size_t) []To {
	return append([]To(nil), shared[To](values, count)...)
}

// shared is an array of librl's where it is.
func shared[To, From any](values *From, count C.size_t) []To {
	if values == nil {
		return nil
	}
	return unsafe.Slice((*To)(unsafe.Pointer(values)), int(count))
}

// textOf is a copy of a text of librl's.
func textOf(text *C.char, size C.size_t) string { return string(shared[byte](text, size)) }

// taken is what a handle of bytes holds, and ends the handle.
func taken[To any](bytes *C.rl_bytes) []To {
	var element To
	size := C.rl_bytes_size(bytes) / C.size_t(unsafe.Sizeof(element))
	values := copied[To]((*byte)(C.rl_bytes_data(bytes)), size)
	C.rl_bytes_release(bytes)
	return values
}

func takenText(bytes *C.rl_bytes) string { return string(taken[byte](bytes)) }

// An arena is memory outside Go for the arrays that a struct of rl.h points to: cgo lets a call
// take a pointer to Go's memory, but not memory with such pointers in it.
type arena struct{ blocks []unsafe.Pointer }

func (a *arena) free() {
	for _, block := range a.blocks {
		C.free(block)
	}
}

// placed is a copy of an array in the arena.
func placed[To, From any](a *arena, values []From) *To {
	if len(values) == 0 {
		return nil
	}
	var element From
	size := len(values) * int(unsafe.Sizeof(element))
	block := C.malloc(C.size_t(size))
	a.blocks = append(a.blocks, block)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), size)
	copy(unsafe.Slice((*byte)(block), size), bytes)
	return (*To)(block)
}

func (a *arena) text(text string) (*C.char, C.size_t) {
	return placed[C.char](a, []byte(text)), C.size_t(len(text))
}

// texts are arrays of texts and of their lengths.
func (a *arena) texts(texts []string) (**C.char, *C.size_t) {
	starts, sizes := make([]*C.char, len(texts)), make([]C.size_t, len(texts))
	for i, text := range texts {
		starts[i], sizes[i] = a.text(text)
	}
	return placed[*C.char](a, starts), placed[C.size_t](a, sizes)
}
