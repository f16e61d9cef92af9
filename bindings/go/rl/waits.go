package rl

/*
#include "rl.h"
*/
import "C"

import (
	"context"
	"errors"
	"time"
)

// What ends a wait of librl ends the one that is under way, whoever made it. So goroutines that
// wait on one object do so one after the other, and a context that is done ends its own wait.

// A turn has one entry, which whoever waits has taken out.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t <- struct{}{}
	return t
}

// take waits for the entry, at most until ctx is done.
func (t turn) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t:
		return nil
	}
}

func (t turn) giveBack() { t <- struct{}{} }

// repeatAfter is how long a call that should have ended a wait has time to do so: it has no effect
// when it came before the wait began.
const repeatAfter = 10 * time.Millisecond

// onDone calls end once ctx is done, and again until stop is called. stop waits until that cannot
// happen any more and says whether it did.
func onDone(ctx context.Context, end func()) (stop func() bool) {
	return watched(ctx, end, false)
}

// untilDone is onDone for what has no effect unless a wait is under way.
func untilDone(ctx context.Context, end func()) (stop func() bool) {
	return watched(ctx, end, true)
}

func watched(ctx context.Context, end func(), repeat bool) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return false }
	}
	quit, ended := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-ctx.Done():
		case <-quit:
			ended <- false
			return
		}
		for end(); repeat; end() {
			select {
			case <-time.After(repeatAfter):
			case <-quit:
				ended <- true
				return
			}
		}
		ended <- true
	}()
	return func() bool {
		close(quit)
		return <-ended
	}
}

// nextEvent waits for an event with the turn taken, and interrupts its wait when ctx is done. When
// the wait had ended by itself by then, the interrupt is still to come, and is taken here.
func nextEvent(ctx context.Context, pull func(timeout C.int64_t) (*Event, error),
	interrupt func()) (*Event, error) {
	stop := onDone(ctx, interrupt)
	event, err := pull(-1)
	if stop() {
		if err == ErrInterrupted {
			return nil, ctx.Err()
		}
		pull(0)
	}
	return event, err
}

// slice is how long a wait that librl has no call to end goes on before it looks at its context.
const slice = 20 * time.Millisecond

// inSlices repeats a call that takes a timeout until it ends with something else than ErrTimeout,
// or ctx is done.
func inSlices(ctx context.Context, call func(timeout C.int64_t) error) error {
	for ctx.Err() == nil {
		if err := call(nanoseconds(slice)); err != ErrTimeout {
			return err
		}
	}
	return ctx.Err()
}

// cancelled is the error of a call that ctx has ended: ErrCancelled, with that of ctx as its cause.
func cancelled(ctx context.Context, err error) error {
	var failure *Error
	if errors.As(err, &failure) && failure.Code == ErrCancelled && failure.Cause == nil {
		failure.Cause = ctx.Err()
	}
	return err
}
