package rl

/*
#include "rl.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/cgo"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"
)

// An AdvantageFunc gives the advantages of a batch, as rl_advantage_fn: it fills advantages, one
// per token, 0 at first. An error or a panic fails the step; it is the Cause of the step's error.
// The slices end with the call. Of this package it may call the functions of Tokens alone.
type AdvantageFunc func(tokens *Tokens, advantages []float64) error

// A LossFunc gives the policy loss of a minibatch, as rl_loss_fn: it fills gradient, one entry per
// token, 0 at first. With an error or a panic the optimizer step of the minibatch is skipped;
// Trainer.Step or Pipeline.Next reports it. The slices end with the call.
type LossFunc func(tokens *Tokens, weights, gradient []float64) (loss float64, err error)

// PanicError is what a function of the host panicked with.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the error that it panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A hook is what stands behind the user_data of a callback. It must not reach the object that it
// is set in, which would then never be collected.
type hook struct {
	log       LogFunc
	advantage AdvantageFunc
	loss      LossFunc
	failures  *failures
}

func newHook(h *hook) C.uintptr_t { return C.uintptr_t(cgo.NewHandle(h)) }

func hookOf(handle C.uintptr_t) *hook { return cgo.Handle(handle).Value().(*hook) }

func (f AdvantageFunc) hook(failures *failures) C.uintptr_t {
	if f == nil {
		return 0
	}
	return newHook(&hook{advantage: f, failures: failures})
}

func (f LossFunc) hook(failures *failures) C.uintptr_t {
	if f == nil {
		return 0
	}
	return newHook(&hook{loss: f, failures: failures})
}

// ---- failures of the host's functions ----

// failures holds what the functions of one object failed with last, until the host asks.
type failures struct {
	mutex     sync.Mutex
	log       error
	advantage error
	loss      error
}

// note keeps an error in its place and gives the callback's result.
func (f *failures) note(place *error, err error) C.int32_t {
	if err == nil {
		return 0
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	*place = err
	return 1
}

func (f *failures) ofLog() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.log
}

// explain gives a step's failure its cause, if an advantage function was it.
func (f *failures) explain(err error) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var failure *Error
	if f.advantage != nil && errors.As(err, &failure) && failure.Code == ErrCancelled {
		failure.Cause = f.advantage
		failure.Summary += " (" + f.advantage.Error() + ")"
	}
	return err
}

// takeLoss reports a loss function that failed, once.
func (f *failures) takeLoss() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	cause := f.loss
	if cause == nil {
		return nil
	}
	f.loss = nil
	message := "a loss function of the host failed, and its optimizer step was skipped"
	summary := fmt.Sprintf("%v: %s (%v)", ErrCancelled, message, cause)
	return &Error{Code: ErrCancelled, Message: message, Summary: summary, Cause: cause}
}

// guarded calls a function of the host; no panic leaves it.
func guarded(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{value, debug.Stack()}
		}
	}()
	return call()
}

// ---- what hooks.c calls ----

//export rlGoDrop
func rlGoDrop(handle C.uintptr_t) { cgo.Handle(handle).Delete() }

//export rlGoLog
func rlGoLog(handle C.uintptr_t, record *C.rl_log_record) {
	h := hookOf(handle)
	h.failures.note(&h.failures.log, guarded(func() error {
		h.log(lineOf(record))
		return nil
	}))
}

// lineOf is a copy of a line of the log.
func lineOf(record *C.rl_log_record) LogLine {
	line := LogLine{
		Level:     LogLevel(record.level),
		Component: textOf(record.component, record.component_len),
		Message:   textOf(record.message, record.message_len),
		Time:      time.Unix(0, int64(record.unix_ns)),
		SteadyNS:  int64(record.time_ns),
	}
	names := unsafe.Slice(record.field_names, int(record.num_fields))
	values := unsafe.Slice(record.field_values, int(record.num_fields))
	kinds := unsafe.Slice(record.field_kinds, int(record.num_fields))
	for i := range names {
		field := LogField{C.GoString(names[i]), C.GoString(values[i]), FieldKind(kinds[i])}
		line.Fields = append(line.Fields, field)
	}
	return line
}

//export rlGoAdvantage
func rlGoAdvantage(handle C.uintptr_t, tokens *C.rl_algo_tokens, advantages *C.double) C.int32_t {
	h := hookOf(handle)
	return h.failures.note(&h.failures.advantage, guarded(func() error {
		return h.advantage(tokensOf(tokens), shared[float64](advantages, tokens.num_tokens))
	}))
}

//export rlGoLoss
func rlGoLoss(handle C.uintptr_t, tokens *C.rl_algo_tokens, weights, loss,
	gradient *C.double) C.int32_t {
	h := hookOf(handle)
	return h.failures.note(&h.failures.loss, guarded(func() error {
		value, err := h.loss(tokensOf(tokens), shared[float64](weights, tokens.num_tokens),
			shared[float64](gradient, tokens.num_tokens))
		*loss = C.double(value)
		return err
	}))
}
