package rl

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestOptionsReadBackWhatWasSet(t *testing.T) {
	o := value[*Options](t)(NewOptions())
	defer o.Close()
	ok(t, o.SetBool("metrics.tensorboard", true))
	ok(t, o.SetInt("runtime.threads", 2))
	ok(t, o.SetUint("runtime.seed", math.MaxUint64))
	ok(t, o.SetFloat("optimizer.lr", 0.25))
	ok(t, o.SetString("data.path", "rows of Zo\u00eb.jsonl"))
	ok(t, o.SetStrings("sampling.stop", []string{"a,b", "c"}))
	ok(t, o.SetInts("sampling.stop_token_ids", []int64{3, 1 << 20}))
	same := func(has, wanted any) {
		t.Helper()
		if !reflect.DeepEqual(has, wanted) {
			t.Errorf("%v instead of %v", has, wanted)
		}
	}
	same(value[bool](t)(o.GetBool("metrics.tensorboard")), true)
	same(value[int64](t)(o.GetInt("runtime.threads")), int64(2))
	same(value[uint64](t)(o.GetUint("runtime.seed")), uint64(math.MaxUint64))
	same(value[float64](t)(o.GetFloat("optimizer.lr")), 0.25)
	same(value[string](t)(o.GetString("data.path")), "rows of Zo\u00eb.jsonl")
	same(value[[]string](t)(o.GetStrings("sampling.stop")), []string{"a,b", "c"})
	same(value[[]int64](t)(o.GetInts("sampling.stop_token_ids")), []int64{3, 1 << 20})
	same(value[string](t)(o.GetText("sampling.stop_token_ids")), "3,1048576")

	other := value[*Options](t)(NewOptions())
	defer other.Close()
	ok(t, other.ImportJSON(value[string](t)(o.ExportJSON(true))))
	whole := value[string](t)(o.Dump(false))
	same(value[string](t)(other.Dump(false)), whole)
	third := value[*Options](t)(NewOptions())
	defer third.Close()
	ok(t, third.ImportFlatBuffer(value[[]byte](t)(o.ExportFlatBuffer(true))))
	same(value[string](t)(third.Dump(false)), whole)
	expect(t, third.ImportFlatBuffer(nil), ErrDataLoss)
	ok(t, other.Unset("optimizer.lr"))
	same(value[bool](t)(other.IsDefault("optimizer.lr")), true)
	same(strings.Contains(value[string](t)(o.Dump(true)), "optimizer.lr=0.25\n"), true)
	same(strings.Contains(value[string](t)(other.Dump(true)), "optimizer.lr="), false)
	_, err := o.GetBool("optimizer.lr")
	expect(t, err, ErrWrongType)
	expect(t, o.SetAssignment("optimizer.lr"), ErrInvalidArgument)
	clone := value[*Options](t)(o.Clone())
	defer clone.Close()
	ok(t, clone.SetAssignment("optimizer.lr=1"))
	same(value[float64](t)(o.GetFloat("optimizer.lr")), 0.25)
}

func TestAPresetIsItsSettings(t *testing.T) {
	presets := value[[]Preset](t)(Presets())
	if len(presets) == 0 {
		t.Fatal("there are none")
	}
	for _, preset := range presets {
		o := value[*Options](t)(NewOptions())
		defer o.Close()
		ok(t, o.ApplyPreset(preset.Name))
		for _, setting := range preset.Settings {
			if has := value[string](t)(o.GetText(setting.Key)); has != setting.Value {
				t.Errorf("%s: %s is %s, not %s", preset.Name, setting.Key, has, setting.Value)
			}
		}
	}
}

func TestTextsAndIDsOfAModel(t *testing.T) {
	h := newHost(t, UseModel, "model.path="+fixtures+"gguf/tiny_llama_half.gguf")
	ids := value[[]int32](t)(h.model.Encode("2 + 3?", 0))
	if text := value[string](t)(h.model.Decode(ids, 0)); text != "2 + 3?" {
		t.Errorf("%q", text)
	}
	if ids := value[[]int32](t)(h.model.Encode("", 0)); len(ids) != 0 {
		t.Error(ids)
	}
	info := value[ModelInfo](t)(h.model.Info())
	if info.Family != "llama" || !info.HasTokenizer || info.Vocab <= 0 {
		t.Errorf("%+v", info)
	}
	_, err := h.model.EncodeChat([]Message{{"user", "2?"}}, TextGenerationPrompt)
	expect(t, err, ErrFailedPrecondition)
	_, err = h.model.Decode([]int32{int32(info.Vocab)}, 0)
	expect(t, err, ErrOutOfRange)
}

func TestAFitKeepsTheBudgetAndARefusalHasKnobs(t *testing.T) {
	h := newHost(t, UseModel)
	machine := value[Machine](t)(h.runtime.Probe())
	if machine.F32FLOPS <= 0 || machine.CopyBytesPerS <= 0 || machine.Threads < 1 {
		t.Error(machine)
	}
	plan := value[*Plan](t)(NewPlan(h.options, UsePipeline))
	defer plan.Close()
	info, knobs := value[PlanInfo](t)(plan.Info()), value[[]Knob](t)(plan.Knobs())
	if len(knobs) == 0 || info.LeastBytes == 0 || knobs[0].Key == "" {
		t.Error(knobs, info)
	}
	options := value[*Options](t)(plan.Options())
	defer options.Close()
	ok(t, options.SetUint("runtime.memory_budget_bytes", info.LeastBytes))
	fit, time, err := FitPlan(h.runtime, options, UsePipeline, &machine, KnobSpeed)
	if err != nil || time.TotalS <= 0 || value[PlanInfo](t)(fit.Info()).TotalBytes > info.LeastBytes {
		t.Error(err, time)
	}
	fit.Close()
	ok(t, options.SetUint("runtime.memory_budget_bytes", 1))
	_, err = NewPlan(options, UsePipeline)
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Knobs) == 0 {
		t.Error(err)
	}
}

func TestAPlanAddsUp(t *testing.T) {
	h := newHost(t, UseModel)
	plan := value[*Plan](t)(NewPlan(h.options, UsePipeline))
	defer plan.Close()
	info, sum := value[PlanInfo](t)(plan.Info()), uint64(0)
	for _, item := range value[[]PlanItem](t)(plan.Items()) {
		if item.Kind == PlanArena {
			sum += item.Bytes
		}
	}
	if sum == 0 || sum != info.ArenaBytes || info.TotalBytes != sum+info.BaselineBytes {
		t.Errorf("%d bytes of arenas, %+v", sum, info)
	}
	if text := value[string](t)(plan.Text()); !strings.Contains(text, "train") {
		t.Error(text)
	}
}

func TestSamplesOfTheHostComeBackFromABuffer(t *testing.T) {
	h := newHost(t, UseParts)
	buffer := value[*Buffer](t)(NewBuffer(h.options, 16))
	defer buffer.Close()
	put := [2]*Sample{}
	for slot := range put {
		sample := NewSample()
		sample.SampleID, sample.Ordinal, sample.Slot = uint64(100+slot), 9, uint32(slot)
		sample.IDs, sample.NumPrompt = []int32{1, 2, 3, 4, 5}, 3
		sample.Logprobs, sample.LossMask = []float32{-1, -2}, []uint8{1, 0}
		sample.NumTop, sample.TopIDs = 1, []int32{4, 6}
		sample.TopLogprobs = []float32{-1, -1.5}
		sample.Reward, sample.Scored, sample.Tag = float64(slot), true, "of the host"
		sample.RewardParts = []float64{1, 2, 3}
		ok(t, buffer.Put(sample))
		put[slot] = sample
	}
	path := filepath.Join(t.TempDir(), "samples.rlbuf")
	ok(t, buffer.Save(path, h.model, 0))
	expect(t, buffer.Save(path, h.model, 0), ErrAlreadyExists)
	info := value[BufferFileInfo](t)(ReadBufferFileInfo(path))
	if info.GroupSize != 2 || !info.HasModel || info.WeightDigest != h.digest() {
		t.Errorf("%+v", info)
	}
	loaded := value[*Buffer](t)(NewBuffer(h.options, 16))
	defer loaded.Close()
	if count := value[uint64](t)(loaded.Load(path, h.model)); count != 2 {
		t.Errorf("%d samples", count)
	}
	batch := value[*Batch](t)(loaded.TryTake(Groups{}))
	defer batch.Close()
	for i, wanted := range put {
		has := value[*Sample](t)(batch.Sample(i))
		has.Versions, has.LogprobsSampled, has.MixedKV = nil, nil, nil // not given
		if !reflect.DeepEqual(has, wanted) {
			t.Errorf("%+v instead of %+v", has, wanted)
		}
	}
	event := value[*Event](t)(h.trainer().Step(context.Background(), batch, []float64{1, -1}))
	defer event.Close()
	if view := value[EventView](t)(event.View()); view.Kind != EventStep || view.Step != 1 {
		t.Errorf("%+v", view)
	}
}

func TestBatchesOfTheHostAreJoinedAndCarriedAsBytes(t *testing.T) {
	samples := make([]*Sample, 3)
	for i := range samples {
		samples[i] = NewSample()
		samples[i].IDs, samples[i].NumPrompt = []int32{1, 2, int32(3 + i)}, 2
		samples[i].Ordinal, samples[i].Slot = uint64(i/2), uint32(i%2)
		samples[i].Scored, samples[i].Tag = true, "made here"
	}
	made := value[*Batch](t)(NewBatch(samples))
	defer made.Close()
	ok(t, made.SetReward(2, 4))
	turned := value[*Batch](t)(made.Select([]int{2, 0}))
	defer turned.Close()
	none := value[*Batch](t)(made.Select(nil))
	defer none.Close()
	both := value[*Batch](t)(ConcatBatches(turned, none, made))
	defer both.Close()
	data := value[[]byte](t)(both.Bytes())
	got := value[*Batch](t)(BatchFromBytes(data))
	defer got.Close()
	if none.Count() != 0 || got.Count() != 5 {
		t.Fatalf("%d and %d samples", none.Count(), got.Count())
	}
	for i, wanted := range []int32{5, 3, 3, 4, 5} {
		has := value[*Sample](t)(got.Sample(i))
		if has.IDs[2] != wanted || has.Tag != "made here" || (has.Reward == 4) != (wanted == 5) {
			t.Errorf("%+v", has)
		}
	}
	_, err := made.Select([]int{3})
	expect(t, err, ErrOutOfRange)
	data[len(data)-1] ^= 1
	_, err = BatchFromBytes(data)
	expect(t, err, ErrDataLoss)
	_, err = BatchFromBytes(nil)
	expect(t, err, ErrDataLoss)
}

func TestABufferDropsGroupsAndCountsThem(t *testing.T) {
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	defer buffer.Close()
	for ordinal := uint64(0); ordinal < 3; ordinal++ {
		sample := NewSample()
		sample.IDs, sample.NumPrompt, sample.Scored = []int32{1, 2}, 1, true
		sample.Versions, sample.Ordinal = []uint64{ordinal}, ordinal
		ok(t, buffer.Put(sample))
	}
	for _, c := range []struct {
		drop    Drop
		dropped uint64
	}{{Drop{Ordinals: []uint64{}}, 0}, {Drop{Ordinals: []uint64{1, 9}}, 1},
		{Drop{BelowVersion: 1}, 1}, {Drop{IncompleteOnly: true}, 1}, {Drop{}, 0}} {
		if dropped := value[uint64](t)(buffer.Drop(c.drop)); dropped != c.dropped {
			t.Errorf("%+v: %d", c.drop, dropped)
		}
	}
	stats := value[BufferStats](t)(buffer.Stats())
	if stats != (BufferStats{Put: 3, Dropped: 3}) {
		t.Errorf("%+v", stats)
	}
}

func TestARequestNamesItsSamples(t *testing.T) {
	h := newHost(t, UseGenerate)
	engine := h.engine()
	ordinal := uint64(7)
	request := Request{Prompt: []int32{1, 2}, Tag: "row 7", Ordinal: &ordinal, SampleID: 900, Slot: 3}
	if id := value[uint64](t)(engine.Submit(request)); id != 900 {
		t.Errorf("id %d", id)
	}
	_, err := engine.Submit(request)
	expect(t, err, ErrFailedPrecondition)
	ok(t, engine.Run(context.Background()))
	batch := value[*Batch](t)(engine.Take())
	defer batch.Close()
	s := value[*Sample](t)(batch.Sample(0))
	if s.SampleID != 900 || s.Ordinal != 7 || s.Slot != 3 || s.Tag != "row 7" {
		t.Errorf("%+v", s)
	}
	prompt := Prompt{IDs: []int32{1, 2}, Tag: "talk", Ordinal: &ordinal, SampleID: 950}
	talk := value[*Conversation](t)(engine.NewConversationOf(prompt))
	defer talk.Close()
	info := value[ConversationInfo](t)(talk.Info())
	if info.SampleID != 950 || info.Ordinal != 7 {
		t.Errorf("%+v", info)
	}
}

func TestASliceOfAnotherLengthIsRefused(t *testing.T) {
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	defer buffer.Close()
	sample := NewSample()
	sample.IDs, sample.NumPrompt, sample.Logprobs = []int32{1, 2, 3}, 1, []float32{-1}
	expect(t, buffer.Put(sample), ErrInvalidArgument)
	sample.Logprobs, sample.NumPrompt = nil, 4
	expect(t, buffer.Put(sample), ErrInvalidArgument)
	_, err := (&Tokens{Lengths: []int32{2}, Rewards: []float64{1, 2}}).TokenAdvantages(nil)
	expect(t, err, ErrInvalidArgument)
	_, err = (&Tokens{Lengths: []int32{-2}}).LossWeights(nil)
	expect(t, err, ErrInvalidArgument)
}

func TestAlgorithmsOnSlices(t *testing.T) {
	options := value[*Options](t)(NewOptions())
	defer options.Close()
	ok(t, options.Set("algo.advantage", "dr_grpo"))
	tokens := &Tokens{Lengths: []int32{2, 1}, Rewards: []float64{1, 0}, Mask: []uint8{1, 0, 1}}
	advantages := value[[]float64](t)(tokens.TokenAdvantages(options))
	if !reflect.DeepEqual(advantages, []float64{0.5, 0, -0.5}) {
		t.Error(advantages)
	}
	tokens.Logprobs, tokens.Advantages = []float32{-1, -2, -3}, []float32{0.5, 0, -0.5}
	loss, gradient, err := tokens.PolicyLoss(options)
	ok(t, err)
	if loss.NumTokens != 2 || gradient[1] != 0 || gradient[0] >= 0 || gradient[0] != -gradient[2] {
		t.Errorf("%+v, %v", loss, gradient)
	}
	weights, sum := value[[]float64](t)(tokens.LossWeights(options)), 0.0
	for _, weight := range weights {
		sum += weight
	}
	if sum != 1 || weights[1] != 0 {
		t.Error(weights)
	}
	factors, keep, err := tokens.Corrections(options)
	ok(t, err)
	if !reflect.DeepEqual(factors, []float64{1, 0, 1}) || !reflect.DeepEqual(keep, tokens.Mask) {
		t.Error(factors, keep)
	}
	_, _, err = tokens.KL(options)
	expect(t, err, ErrInvalidArgument)
}

func TestAConversationKeepsTheIDsOfBothSides(t *testing.T) {
	h := newHost(t, UseGenerate)
	engine := h.engine()
	c := value[*Conversation](t)(engine.NewConversation([]int32{1, 2}))
	defer c.Close()
	ok(t, c.Generate(nil, 0))
	ok(t, engine.Run(context.Background()))
	ok(t, c.Append([]int32{7, 8}))
	fork := value[*Conversation](t)(c.Fork())
	defer fork.Close()
	batch := value[*Batch](t)(fork.Sample())
	defer batch.Close()
	sample := value[*Sample](t)(batch.Sample(0))
	info := value[ConversationInfo](t)(fork.Info())
	n := len(sample.IDs)
	if info.NumTurns != 1 || info.Slot != 1 || int(info.NumIDs) != n || n < 5 ||
		!reflect.DeepEqual(sample.IDs[n-2:], []int32{7, 8}) ||
		!reflect.DeepEqual(sample.LossMask[n-4:], []uint8{0, 0}) {
		t.Errorf("%+v, %+v", info, sample)
	}
}

func TestABufferAndATrainerTellOfWhatTheyDo(t *testing.T) {
	h := newHost(t, UseParts)
	queue := value[*EventQueue](t)(NewEventQueue())
	defer queue.Close()
	buffer := value[*Buffer](t)(NewBuffer(h.options, 16))
	defer buffer.Close()
	trainer := h.trainer()
	ok(t, buffer.SetQueue(queue, 1))
	ok(t, trainer.SetQueue(queue, 2))
	next := func(kind EventKind, source uint64) {
		t.Helper()
		event := value[*Event](t)(queue.Next(context.Background()))
		defer event.Close()
		if view := value[EventView](t)(event.View()); view.Kind != kind || view.Source != source {
			t.Errorf("%+v", view)
		}
	}
	for slot := uint32(0); slot < 2; slot++ {
		sample := NewSample()
		sample.IDs, sample.NumPrompt = []int32{1, 2, 3, 4 + int32(slot)}, 2
		sample.Slot, sample.Reward, sample.Scored = slot, float64(slot), true
		ok(t, buffer.Put(sample))
	}
	next(EventGroups, 1)
	batch := value[*Batch](t)(buffer.Take(context.Background(), Groups{}))
	defer batch.Close()
	event := value[*Event](t)(trainer.Step(context.Background(), batch, nil))
	defer event.Close()
	next(EventStep, 2)
	next(EventPublished, 2)
	if queue.Size() != 0 {
		t.Errorf("%d events", queue.Size())
	}
}

func TestEveryObjectReturnsItsOptions(t *testing.T) {
	h, own := newHost(t, UseParts), newHost(t, UsePipeline)
	plan := value[*Plan](t)(NewPlan(h.options, UseModel))
	defer plan.Close()
	buffer := value[*Buffer](t)(NewBuffer(h.options, 16))
	defer buffer.Close()
	pipeline := value[*Pipeline](t)(own.model.NewPipeline(nil))
	defer pipeline.Close()
	wanted := value[string](t)(h.options.Dump(false))
	for i, object := range []interface{ Options() (*Options, error) }{
		h.runtime, plan, h.model, h.engine(), h.trainer(), buffer, pipeline,
	} {
		options := value[*Options](t)(object.Options())
		defer options.Close()
		if value[string](t)(options.Dump(false)) != wanted {
			t.Errorf("object %d has other options", i)
		}
	}
}
