package rl

/*
#include "rl.h"
*/
import "C"

import (
	"fmt"
	"runtime"
)

// Error is a failure of librl, with what rl_error_text says of it. A text may be empty but the
// message.
type Error struct {
	Code       Code
	Message    string   // one sentence that names the thing, the limit and the value seen
	Key        string   // option key, parameter or tensor concerned
	Expected   string   // type, range or choices that would have been right
	Location   string   // file and byte offset, line and column, or JSON pointer
	OtherKey   string   // the second option of a conflict
	Summary    string   // all of it with the code's name, nearest names and causes, for a log
	Nearest    []string // valid names near an unknown one, nearest first
	SystemCode int32    // errno or the code of a backend; 0 when none is involved
	Parts      []*Error // of an error that reports several at once
	Knobs      []Knob   // if memory is short: what makes it fit, in the order to turn them
	Cause      error    // the *Error that led to this one, or that of a function of the host
}

func (e *Error) Error() string { return e.Summary }

// Is compares with a Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func (e *Error) Unwrap() error { return e.Cause }

// Error is the code's name in rl.h.
func (c Code) Error() string { return C.GoString(C.rl_status_name(C.rl_status(c))) }

// outcome turns what a call returned into an error, nil for RL_OK, and ends the record. The
// objects used are kept from the garbage collector until the call is over.
func outcome(status C.rl_status, record **C.rl_error, used ...any) error {
	runtime.KeepAlive(used)
	if versionError != nil {
		return versionError
	}
	switch status {
	case C.RL_OK:
		return nil
	case C.RL_TIMEOUT, C.RL_DONE, C.RL_INTERRUPTED, C.RL_WOULD_BLOCK, C.RL_IDLE, C.RL_PAUSED:
		return Code(status)
	}
	if *record == nil {
		name := Code(status).Error()
		return &Error{Code: Code(status), Message: name, Summary: name}
	}
	return takenError(*record)
}

// takenError copies a record with its cause and parts, and ends it.
func takenError(record *C.rl_error) *Error {
	text := func(field C.int32_t) string {
		var size C.size_t
		start := C.rl_error_text(record, field, &size)
		return textOf(start, size)
	}
	e := &Error{
		Code:       Code(C.rl_error_code(record)),
		Message:    text(C.RL_ERROR_MESSAGE),
		Key:        text(C.RL_ERROR_KEY),
		Expected:   text(C.RL_ERROR_EXPECTED),
		Location:   text(C.RL_ERROR_LOCATION),
		OtherKey:   text(C.RL_ERROR_OTHER_KEY),
		Summary:    text(C.RL_ERROR_SUMMARY),
		SystemCode: int32(C.rl_error_system_code(record)),
	}
	for name := C.rl_error_nearest(record, 0); name != nil; {
		e.Nearest = append(e.Nearest, C.GoString(name))
		name = C.rl_error_nearest(record, C.size_t(len(e.Nearest)))
	}
	for part := C.rl_error_part(record, 0); part != nil; {
		e.Parts = append(e.Parts, takenError(part))
		part = C.rl_error_part(record, C.size_t(len(e.Parts)))
	}
	for i := C.size_t(0); i < C.rl_error_knob_count(record); i++ {
		var knob C.rl_knob
		C.rl_knob_init(&knob, C.sizeof_rl_knob)
		if C.rl_error_knob_at(record, i, &knob, nil) == C.RL_OK {
			e.Knobs = append(e.Knobs, knobOf(&knob))
		}
	}
	if cause := C.rl_error_cause(record); cause != nil {
		e.Cause = takenError(cause)
	}
	C.rl_error_release(record)
	return e
}

// invalid is the error of an argument that cannot be handed to librl at all.
func invalid(key, format string, values ...any) error {
	message := key + ": " + fmt.Sprintf(format, values...)
	return &Error{
		Code:    ErrInvalidArgument,
		Message: message,
		Key:     key,
		Summary: ErrInvalidArgument.Error() + ": " + message,
	}
}

// A length of an optional slice, which is nil or as long as librl will read.
type length struct {
	field       string
	has, wanted int
}

func wrongLength(of string, lengths []length) error {
	for _, l := range lengths {
		if l.has != 0 && l.has != l.wanted {
			return invalid(of+"."+l.field, "has %d entries, expected %d", l.has, l.wanted)
		}
	}
	return nil
}
