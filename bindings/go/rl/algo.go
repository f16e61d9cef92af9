package rl

/*
#include "rl.h"
*/
import "C"

// Tokens are sequences of tokens without a model, packed: per-token slices have the tokens of
// sequence 0, then of sequence 1, and so on. Slices that rl.h calls optional may be nil.
type Tokens struct {
	Lengths         []int32   // of each sequence
	Groups          []uint64  // equal for the samples of a prompt, which stand together
	Mask            []uint8   // 1 where a token carries loss
	Truncated       []uint8   // of each sequence, 1 where the length limit cut it
	Logprobs        []float32 // of the current policy
	OldLogprobs     []float32 // what ratios refer to
	RolloutLogprobs []float32 // of the sampler
	RefLogprobs     []float32 // of the reference
	Advantages      []float32
	Rewards         []float64 // of each sequence
	Baselines       []float64 // of each sequence: scores of greedy answers
	SampleIDs       []uint64  // of each sequence
	NumRewardParts  int
	RewardParts     []float64 // of sequence 0 first
	TokenRewards    []float64 // added to what each token earns
	Values          []float32 // of a critic now
	OldValues       []float32 // of the critic at sampling
	Returns         []float32 // what values are to predict
	Entropies       []float32 // of the tokens' distributions, nats
	Weights         []float64 // in place of those of algo.loss_agg
	TotalTokens     uint64    // that carry loss, in the whole batch; 0: those given here
	TotalSequences  uint64
}

// AlgoLoss is the loss of a minibatch. Means are over the tokens that carry loss.
type AlgoLoss struct {
	Loss             float64 // PolicyLoss + KLLoss
	PolicyLoss       float64
	KLLoss           float64
	KL               float64
	PPOKL            float64 // mean of old - current log-prob, nats
	PPOKLK3          float64
	ClipFraction     float64
	DualClipFraction float64
	RatioMax         float64
	NumTokens        uint64 // that carry loss
	NumRejected      uint64 // tokens that corrections took out
}

// tokensOf shows what librl gave to a callback, where it is.
func tokensOf(t *C.rl_algo_tokens) *Tokens {
	sequences, count := t.num_sequences, t.num_tokens
	return &Tokens{
		Lengths:         shared[int32](t.lengths, sequences),
		Groups:          shared[uint64](t.groups, sequences),
		Mask:            shared[uint8](t.mask, count),
		Truncated:       shared[uint8](t.truncated, sequences),
		Logprobs:        shared[float32](t.logprobs, count),
		OldLogprobs:     shared[float32](t.old_logprobs, count),
		RolloutLogprobs: shared[float32](t.rollout_logprobs, count),
		RefLogprobs:     shared[float32](t.ref_logprobs, count),
		Advantages:      shared[float32](t.advantages, count),
		Rewards:         shared[float64](t.rewards, sequences),
		Baselines:       shared[float64](t.baselines, sequences),
		SampleIDs:       shared[uint64](t.sample_ids, sequences),
		NumRewardParts:  int(t.num_reward_parts),
		RewardParts:     shared[float64](t.reward_parts, sequences*t.num_reward_parts),
		TokenRewards:    shared[float64](t.token_rewards, count),
		Values:          shared[float32](t.values, count),
		OldValues:       shared[float32](t.old_values, count),
		Returns:         shared[float32](t.returns, count),
		Entropies:       shared[float32](t.entropies, count),
		Weights:         shared[float64](t.weights, count),
		TotalTokens:     uint64(t.total_tokens),
		TotalSequences:  uint64(t.total_sequences),
	}
}

// NumTokens is the sum of the lengths.
func (t *Tokens) NumTokens() int {
	sum := 0
	for _, length := range t.Lengths {
		if length > 0 {
			sum += int(length)
		}
	}
	return sum
}

// input is the tokens as librl reads them, with their arrays in the arena.
func (t *Tokens) input(memory *arena) (*C.rl_algo_tokens, error) {
	sequences, count := len(t.Lengths), t.NumTokens()
	for i, length := range t.Lengths {
		if length < 0 {
			return nil, invalid("tokens.lengths", "entry %d is %d", i, length)
		}
	}
	lengths := []length{
		{"groups", len(t.Groups), sequences}, {"mask", len(t.Mask), count},
		{"truncated", len(t.Truncated), sequences}, {"logprobs", len(t.Logprobs), count},
		{"old_logprobs", len(t.OldLogprobs), count},
		{"rollout_logprobs", len(t.RolloutLogprobs), count},
		{"ref_logprobs", len(t.RefLogprobs), count}, {"advantages", len(t.Advantages), count},
		{"rewards", len(t.Rewards), sequences}, {"baselines", len(t.Baselines), sequences},
		{"sample_ids", len(t.SampleIDs), sequences},
		{"reward_parts", len(t.RewardParts), sequences * t.NumRewardParts},
		{"token_rewards", len(t.TokenRewards), count}, {"values", len(t.Values), count},
		{"old_values", len(t.OldValues), count}, {"returns", len(t.Returns), count},
		{"entropies", len(t.Entropies), count}, {"weights", len(t.Weights), count},
	}
	if err := wrongLength("tokens", lengths); err != nil {
		return nil, err
	}
	in := &C.rl_algo_tokens{}
	C.rl_algo_tokens_init(in, C.sizeof_rl_algo_tokens)
	in.lengths, in.num_sequences = placed[C.int32_t](memory, t.Lengths), C.size_t(sequences)
	in.num_tokens = C.size_t(count)
	in.groups = placed[C.uint64_t](memory, t.Groups)
	in.mask = placed[C.uint8_t](memory, t.Mask)
	in.truncated = placed[C.uint8_t](memory, t.Truncated)
	in.logprobs = placed[C.float](memory, t.Logprobs)
	in.old_logprobs = placed[C.float](memory, t.OldLogprobs)
	in.rollout_logprobs = placed[C.float](memory, t.RolloutLogprobs)
	in.ref_logprobs = placed[C.float](memory, t.RefLogprobs)
	in.advantages = placed[C.float](memory, t.Advantages)
	in.rewards = placed[C.double](memory, t.Rewards)
	in.baselines = placed[C.double](memory, t.Baselines)
	in.sample_ids = placed[C.uint64_t](memory, t.SampleIDs)
	in.num_reward_parts = C.size_t(t.NumRewardParts)
	in.reward_parts = placed[C.double](memory, t.RewardParts)
	in.token_rewards = placed[C.double](memory, t.TokenRewards)
	in.values = placed[C.float](memory, t.Values)
	in.old_values = placed[C.float](memory, t.OldValues)
	in.returns = placed[C.float](memory, t.Returns)
	in.entropies = placed[C.float](memory, t.Entropies)
	in.weights = placed[C.double](memory, t.Weights)
	in.total_tokens = C.uint64_t(t.TotalTokens)
	in.total_sequences = C.uint64_t(t.TotalSequences)
	return in, nil
}

// TokenAdvantages gives the advantages of every token from the rewards by algo.advantage. Of these
// functions options may be nil: the defaults.
func (t *Tokens) TokenAdvantages(options *Options) ([]float64, error) {
	advantages, _, err := t.AdvantagesAndReturns(options)
	return advantages, err
}

// AdvantagesAndReturns gives the rewards to go as well, which a critic is to predict.
func (t *Tokens) AdvantagesAndReturns(options *Options) (advantages, returns []float64, err error) {
	advantages, returns = make([]float64, t.NumTokens()), make([]float64, t.NumTokens())
	err = t.with(options, func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status {
		return C.rl_algo_advantages(options.handle(), in, first[C.double](advantages),
			in.num_tokens, first[C.double](returns), C.size_t(len(returns)), record)
	})
	return advantages, returns, err
}

// PolicyLoss gives the loss by algo.policy_loss and its derivative in the log-prob of each token.
func (t *Tokens) PolicyLoss(options *Options) (AlgoLoss, []float64, error) {
	return t.loss(options, func(in *C.rl_algo_tokens, gradient *C.double, out *C.rl_algo_loss,
		record **C.rl_error) C.rl_status {
		return C.rl_algo_policy_loss(options.handle(), in, gradient, in.num_tokens, out, record)
	})
}

// ValueLoss gives the loss of a critic and its derivative in the value of each token.
func (t *Tokens) ValueLoss(options *Options) (AlgoLoss, []float64, error) {
	return t.loss(options, func(in *C.rl_algo_tokens, gradient *C.double, out *C.rl_algo_loss,
		record **C.rl_error) C.rl_status {
		return C.rl_algo_value_loss(options.handle(), in, gradient, in.num_tokens, out, record)
	})
}

// EntropyLoss gives the entropy bonus as a loss and its derivative in the entropy of each token.
func (t *Tokens) EntropyLoss(options *Options) (AlgoLoss, []float64, error) {
	return t.loss(options, func(in *C.rl_algo_tokens, gradient *C.double, out *C.rl_algo_loss,
		record **C.rl_error) C.rl_status {
		return C.rl_algo_entropy_loss(options.handle(), in, gradient, in.num_tokens, out, record)
	})
}

func (t *Tokens) loss(options *Options, call func(in *C.rl_algo_tokens, gradient *C.double,
	out *C.rl_algo_loss, record **C.rl_error) C.rl_status) (AlgoLoss, []float64, error) {
	var out C.rl_algo_loss
	C.rl_algo_loss_init(&out, C.sizeof_rl_algo_loss)
	gradient := make([]float64, t.NumTokens())
	err := t.with(options, func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status {
		return call(in, first[C.double](gradient), &out, record)
	})
	return AlgoLoss{
		Loss:             float64(out.loss),
		PolicyLoss:       float64(out.policy_loss),
		KLLoss:           float64(out.kl_loss),
		KL:               float64(out.kl),
		PPOKL:            float64(out.ppo_kl),
		PPOKLK3:          float64(out.ppo_kl_k3),
		ClipFraction:     float64(out.clip_fraction),
		DualClipFraction: float64(out.dual_clip_fraction),
		RatioMax:         float64(out.ratio_max),
		NumTokens:        uint64(out.num_tokens),
		NumRejected:      uint64(out.num_rejected),
	}, gradient, err
}

// Packing says how sequences are distributed over bins.
type Packing struct {
	MaxTokens     uint64 // budget of a bin; 0: none, and there are MinBins bins of equal cost
	MinBins       uint64 // 0 means 1, as for what follows
	Divisor       uint64 // the number of bins is a multiple of it
	GroupSize     uint64 // so many neighbours stay together
	Hidden        uint64 // of the model, for trainer.balance = flops
	OversizeAlone bool   // a unit above the budget has a bin of its own
}

// Pack gives the bin of each sequence, and the number of bins. options may be nil: the defaults.
func (p Packing) Pack(options *Options, lengths []int32) (bins []int32, count int, err error) {
	var packing C.rl_algo_packing
	C.rl_algo_packing_init(&packing, C.sizeof_rl_algo_packing)
	packing.max_tokens, packing.hidden = C.uint64_t(p.MaxTokens), C.uint64_t(p.Hidden)
	packing.oversize_alone = truth(p.OversizeAlone)
	for field, value := range map[*C.uint64_t]uint64{&packing.min_bins: p.MinBins,
		&packing.divisor: p.Divisor, &packing.group_size: p.GroupSize} {
		if value != 0 {
			*field = C.uint64_t(value)
		}
	}
	bins = make([]int32, len(lengths)+1) // one more, so that the array is never NULL
	var number C.uint64_t
	var record *C.rl_error
	status := C.rl_algo_pack(options.handle(), first[C.int32_t](lengths), C.size_t(len(lengths)),
		&packing, first[C.int32_t](bins), C.size_t(len(lengths)), &number, &record)
	return bins[:len(lengths)], int(number), outcome(status, &record, options)
}

// Corrections gives the factors of the token losses by algo.correction.*, and in keep 1 for a token
// that carries loss after all rejections.
func (t *Tokens) Corrections(options *Options) (weights []float64, keep []uint8, err error) {
	weights, keep = make([]float64, t.NumTokens()), make([]uint8, t.NumTokens())
	err = t.with(options, func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status {
		return C.rl_algo_corrections(options.handle(), in, first[C.double](weights), in.num_tokens,
			first[C.uint8_t](keep), in.num_tokens, record)
	})
	return weights, keep, err
}

// LossWeights gives the weight of each token under algo.loss_agg.
func (t *Tokens) LossWeights(options *Options) ([]float64, error) {
	weights := make([]float64, t.NumTokens())
	return weights, t.with(options, func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status {
		return C.rl_algo_weights(options.handle(), in, first[C.double](weights), in.num_tokens,
			record)
	})
}

// KL gives the KL of each token by algo.kl.estimator, and its derivative in the log-prob.
func (t *Tokens) KL(options *Options) (values, gradient []float64, err error) {
	values, gradient = make([]float64, t.NumTokens()), make([]float64, t.NumTokens())
	err = t.with(options, func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status {
		return C.rl_algo_kl(options.handle(), in, first[C.double](values), in.num_tokens,
			first[C.double](gradient), in.num_tokens, record)
	})
	return values, gradient, err
}

func (t *Tokens) with(options *Options,
	call func(in *C.rl_algo_tokens, record **C.rl_error) C.rl_status) error {
	var memory arena
	defer memory.free()
	in, err := t.input(&memory)
	if err != nil {
		return err
	}
	var record *C.rl_error
	return outcome(call(in, &record), &record, options)
}
