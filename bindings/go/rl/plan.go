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
	DType         DType // of the matrix products
}

// PlanItem is an arena, or a part of one that phases share.
type PlanItem struct {
	Name, Phase string
	Bytes       uint64
	Kind        PlanKind
	Device      Device // whose memory it is
	DeviceIndex int
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
			Device(item.device), int(item.device_index)})
	}
	return items, nil
}

// Text is the plan as a table for people.
func (p *Plan) Text() (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_plan_text(p.ptr, &out, &record)
	return takenText(out), outcome(status, &record, p)
}
