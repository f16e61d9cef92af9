//go:build gpu

package rl

import (
	"context"
	"testing"
)

// These run on a GPU, such as the emulated one.

func TestTensorsOnTheDevice(t *testing.T) {
	h := newHost(t, UseParts, "runtime.device=cuda")
	gpu := Place{Device: DeviceCUDA}
	name := value[[]string](t)(h.model.WeightNames())[0]
	weight := value[*Tensor](t)(h.model.WeightIn(gpu, name, 0))
	defer weight.Close()
	info := value[TensorInfo](t)(weight.Info())
	if info.Device != DeviceCUDA || info.DeviceIndex != 0 || !info.ReadOnly {
		t.Errorf("the weight is %+v", info)
	}
	_, err := TensorValues[float32](weight)
	expect(t, err, ErrInvalidArgument)
	expect(t, FillTensor(weight, []float32{1}), ErrInvalidArgument)
	_, err = h.model.WeightIn(Place{Device: DeviceCUDA, DeviceIndex: 1}, name, 0)
	expect(t, err, ErrUnsupported)
	_, err = h.model.WeightIn(Place{Device: DeviceCUDA, Stream: 12345}, name, 0)
	expect(t, err, ErrInvalidArgument)
}

func TestDLPackOfTheDeviceGoesBothWays(t *testing.T) {
	h := newHost(t, UseParts, "runtime.device=cuda")
	const stream Stream = 2 // the default one of each thread
	name := value[[]string](t)(h.model.WeightNames())[0]
	copied := value[*Tensor](t)(h.model.WeightIn(Place{DeviceCUDA, 0, stream}, name, TensorCopy))
	defer copied.Close()
	before := h.digest()
	zeros := value[*Tensor](t)(NewTensor(h.runtime, make([]float32, 256*64), 256, 64))
	defer zeros.Close()
	value[uint64](t)(h.model.SetWeights(NamedTensor{name, zeros}))
	if h.digest() == before {
		t.Error("no weight was set")
	}
	theirs := value[*DLPack](t)(copied.DLPackBehind(stream))
	imported := value[*Tensor](t)(h.runtime.ImportBehind(theirs, 0, stream))
	defer imported.Close()
	value[uint64](t)(h.model.SetWeights(NamedTensor{name, imported}))
	if h.digest() != before {
		t.Error("the weights are not those from before")
	}
}

func TestGradientsOnTheDevice(t *testing.T) {
	h := newHost(t, UseParts, "runtime.device=cuda")
	trainer := h.trainer()
	ok(t, trainer.Backward(context.Background(), h.scored(), []float64{1, -1}, Totals{}))
	gradient := value[*Tensor](t)(trainer.GradientIn(Place{Device: DeviceCUDA}, "", 0))
	defer gradient.Close()
	info := value[TensorInfo](t)(gradient.Info())
	if info.Device != DeviceCUDA || info.ReadOnly {
		t.Errorf("the gradients are %+v", info)
	}
	before := h.digest()
	value[*Event](t)(trainer.Apply()).Close()
	if h.digest() == before {
		t.Error("the step changed nothing")
	}
}
