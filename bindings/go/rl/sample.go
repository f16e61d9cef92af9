package rl

/*
#include "rl.h"
*/
import "C"

// Sample is a prompt and the tokens generated after it: ids[NumPrompt:], to which entry i of every
// per-token slice belongs in order. As an input, slices that rl.h calls optional may be nil.
type Sample struct {
	SampleID        uint64 // unique in a run: what Pipeline.Score takes
	Ordinal         uint64 // of the group
	Slot            uint32 // member of its group, from 0
	Attempt         uint32
	DataRow         int64 // of the data file or the feed; -1 for none
	Purpose         Purpose
	Finish          Finish
	IDs             []int32
	NumPrompt       int
	Logprobs        []float32 // log softmax(logits / temperature)[id], nats
	LogprobsSampled []float32 // under the distribution drawn from
	Versions        []uint64  // of the weights that drew the token
	LossMask        []uint8   // 1 where the token is trained on
	Reward          float64   // when Scored
	Temperature     float32   // of the log-probs; greedy samples have 1
	Scored          bool
	Tag             string // the data row's host tag
	PromptText      string // of score events of a model with a tokenizer
	Text            string // of the answer, as PromptText
	SubmittedNS     int64  // times of a steady clock; 0 when unknown
	AdmittedNS      int64
	FirstTokenNS    int64
	FinishedNS      int64
	NumTop          int // most probable ids kept per token
	TopIDs          []int32
	TopLogprobs     []float32
	NumAborts       uint32
	Preemptions     uint32
	MixedKV         []uint8   // 1 where keys and values were of older weights
	RewardParts     []float64 // kinds of reward beside Reward
	TokenRewards    []float64 // what each token earns in addition
	PromptLogprobs  []float32 // one for each token of the prompt (sampling.prompt_logprobs)
}

// NewSample has the defaults of rl_sample_view_init.
func NewSample() *Sample { return &Sample{DataRow: -1, Temperature: 1} }

// NumGenerated is the number of tokens after the prompt.
func (s *Sample) NumGenerated() int { return len(s.IDs) - s.NumPrompt }

func newView() *C.rl_sample_view {
	view := &C.rl_sample_view{}
	C.rl_sample_view_init(view, C.sizeof_rl_sample_view)
	return view
}

// sampleOf copies what a view shows.
func sampleOf(v *C.rl_sample_view) *Sample {
	count := v.num_ids - v.num_prompt
	return &Sample{
		SampleID:        uint64(v.sample_id),
		Ordinal:         uint64(v.ordinal),
		Slot:            uint32(v.slot),
		Attempt:         uint32(v.attempt),
		DataRow:         int64(v.data_row),
		Purpose:         Purpose(v.purpose),
		Finish:          Finish(v.finish),
		IDs:             copied[int32](v.ids, v.num_ids),
		NumPrompt:       int(v.num_prompt),
		Logprobs:        copied[float32](v.logprobs, count),
		LogprobsSampled: copied[float32](v.logprobs_sampled, count),
		Versions:        copied[uint64](v.versions, count),
		LossMask:        copied[uint8](v.loss_mask, count),
		Reward:          float64(v.reward),
		Temperature:     float32(v.temperature),
		Scored:          v.scored == 1,
		Tag:             textOf(v.tag, v.tag_len),
		PromptText:      textOf(v.prompt_text, v.prompt_text_len),
		Text:            textOf(v.text, v.text_len),
		SubmittedNS:     int64(v.submitted_ns),
		AdmittedNS:      int64(v.admitted_ns),
		FirstTokenNS:    int64(v.first_token_ns),
		FinishedNS:      int64(v.finished_ns),
		NumTop:          int(v.num_top),
		TopIDs:          copied[int32](v.top_ids, count*v.num_top),
		TopLogprobs:     copied[float32](v.top_logprobs, count*v.num_top),
		NumAborts:       uint32(v.num_aborts),
		Preemptions:     uint32(v.preemptions),
		MixedKV:         copied[uint8](v.mixed_kv, count),
		RewardParts:     copied[float64](v.reward_parts, v.num_reward_parts),
		TokenRewards:    copied[float64](v.token_rewards, count),
		PromptLogprobs:  copied[float32](v.prompt_logprobs, v.num_prompt),
	}
}

// view is the sample as an input, with its arrays in the arena.
func (s *Sample) view(memory *arena) (*C.rl_sample_view, error) {
	if err := s.checkLengths(); err != nil {
		return nil, err
	}
	v := newView()
	v.sample_id, v.ordinal = C.uint64_t(s.SampleID), C.uint64_t(s.Ordinal)
	v.slot, v.attempt = C.uint32_t(s.Slot), C.uint32_t(s.Attempt)
	v.data_row = C.int64_t(s.DataRow)
	v.purpose, v.finish = C.int32_t(s.Purpose), C.int32_t(s.Finish)
	v.ids, v.num_ids = placed[C.int32_t](memory, s.IDs), C.size_t(len(s.IDs))
	v.num_prompt = C.size_t(s.NumPrompt)
	v.logprobs = placed[C.float](memory, s.Logprobs)
	v.logprobs_sampled = placed[C.float](memory, s.LogprobsSampled)
	v.versions = placed[C.uint64_t](memory, s.Versions)
	v.loss_mask = placed[C.uint8_t](memory, s.LossMask)
	v.reward, v.scored = C.double(s.Reward), truth(s.Scored)
	v.temperature = C.float(s.Temperature)
	v.tag, v.tag_len = memory.text(s.Tag)
	v.submitted_ns, v.admitted_ns = C.int64_t(s.SubmittedNS), C.int64_t(s.AdmittedNS)
	v.first_token_ns, v.finished_ns = C.int64_t(s.FirstTokenNS), C.int64_t(s.FinishedNS)
	v.num_top = C.size_t(s.NumTop)
	v.top_ids = placed[C.int32_t](memory, s.TopIDs)
	v.top_logprobs = placed[C.float](memory, s.TopLogprobs)
	v.num_aborts, v.preemptions = C.uint32_t(s.NumAborts), C.uint32_t(s.Preemptions)
	v.mixed_kv = placed[C.uint8_t](memory, s.MixedKV)
	v.reward_parts = placed[C.double](memory, s.RewardParts)
	v.num_reward_parts = C.size_t(len(s.RewardParts))
	v.token_rewards = placed[C.double](memory, s.TokenRewards)
	v.prompt_logprobs = placed[C.float](memory, s.PromptLogprobs)
	return v, nil
}

// checkLengths refuses slices that are shorter or longer than rl.h would read.
func (s *Sample) checkLengths() error {
	count := s.NumGenerated()
	if s.NumPrompt < 0 || count < 0 || s.NumTop < 0 {
		return invalid("sample.num_prompt", "NumPrompt %d and NumTop %d with %d ids", s.NumPrompt,
			s.NumTop, len(s.IDs))
	}
	lengths := []length{
		{"logprobs", len(s.Logprobs), count}, {"logprobs_sampled", len(s.LogprobsSampled), count},
		{"versions", len(s.Versions), count}, {"loss_mask", len(s.LossMask), count},
		{"top_ids", len(s.TopIDs), count * s.NumTop}, {"mixed_kv", len(s.MixedKV), count},
		{"top_logprobs", len(s.TopLogprobs), count * s.NumTop},
		{"token_rewards", len(s.TokenRewards), count},
		{"prompt_logprobs", len(s.PromptLogprobs), s.NumPrompt},
	}
	return wrongLength("sample", lengths)
}
