package rl

/*
#include "rl.h"
*/
import "C"

// Plan is the memory of a run before anything of it is allocated.
type Plan struct {
	ptr *C.rl_plan
	guard
}

// PlanInfo has the totals and the sizes that a plan chose.
type PlanInfo struct {
	TotalBytes    uint64 // ArenaBytes + BaselineBytes: what the budget bounds
	ArenaBytes    uint64 // all arenas, exact
	BaselineBytes uint64 // estimate of what the process holds beside them
	BudgetBytes   uint64 // 0: no limit
	MaxModelLen   int64  // tokens of the longest sequence
	MaxTokens     int64  // rows of a training micro-batch; 0 without a trainer
	KVBlocks      int64  // blocks of the KV pool of each engine; 0 without one
	Threads       int64
	DType         DType  // of the matrix products
	LeastBytes    uint64 // TotalBytes of the smallest plan of these options
}

// PlanItem is an arena, or a part of one that phases share.
type PlanItem struct {
	Name, Phase string
	Bytes       uint64
	Kind        PlanKind
	Device      Device // whose memory it is
	DeviceIndex int
	Role        string // the model that it is for, such as "critic"; empty: not for one alone
}

// Knob is an option that takes less memory with another value. What it does is counted after the
// knobs before it.
type Knob struct {
	Key, Value, Proposed string  // the option, its present value and the one to set
	SavedBytes           uint64  // by which the smallest plan shrinks
	TimeRatio            float64 // estimated time of a step, divided by that before
	Effect               KnobEffect
}

func knobOf(knob *C.rl_knob) Knob {
	return Knob{C.GoString(knob.key), C.GoString(knob.value), C.GoString(knob.proposed),
		uint64(knob.saved_bytes), float64(knob.time_ratio), KnobEffect(knob.effect)}
}

// Machine is what a machine can do, for estimates of time; Runtime.Probe measures it.
type Machine struct {
	F32FLOPS      float64 // of matrix products in fp32, per second; a multiply-add is two
	BF16FLOPS     float64 // of those in bf16
	ReadBytesPerS float64 // of memory, beyond the caches
	CopyBytesPerS float64 // of memory, by bytes written
	Threads       int64   // that all rates are for
}

// StepTime is an estimate of a step, in seconds; 0 for what a use does not have.
type StepTime struct {
	TotalS   float64
	RolloutS float64 // prompts and decoding
	LogprobS float64 // forwards of reference, critic, reward model and teacher
	TrainS   float64 // forwards and backwards, of the critic too
	UpdateS  float64 // the optimizer
	PublishS float64 // new weights to the engine
}

// FitPlan plans with the fastest setting that fits the budget. Without options those of the runtime
// hold; without rates the machine is probed. Knobs that change more than most are not turned.
func FitPlan(runtime *Runtime, options *Options, use Use, machine *Machine,
	most KnobEffect) (*Plan, StepTime, error) {
	var out *C.rl_plan
	var record *C.rl_error
	var time C.rl_step_time
	var rates C.rl_machine
	var given *C.rl_machine
	C.rl_step_time_init(&time, C.sizeof_rl_step_time)
	if machine != nil {
		C.rl_machine_init(&rates, C.sizeof_rl_machine)
		rates.f32_flops = C.double(machine.F32FLOPS)
		rates.bf16_flops = C.double(machine.BF16FLOPS)
		rates.read_bytes_per_s = C.double(machine.ReadBytesPerS)
		rates.copy_bytes_per_s = C.double(machine.CopyBytesPerS)
		rates.threads = C.int64_t(machine.Threads)
		given = &rates
	}
	status := C.rl_plan_fit(runtime.ptr, options.handle(), C.int32_t(use), given, C.int32_t(most),
		&time, &out, &record)
	plan, err := planOf(status, &out, &record, runtime, options)
	return plan, StepTime{float64(time.total_s), float64(time.rollout_s), float64(time.logprob_s),
		float64(time.train_s), float64(time.update_s), float64(time.publish_s)}, err
}

// NewPlan plans model.path of the options for a use.
func NewPlan(options *Options, use Use) (*Plan, error) {
	var out *C.rl_plan
	var record *C.rl_error
	status := C.rl_plan_create(options.handle(), C.int32_t(use), &out, &record)
	return planOf(status, &out, &record, options)
}

func planOf(status C.rl_status, out **C.rl_plan, record **C.rl_error, used ...any) (*Plan, error) {
	if err := outcome(status, record, used...); err != nil {
		return nil, err
	}
	return backstop(&Plan{ptr: *out}, (*Plan).Close), nil
}

// Close ends the plan.
func (p *Plan) Close() {
	if p != nil {
		defer p.ending()()
		C.rl_plan_release(p.ptr)
	}
}

// Options are a copy of the options that the plan was made for.
func (p *Plan) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_plan_options(p.ptr, &out, &record), &out, &record, p)
}

// Info has the totals.
func (p *Plan) Info() (PlanInfo, error) {
	var info C.rl_plan_info
	var record *C.rl_error
	C.rl_plan_info_init(&info, C.sizeof_rl_plan_info)
	status := C.rl_plan_get_info(p.ptr, &info, &record)
	return PlanInfo{
		TotalBytes:    uint64(info.total_bytes),
		ArenaBytes:    uint64(info.arena_bytes),
		BaselineBytes: uint64(info.baseline_bytes),
		BudgetBytes:   uint64(info.budget_bytes),
		MaxModelLen:   int64(info.max_model_len),
		MaxTokens:     int64(info.max_tokens),
		KVBlocks:      int64(info.kv_blocks),
		Threads:       int64(info.threads),
		DType:         DType(info.dtype),
		LeastBytes:    uint64(info.least_bytes),
	}, outcome(status, &record, p)
}

// Items are the arenas, then the parts.
func (p *Plan) Items() ([]PlanItem, error) {
	defer p.reading()()
	var items []PlanItem
	count := C.rl_plan_count(p.ptr)
	for i := C.size_t(0); i < count || count == 0; i++ { // a closed plan counts 0, and is an error
		var item C.rl_plan_item
		var record *C.rl_error
		C.rl_plan_item_init(&item, C.sizeof_rl_plan_item)
		if err := outcome(C.rl_plan_at(p.ptr, i, &item, &record), &record); err != nil {
			return nil, err
		}
		name, phase := C.GoString(item.name), C.GoString(item.phase)
		items = append(items, PlanItem{name, phase, uint64(item.bytes), PlanKind(item.kind),
			Device(item.device), int(item.device_index), C.GoString(item.role)})
	}
	return items, nil
}

// Knobs are those that save memory, in the order to turn them.
func (p *Plan) Knobs() ([]Knob, error) {
	defer p.reading()()
	var knobs []Knob
	count := C.rl_plan_knob_count(p.ptr)
	for i := C.size_t(0); i < count; i++ {
		var knob C.rl_knob
		var record *C.rl_error
		C.rl_knob_init(&knob, C.sizeof_rl_knob)
		if err := outcome(C.rl_plan_knob_at(p.ptr, i, &knob, &record), &record); err != nil {
			return nil, err
		}
		knobs = append(knobs, knobOf(&knob))
	}
	return knobs, nil
}

// Text is the plan as a table for people.
func (p *Plan) Text() (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_plan_text(p.ptr, &out, &record)
	return takenText(out), outcome(status, &record, p)
}
