package rl

/*
#include "rl.h"
*/
import "C"

import "runtime"

// Event is what a pipeline, a trainer, an engine or a buffer tells.
type Event struct {
	ptr *C.rl_event
	guard
}

// EventView has the fields of an event; those that its kind does not use are zero or, for DataRow,
// -1.
type EventView struct {
	Kind       EventKind
	Reason     DropReason
	Step       uint64 // training steps done, this one counted
	Version    uint64 // of the weights after it
	Ordinal    uint64 // of the group
	DataRow    int64
	Value      float64
	Count      uint64
	NumMetrics int
	Text       string
	Purpose    Purpose
	Source     uint64 // number of the sender, of SetQueue
}

// A Metric is a number of an event.
type Metric struct {
	Name  string
	Value float64
}

func eventOf(ptr *C.rl_event) *Event { return backstop(&Event{ptr: ptr}, (*Event).Close) }

// Close ends the event.
func (e *Event) Close() {
	if e != nil {
		defer e.ending()()
		C.rl_event_release(e.ptr)
	}
}

// Kind of the event; 0 once it is closed.
func (e *Event) Kind() EventKind {
	kind := C.rl_event_kind(e.ptr)
	runtime.KeepAlive(e)
	return EventKind(kind)
}

// View has the event's fields.
func (e *Event) View() (EventView, error) {
	defer e.reading()()
	return e.view()
}

func (e *Event) view() (EventView, error) {
	var v C.rl_event_view
	var record *C.rl_error
	C.rl_event_view_init(&v, C.sizeof_rl_event_view)
	if err := outcome(C.rl_event_get_view(e.ptr, &v, &record), &record); err != nil {
		return EventView{}, err
	}
	return EventView{
		Kind:       EventKind(v.kind),
		Reason:     DropReason(v.reason),
		Step:       uint64(v.step),
		Version:    uint64(v.version),
		Ordinal:    uint64(v.ordinal),
		DataRow:    int64(v.data_row),
		Value:      float64(v.value),
		Count:      uint64(v.count),
		NumMetrics: int(v.num_metrics),
		Text:       textOf(v.text, v.text_len),
		Purpose:    Purpose(v.purpose),
		Source:     uint64(v.source),
	}, nil
}

// Sample of an EventScore or an EventTurn, and the first one of an EventGroup.
func (e *Event) Sample() (*Sample, error) {
	defer e.reading()()
	return e.sample(0)
}

// Samples of an EventScore, an EventTurn or an EventGroup, by slot.
func (e *Event) Samples() ([]*Sample, error) {
	defer e.reading()()
	view, err := e.view()
	if err != nil {
		return nil, err
	}
	count := uint64(1)
	if view.Kind == EventGroup {
		count = view.Count
	}
	samples := make([]*Sample, count)
	for i := range samples {
		if samples[i], err = e.sample(i); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func (e *Event) sample(index int) (*Sample, error) {
	view := newView()
	var record *C.rl_error
	status := C.rl_event_sample(e.ptr, C.size_t(index), view, &record)
	if err := outcome(status, &record); err != nil {
		return nil, err
	}
	return sampleOf(view), nil
}

// Metrics are all numbers of the event in its order.
func (e *Event) Metrics() ([]Metric, error) {
	defer e.reading()()
	view, err := e.view()
	if err != nil {
		return nil, err
	}
	metrics := make([]Metric, view.NumMetrics)
	for i := range metrics {
		var name *C.char
		var value C.double
		var record *C.rl_error
		status := C.rl_event_metric(e.ptr, C.size_t(i), &name, &value, &record)
		if err := outcome(status, &record); err != nil {
			return nil, err
		}
		metrics[i] = Metric{C.GoString(name), float64(value)}
	}
	return metrics, nil
}

// Metric is the number of a name, such as "actor/pg_loss".
func (e *Event) Metric(name string) (float64, error) {
	var value C.double
	var record *C.rl_error
	n, size := chars(name)
	status := C.rl_event_metric_named(e.ptr, n, size, &value, &record)
	return float64(value), outcome(status, &record, e)
}
