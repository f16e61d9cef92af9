package rl

/*
#include "dlpack.h"
*/
import "C"

import (
	"math"
	"runtime"
	"unsafe"
)

// Tensor is an array with a shape: a weight, what a sample holds, hidden states, or values of the
// host. It keeps alive what its memory belongs to.
type Tensor struct {
	ptr *C.rl_tensor
	guard
}

// TensorInfo has shape and type.
type TensorInfo struct {
	Shape       []int64
	Strides     []int64 // in elements
	NumElements int
	DType       DType
	Device      Device
	DeviceIndex int
	ReadOnly    bool
}

// BF16 is the upper half of a float32.
type BF16 uint16

// Float32 is the same value.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// An Element of a tensor.
type Element interface{ float32 | int32 | BF16 }

func dtypeOf[T Element]() DType {
	var element T
	switch any(element).(type) {
	case int32:
		return DTypeI32
	case BF16:
		return DTypeBF16
	}
	return DTypeF32
}

func tensorOf(status C.rl_status, out *C.rl_tensor, record **C.rl_error) (*Tensor, error) {
	if err := outcome(status, record); err != nil {
		return nil, err
	}
	return backstop(&Tensor{ptr: out}, (*Tensor).Close), nil
}

// NewTensor is a tensor with a copy of values, which are in row-major order.
func NewTensor[T Element](r *Runtime, values []T, shape ...int64) (*Tensor, error) {
	count := int64(1)
	for _, extent := range shape {
		if extent < 0 || extent > 0 && count > math.MaxInt64/extent {
			return nil, invalid("shape", "%v is negative or too large", shape)
		}
		count *= extent
	}
	if count != int64(len(values)) || len(shape) > math.MaxInt32 {
		return nil, invalid("shape", "%v has %d elements, but there are %d", shape, count,
			len(values))
	}
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_go_tensor(r.ptr, pointer(values), C.int32_t(dtypeOf[T]()),
		first[C.int64_t](shape), C.int32_t(len(shape)), &out, &record)
	runtime.KeepAlive(r)
	return tensorOf(status, out, &record)
}

// Close ends the tensor; its memory ends with the last that uses it.
func (t *Tensor) Close() {
	if t != nil {
		defer t.ending()()
		C.rl_tensor_release(t.ptr)
	}
}

func (t *Tensor) handle() *C.rl_tensor {
	if t == nil {
		return nil
	}
	return t.ptr
}

// Retain is another object of the same tensor.
func (t *Tensor) Retain() (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_tensor_retain(t.handle(), &out, &record)
	runtime.KeepAlive(t)
	return tensorOf(status, out, &record)
}

func (t *Tensor) info() (C.rl_tensor_info, error) {
	var info C.rl_tensor_info
	var record *C.rl_error
	C.rl_tensor_info_init(&info, C.sizeof_rl_tensor_info)
	status := C.rl_tensor_get_info(t.handle(), &info, &record)
	return info, outcome(status, &record)
}

func infoOf(info *C.rl_tensor_info) TensorInfo {
	return TensorInfo{
		Shape:       copied[int64](info.shape, C.size_t(info.num_dims)),
		Strides:     copied[int64](info.strides, C.size_t(info.num_dims)),
		NumElements: int(info.num_elements),
		DType:       DType(info.dtype),
		Device:      Device(info.device),
		DeviceIndex: int(info.device_index),
		ReadOnly:    info.read_only == 1,
	}
}

// Info has shape and type.
func (t *Tensor) Info() (TensorInfo, error) {
	if t != nil {
		defer t.reading()()
	}
	info, err := t.info()
	return infoOf(&info), err
}

// TensorValues are the elements of a row-major tensor in memory of the host as they are now. Those
// of a weight that is no copy change in a training step: do not ask for them during one.
func TensorValues[T Element](t *Tensor) ([]T, error) {
	if t != nil {
		defer t.reading()()
	}
	raw, err := t.info()
	if err != nil {
		return nil, err
	}
	info := infoOf(&raw)
	if info.DType != dtypeOf[T]() {
		return nil, invalid("tensor", "elements are not of type %T: %+v", *new(T), info)
	}
	if info.Device != DeviceCPU {
		return nil, invalid("tensor", "elements are not in memory of the host: %+v", info)
	}
	if !info.rowMajor() {
		return nil, invalid("tensor", "elements are not in row-major order: %+v", info)
	}
	return copied[T]((*byte)(raw.data), C.size_t(info.NumElements)), nil
}

// FillTensor writes the elements of a row-major tensor of the host's memory that may be written to,
// such as a gradient.
func FillTensor[T Element](t *Tensor, values []T) error {
	if t != nil {
		defer t.reading()()
	}
	raw, err := t.info()
	if err != nil {
		return err
	}
	info := infoOf(&raw)
	if info.ReadOnly || info.Device != DeviceCPU || info.DType != dtypeOf[T]() ||
		!info.rowMajor() {
		return invalid("tensor", "elements of type %T cannot be written: %+v", *new(T), info)
	}
	if len(values) != info.NumElements {
		return invalid("values", "are %d for %d elements", len(values), info.NumElements)
	}
	copy(unsafe.Slice((*T)(unsafe.Pointer(raw.data)), len(values)), values)
	return nil
}

func (i *TensorInfo) rowMajor() bool {
	stride := int64(1)
	for d := len(i.Shape) - 1; d >= 0 && i.NumElements > 0; d-- {
		if i.Shape[d] != 1 && i.Strides[d] != stride {
			return false
		}
		stride *= i.Shape[d]
	}
	return true
}

// ---- what gives and takes tensors ----

// WeightNames are those of all weights, as in a Hugging Face directory.
func (m *Model) WeightNames() ([]string, error) {
	defer m.reading()()
	var names []string
	count := C.rl_model_weight_count(m.ptr)
	for i := C.size_t(0); i < count || count == 0; i++ { // a closed model counts 0, and is an error
		var name *C.char
		var record *C.rl_error
		status := C.rl_model_weight_name(m.ptr, i, &name, &record)
		if err := outcome(status, &record); err != nil {
			return nil, err
		}
		names = append(names, C.GoString(name))
	}
	return names, nil
}

// A Place is where the values of a tensor are wanted, and when: by default in the host's memory.
type Place struct {
	Device      Device // 0 is DeviceCPU
	DeviceIndex int
	Stream      Stream // of the device, behind whose work they are there; 0: when the call returns
}

func (p Place) raw(flags TensorFlags) C.rl_go_place {
	if p.Device == 0 {
		p.Device = DeviceCPU
	}
	return C.rl_go_place{C.uint64_t(flags), C.int32_t(p.Device), C.int32_t(p.DeviceIndex),
		C.uintptr_t(p.Stream)}
}

// Weight is a weight by name: with TensorCopy its values of now, else the weight itself, which is
// read-only.
func (m *Model) Weight(name string, flags TensorFlags) (*Tensor, error) {
	return m.WeightIn(Place{}, name, flags)
}

// WeightIn is Weight in the memory of a place. The weights of a runtime on a GPU are themselves in
// its memory; in that of the host they are copies.
func (m *Model) WeightIn(place Place, name string, flags TensorFlags) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	n, size := chars(name)
	status := C.rl_go_weight(m.ptr, n, size, place.raw(flags), &out, &record)
	runtime.KeepAlive(m)
	return tensorOf(status, out, &record)
}

// A NamedTensor is a weight to set.
type NamedTensor struct {
	Name   string
	Tensor *Tensor
}

// SetWeights sets weights, all or none, and gives their version, one higher than before.
func (m *Model) SetWeights(weights ...NamedTensor) (uint64, error) {
	return m.SetWeightsAs(0, weights...)
}

// SetWeightsAs sets weights as a version that the host names; 0 is the next one.
func (m *Model) SetWeightsAs(asVersion uint64, weights ...NamedTensor) (uint64, error) {
	var memory arena
	defer memory.free()
	raw := make([]C.rl_weight, len(weights))
	for i, weight := range weights {
		C.rl_weight_init(&raw[i], C.sizeof_rl_weight)
		raw[i].name, raw[i].name_len = memory.text(weight.Name)
		raw[i].tensor = weight.Tensor.handle()
	}
	var version C.uint64_t
	var record *C.rl_error
	status := C.rl_model_set_weights(m.ptr, placed[C.rl_weight](&memory, raw),
		C.size_t(len(weights)), nil, C.uint64_t(asVersion), &version, &record)
	return uint64(version), outcome(status, &record, m, weights)
}

// Tensor is an array of a sample, where it lies; it never changes and outlives the batch.
func (b *Batch) Tensor(index int, array SampleArray) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_batch_tensor(b.ptr, C.size_t(index), C.int32_t(array), nil, &out, &record)
	runtime.KeepAlive(b)
	return tensorOf(status, out, &record)
}

// Tensor is an array of a sample of the event, as Batch.Tensor.
func (e *Event) Tensor(index int, array SampleArray) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_event_tensor(e.ptr, C.size_t(index), C.int32_t(array), nil, &out, &record)
	runtime.KeepAlive(e)
	return tensorOf(status, out, &record)
}
