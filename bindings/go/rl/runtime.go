package rl

/*
#include "rl.h"
#include "hooks.h"
*/
import "C"

import (
	"runtime"
	"time"
)

// Runtime owns the compute threads, the memory budget and the log of all objects made from it.
type Runtime struct {
	ptr      *C.rl_runtime
	failures *failures
}

// NewRuntime starts the threads; it reads no files.
func NewRuntime(options *Options) (*Runtime, error) {
	var out *C.rl_runtime
	var record *C.rl_error
	status := C.rl_runtime_create(C.RL_ABI_VERSION, options.handle(), &out, &record)
	if err := outcome(status, &record, options); err != nil {
		return nil, err
	}
	return backstop(&Runtime{out, &failures{}}, (*Runtime).Close), nil
}

// CreateRank makes another rank of this runtime's run, which has the option parallel.data of them.
// Each rank works in a goroutine of its own.
func (r *Runtime) CreateRank(rank uint32) (*Runtime, error) {
	var out *C.rl_runtime
	var record *C.rl_error
	status := C.rl_runtime_create_rank(r.ptr, C.uint32_t(rank), &out, &record)
	if err := outcome(status, &record, r); err != nil {
		return nil, err
	}
	return backstop(&Runtime{out, &failures{}}, (*Runtime).Close), nil
}

// Close ends the handle. The runtime itself ends with the last object made from it.
func (r *Runtime) Close() {
	if r != nil {
		C.rl_runtime_destroy(r.ptr)
		runtime.KeepAlive(r)
	}
}

// Options are a copy of the options that the runtime was made with.
func (r *Runtime) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_runtime_options(r.ptr, &out, &record), &out, &record, r)
}

// A LogLine is a line of the log: a message for people, and its facts as fields for programs.
type LogLine struct {
	Level              LogLevel
	Component, Message string // the part of librl that logs, such as "engine"
	Time               time.Time
	SteadyNS           int64 // the same moment by Clock.SteadyNS
	Fields             []LogField
}

// A LogField is a named fact of a line.
type LogField struct {
	Name, Value string
	Kind        FieldKind
}

// A LogFunc gets the lines of a log. It is called on any thread, never on two at once, and may
// call nothing of this package. A panic in it ends at LogError.
type LogFunc func(line LogLine)

// SetLog sets the one sink of the log; nil silences it, as it is at first. The option
// runtime.log_level says how much comes.
func (r *Runtime) SetLog(log LogFunc) error {
	var record *C.rl_error
	handle := C.uintptr_t(0)
	if log != nil {
		handle = newHook(&hook{log: log, failures: r.failures})
	}
	return outcome(C.rl_go_set_log(r.ptr, handle, &record), &record, r)
}

// LogError is the last panic of a log function, a *PanicError; nil when there was none.
func (r *Runtime) LogError() error { return r.failures.ofLog() }

// A Clock has two clocks at one moment. All times of librl are nanoseconds of the first.
type Clock struct {
	SteadyNS, UnixNS int64 // UnixNS is since 1970
}

// Clock reads both clocks.
func (r *Runtime) Clock() (Clock, error) {
	var clock C.rl_clock
	var record *C.rl_error
	C.rl_clock_init(&clock, C.sizeof_rl_clock)
	status := C.rl_runtime_get_clock(r.ptr, &clock, &record)
	return Clock{int64(clock.steady_ns), int64(clock.unix_ns)}, outcome(status, &record, r)
}

// Probe measures the machine with the runtime's threads, in a fraction of a second.
func (r *Runtime) Probe() (Machine, error) {
	var machine C.rl_machine
	var record *C.rl_error
	C.rl_machine_init(&machine, C.sizeof_rl_machine)
	status := C.rl_runtime_probe(r.ptr, &machine, &record)
	return Machine{
		F32FLOPS:      float64(machine.f32_flops),
		BF16FLOPS:     float64(machine.bf16_flops),
		ReadBytesPerS: float64(machine.read_bytes_per_s),
		CopyBytesPerS: float64(machine.copy_bytes_per_s),
		Threads:       int64(machine.threads),
	}, outcome(status, &record, r)
}

// A Span is work of the host for the trace, by Clock.SteadyNS.
type Span struct {
	Lane, Name     string // Lane is the row of the trace
	StartNS, EndNS int64
	ArgName        string // what ArgValue is; may be empty
	ArgValue       int64
}

// TraceSpan adds a span to what is recorded now.
func (r *Runtime) TraceSpan(span Span) error {
	var memory arena
	defer memory.free()
	var raw C.rl_span
	C.rl_span_init(&raw, C.sizeof_rl_span)
	raw.lane, raw.lane_len = memory.text(span.Lane)
	raw.name, raw.name_len = memory.text(span.Name)
	raw.arg_name, raw.arg_name_len = memory.text(span.ArgName)
	raw.start_ns, raw.end_ns = C.int64_t(span.StartNS), C.int64_t(span.EndNS)
	raw.arg_value = C.int64_t(span.ArgValue)
	var record *C.rl_error
	return outcome(C.rl_runtime_trace_span(r.ptr, &raw, &record), &record, r)
}

// Threads is the number of compute threads, the calling thread included.
func (r *Runtime) Threads() (int64, error) {
	info, err := r.info()
	return int64(info.threads), err
}

// ReservedBytes are what the arenas of all objects made from the runtime hold now.
func (r *Runtime) ReservedBytes() (uint64, error) {
	info, err := r.info()
	return uint64(info.reserved_bytes), err
}

// Rank is which rank of its run the runtime is, from 0.
func (r *Runtime) Rank() (uint32, error) {
	info, err := r.info()
	return uint32(info.rank), err
}

// NumRanks is the number of ranks of the run.
func (r *Runtime) NumRanks() (uint32, error) {
	info, err := r.info()
	return uint32(info.num_ranks), err
}

func (r *Runtime) info() (C.rl_runtime_info, error) {
	var info C.rl_runtime_info
	var record *C.rl_error
	C.rl_runtime_info_init(&info, C.sizeof_rl_runtime_info)
	status := C.rl_runtime_get_info(r.ptr, &info, &record)
	return info, outcome(status, &record, r)
}

// Open opens model.path of the options, or of the runtime's own when they are nil.
func (r *Runtime) Open(options *Options, use Use) (*Model, error) {
	var out *C.rl_model
	var record *C.rl_error
	status := C.rl_model_open(r.ptr, options.handle(), C.int32_t(use), &out, &record)
	if err := outcome(status, &record, r, options); err != nil {
		return nil, err
	}
	return backstop(&Model{ptr: out}, (*Model).Close), nil
}

// A Profiler records what the objects of a runtime do.
type Profiler struct{ ptr *C.rl_profiler }

// NewProfiler starts recording, in place of the runtime's earlier profiler.
func (r *Runtime) NewProfiler() (*Profiler, error) {
	var out *C.rl_profiler
	var record *C.rl_error
	if err := outcome(C.rl_profiler_create(r.ptr, &out, &record), &record, r); err != nil {
		return nil, err
	}
	return backstop(&Profiler{out}, (*Profiler).Close), nil
}

// Close ends recording and frees the record.
func (p *Profiler) Close() {
	C.rl_profiler_destroy(p.handle())
	runtime.KeepAlive(p)
}

func (p *Profiler) handle() *C.rl_profiler {
	if p == nil {
		return nil
	}
	return p.ptr
}

// WriteTrace writes what was recorded so far as a Chrome trace.
func (p *Profiler) WriteTrace(path string) error {
	var record *C.rl_error
	start, size := chars(path)
	return outcome(C.rl_profiler_write_trace(p.ptr, start, size, &record), &record, p)
}

// Summary is the time by span name, as lines "name count total_ns longest_ns".
func (p *Profiler) Summary() (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_profiler_summary(p.ptr, &out, &record)
	return takenText(out), outcome(status, &record, p)
}

// Count is the number of spans and counters recorded so far, and of those dropped.
func (p *Profiler) Count() (records, dropped uint64, err error) {
	var numRecords, numDropped C.uint64_t
	var record *C.rl_error
	status := C.rl_profiler_count(p.ptr, &numRecords, &numDropped, &record)
	return uint64(numRecords), uint64(numDropped), outcome(status, &record, p)
}
