package rl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const norm = "model.norm.weight"

// floats are the values of a tensor, which is closed with the test.
func floats(t *testing.T) func(*Tensor, error) []float32 {
	return func(tensor *Tensor, err error) []float32 {
		t.Helper()
		ok(t, err)
		t.Cleanup(tensor.Close)
		return value[[]float32](t)(TensorValues[float32](tensor))
	}
}

func TestATensorHasTheValuesOfTheHost(t *testing.T) {
	r := newHost(t, UseModel).runtime
	tensor := value[*Tensor](t)(NewTensor(r, []float32{1, 2, 3, 4, 5, 6}, 2, 3))
	info := value[TensorInfo](t)(tensor.Info())
	wanted := TensorInfo{[]int64{2, 3}, []int64{3, 1}, 6, DTypeF32, DeviceCPU, 0, false}
	if !reflect.DeepEqual(info, wanted) {
		t.Errorf("%+v", info)
	}
	other := value[*Tensor](t)(tensor.Retain())
	tensor.Close()
	tensor.Close()
	if got := floats(t)(other, nil); !reflect.DeepEqual(got, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(got)
	}
	_, err := tensor.Info()
	expect(t, err, ErrStaleHandle)
	_, err = TensorValues[int32](other)
	expect(t, err, ErrInvalidArgument)
	ids := value[*Tensor](t)(NewTensor(r, []int32{-7, 8}, 2))
	if got := value[[]int32](t)(TensorValues[int32](ids)); !reflect.DeepEqual(got, []int32{-7, 8}) {
		t.Error(got)
	}
	halves := value[*Tensor](t)(NewTensor(r, []BF16{0xc020}))
	if got := value[[]BF16](t)(TensorValues[BF16](halves)); got[0].Float32() != -2.5 {
		t.Error(got)
	}
	if got := floats(t)(NewTensor(r, []float32{}, 0, 4)); len(got) != 0 {
		t.Error(got)
	}
}

func TestAShapeThatDoesNotFitIsRefused(t *testing.T) {
	r := newHost(t, UseModel).runtime
	for _, shape := range [][]int64{{3}, {-1, -2}, {1 << 62, 4}, {}} {
		_, err := NewTensor(r, []float32{1, 2}, shape...)
		expect(t, err, ErrInvalidArgument)
	}
	_, err := NewTensor(r, []float32{1}, make([]int64, 65)...)
	expect(t, err, ErrInvalidArgument)
}

func TestWeightsAreLentOrCopied(t *testing.T) {
	h := newHost(t, UseParts)
	names := value[[]string](t)(h.model.WeightNames())
	if len(names) != 21 || !strings.Contains(strings.Join(names, " "), norm) {
		t.Error(names)
	}
	lent := value[*Tensor](t)(h.model.Weight(norm, 0))
	kept := value[*Tensor](t)(h.model.Weight(norm, TensorCopy))
	before := floats(t)(lent, nil)
	event := value[*Event](t)(h.trainer().Step(context.Background(), h.scored(), nil))
	defer event.Close()
	if !reflect.DeepEqual(floats(t)(kept, nil), before) {
		t.Error("a step changed the copy")
	}
	if reflect.DeepEqual(floats(t)(lent, nil), before) {
		t.Error("a step did not change the weight")
	}
	if !value[TensorInfo](t)(lent.Info()).ReadOnly {
		t.Error("a weight may be written to")
	}
	_, err := h.model.Weight("model.norm.weigth", 0)
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != ErrNotFound || failure.Nearest[0] != norm {
		t.Error(err)
	}
}

func TestWeightsAreSetAllOrNone(t *testing.T) {
	h := newHost(t, UseParts)
	twice := floats(t)(h.model.Weight(norm, TensorCopy))
	for i := range twice {
		twice[i] *= 2
	}
	tensor := value[*Tensor](t)(NewTensor(h.runtime, twice, int64(len(twice))))
	digest := h.digest()
	_, err := h.model.SetWeights(NamedTensor{norm, tensor}, NamedTensor{"lm_head.weight", tensor})
	expect(t, err, ErrIncompatible)
	_, err = h.model.SetWeights(NamedTensor{norm, nil})
	expect(t, err, ErrInvalidArgument)
	if h.digest() != digest {
		t.Error("a refused call changed weights")
	}
	if version := value[uint64](t)(h.model.SetWeights(NamedTensor{norm, tensor})); version != 1 {
		t.Error(version)
	}
	if !reflect.DeepEqual(floats(t)(h.model.Weight(norm, 0)), twice) {
		t.Error("the weight is not what was set")
	}
}

func TestArraysOfASampleOutliveTheBatch(t *testing.T) {
	h := newHost(t, UseParts)
	batch := h.scored()
	sample := value[*Sample](t)(batch.Sample(1))
	ids := value[*Tensor](t)(batch.Tensor(1, SampleIDs))
	logprobs := value[*Tensor](t)(batch.Tensor(1, SampleLogprobs))
	_, err := batch.Tensor(1, SampleTopIDs)
	expect(t, err, ErrNotFound)
	batch.Close()
	if !reflect.DeepEqual(value[[]int32](t)(TensorValues[int32](ids)), sample.IDs) ||
		!reflect.DeepEqual(floats(t)(logprobs, nil), sample.Logprobs) {
		t.Error("the tensors have other values than the sample")
	}
}

func TestArraysOfAnEventAreThoseOfItsSample(t *testing.T) {
	p := newHost(t, UsePipeline).pipeline(1)
	ok(t, p.Start())
	event := value[*Event](t)(p.Next(context.Background()))
	defer event.Close()
	sample := value[*Sample](t)(event.Sample())
	ids := value[*Tensor](t)(event.Tensor(0, SampleIDs))
	if !reflect.DeepEqual(value[[]int32](t)(TensorValues[int32](ids)), sample.IDs) {
		t.Error("the tensor has other ids than the sample")
	}
}

// beginsWith says whether a tensor has the elements of another one before its own others.
func beginsWith[T Element](t *testing.T, all, first *Tensor) bool {
	t.Helper()
	begin := value[[]T](t)(TensorValues[T](first))
	return reflect.DeepEqual(value[[]T](t)(TensorValues[T](all))[:len(begin)], begin)
}

func TestHiddenStatesHaveARowForEachID(t *testing.T) {
	h := newHost(t, UseParts)
	trainer, width := h.trainer(), value[ModelInfo](t)(h.model.Info()).Hidden
	hidden := value[*Tensor](t)(trainer.Hidden([]int32{1, 2, 3}))
	shape := value[TensorInfo](t)(hidden.Info()).Shape
	if !reflect.DeepEqual(shape, []int64{3, width}) {
		t.Error(shape)
	}
	first := value[*Tensor](t)(trainer.Hidden([]int32{1}))
	begins := beginsWith[float32]
	if value[TensorInfo](t)(hidden.Info()).DType == DTypeBF16 { // that of the machine's products
		begins = beginsWith[BF16]
	}
	if !begins(t, hidden, first) { // no position sees a later one
		t.Error("the first row depends on later ids")
	}
	_, err := trainer.Hidden([]int32{-1})
	expect(t, err, ErrOutOfRange)
}

func TestADLPackTensorKeepsTheModelUntilItEnds(t *testing.T) {
	h := newHost(t, UseModel)
	before := value[uint64](t)(h.runtime.ReservedBytes())
	model := value[*Model](t)(h.runtime.Open(h.options, UseModel))
	weight := value[*Tensor](t)(model.Weight(norm, 0))
	wanted := floats(t)(weight, nil)
	unused, taken := value[*DLPack](t)(weight.DLPack()), value[*DLPack](t)(weight.DLPack())
	back := value[*Tensor](t)(h.runtime.Import(taken, 0))
	taken.Close() // it is the tensor's
	weight.Close()
	model.Close()
	if !reflect.DeepEqual(floats(t)(back, nil), wanted) {
		t.Error("the weight is not what it was")
	}
	back.Close()
	if held := value[uint64](t)(h.runtime.ReservedBytes()); held <= before {
		t.Error("a tensor that nobody took does not keep its model")
	}
	unused.Close()
	unused.Close()
	if held := value[uint64](t)(h.runtime.ReservedBytes()); held != before {
		t.Errorf("%d bytes before and %d after every tensor ended", before, held)
	}
	_, err := h.runtime.Import(unused, 0)
	expect(t, err, ErrInvalidArgument)
}

func TestARewardModelScoresEverySample(t *testing.T) {
	h := newHost(t, UseParts)
	batch := h.scored()
	_, err := h.trainer().Scores(batch)
	expect(t, err, ErrFailedPrecondition)
	for _, key := range []string{"pipeline.prompts_per_step", "pipeline.samples_per_prompt"} {
		ok(t, h.options.Unset(key))
	}
	ok(t, h.options.Set("algo.objective", "reward_model"))
	model := value[*Model](t)(h.runtime.Open(h.options, UseTrain))
	defer model.Close()
	trainer := value[*Trainer](t)(model.NewTrainer(h.options))
	defer trainer.Close()
	scores := value[[]float32](t)(trainer.Scores(batch))
	if !reflect.DeepEqual(scores, []float32{0, 0}) {
		t.Error(scores) // its head is still zero
	}
	_, err = trainer.Scores(nil)
	expect(t, err, ErrInvalidArgument)
}

func TestACriticIsAModelOnDisk(t *testing.T) {
	h, dir := newHost(t, UsePipeline), filepath.Join(t.TempDir(), "critic")
	expect(t, h.trainer().SaveCritic(dir, DTypeF32, 0), ErrFailedPrecondition)
	expect(t, h.pipeline(1).SaveCritic(dir, DTypeF32, 0), ErrFailedPrecondition)
	ok(t, h.options.Set("algo.advantage", "gae"))
	trainer := value[*Trainer](t)(h.model.NewTrainer(h.options))
	defer trainer.Close()
	ok(t, trainer.SaveCritic(dir, DTypeF32, 0))
	expect(t, trainer.SaveCritic(dir, DTypeF32, 0), ErrAlreadyExists)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || !strings.Contains(string(config), "SequenceClassification") {
		t.Errorf("%s %v", config, err)
	}
}

func TestAStepInTwoHalvesTakesTheGradientsOfTheHost(t *testing.T) {
	h := newHost(t, UseParts)
	trainer, batch, before := h.trainer(), h.scored(), h.digest()
	ok(t, trainer.Backward(context.Background(), batch, nil, Totals{}))
	gradients := value[*Tensor](t)(trainer.Gradient("", 0))
	values := floats(t)(gradients, nil)
	ok(t, FillTensor(gradients, make([]float32, len(values))))
	expect(t, FillTensor(gradients, []float32{1}), ErrInvalidArgument)
	if got := floats(t)(trainer.Gradient("", TensorCopy)); got[0] != 0 || len(got) != len(values) {
		t.Error(got[0], len(got))
	}
	if got := floats(t)(trainer.Gradient(norm, TensorCopy)); len(got) != 64 {
		t.Error(len(got))
	}
	ok(t, trainer.Backward(context.Background(), batch, nil, Totals{Tokens: 100, Sequences: 10}))
	event := value[*Event](t)(trainer.Apply())
	defer event.Close()
	if h.digest() == before {
		t.Error("the weights are as before")
	}
	_, err := trainer.Apply()
	expect(t, err, ErrFailedPrecondition)
}

func TestATrainerGoesOnFromItsCheckpoint(t *testing.T) {
	h := newHost(t, UseParts)
	trainer, batch, dir := h.trainer(), h.scored(), t.TempDir()
	step := func() uint64 {
		t.Helper()
		event := value[*Event](t)(trainer.Step(context.Background(), batch, nil))
		event.Close()
		return h.digest()
	}
	first := step()
	path := value[string](t)(trainer.Save(dir, "row 17", 2, 0))
	if filepath.Base(path) != "step_000001" {
		t.Error(path)
	}
	_, err := trainer.Save(dir, "", 0, 0)
	expect(t, err, ErrAlreadyExists)
	second := step()
	if state := value[string](t)(trainer.Load(dir)); state != "row 17" || h.digest() != first {
		t.Error(state)
	}
	if step() != second {
		t.Error("it went on otherwise")
	}
	ok(t, trainer.SetOptions(h.options))
	ok(t, trainer.Cancel())
}

func TestForwardsNeedNoTrainer(t *testing.T) {
	h := newHost(t, UseParts)
	batch := h.scored()
	served := value[*Model](t)(h.runtime.Open(h.options, UseForward))
	defer served.Close()
	for _, output := range []Output{OutputLogprobs, OutputEntropies} {
		a := floats(t)(served.Forward(output, batch, nil))
		b := floats(t)(h.trainer().Forward(output, batch, nil))
		if !reflect.DeepEqual(a, b) {
			t.Error(output, a, b)
		}
	}
	rows := value[*Tensor](t)(served.Forward(OutputLogits, batch, []uint64{4, 0}))
	defer rows.Close()
	if shape := value[TensorInfo](t)(rows.Info()).Shape; shape[0] != 2 {
		t.Error(shape)
	}
	_, err := h.model.Forward(OutputLogprobs, batch, nil)
	expect(t, err, ErrFailedPrecondition)
}
