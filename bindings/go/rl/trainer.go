package rl

/*
#include "rl.h"
#include "hooks.h"
*/
import "C"

import "runtime"

// Trainer takes optimizer steps on a model's weights.
type Trainer struct {
	ptr      *C.rl_trainer
	failures *failures
}

// Close ends the trainer.
func (t *Trainer) Close() {
	if t != nil {
		C.rl_trainer_destroy(t.ptr)
		runtime.KeepAlive(t)
	}
}

// Step is one training step over the batch. advantages may be nil: they follow from the rewards;
// else there is one per sample. The event is an EventStep. When a loss function of the host failed,
// the error is ErrCancelled with its cause: its minibatches were skipped, others were trained on.
func (t *Trainer) Step(batch *Batch, advantages []float64) (*Event, error) {
	var out *C.rl_event
	var record *C.rl_error
	status := C.rl_trainer_step(t.ptr, batch.handle(), first[C.double](advantages),
		C.size_t(len(advantages)), &out, &record)
	if err := outcome(status, &record, t, batch); err != nil {
		return nil, t.failures.explain(err)
	}
	event := eventOf(out)
	if err := t.failures.takeLoss(); err != nil {
		event.Close()
		return nil, err
	}
	return event, nil
}

// Logprobs of ids[numPrompt:] under the weights of the last step, nats.
func (t *Trainer) Logprobs(ids []int32, numPrompt int, temperature float32) ([]float32, error) {
	if numPrompt < 0 || numPrompt > len(ids) {
		return nil, invalid("num_prompt", "%d of %d ids", numPrompt, len(ids))
	}
	// One entry more than asked for, so that the array is never NULL.
	logprobs := make([]float32, len(ids)-numPrompt+1)
	var record *C.rl_error
	status := C.rl_trainer_logprobs(t.ptr, first[C.int32_t](ids), C.size_t(len(ids)),
		C.size_t(numPrompt), C.float(temperature), first[C.float](logprobs),
		C.size_t(len(logprobs)-1), &record)
	if err := outcome(status, &record, t); err != nil {
		return nil, err
	}
	return logprobs[:len(logprobs)-1], nil
}

// Scores of the samples of a batch, with algo.objective = reward_model.
func (t *Trainer) Scores(batch *Batch) ([]float32, error) {
	// One entry more than asked for, so that the array is never NULL.
	scores := make([]float32, batch.Count()+1)
	var record *C.rl_error
	status := C.rl_trainer_scores(t.ptr, batch.handle(), first[C.float](scores),
		C.size_t(len(scores)-1), &record)
	if err := outcome(status, &record, t, batch); err != nil {
		return nil, err
	}
	return scores[:len(scores)-1], nil
}

// SaveCritic writes the critic of algo.advantage = gae, as Model.Save the policy.
func (t *Trainer) SaveCritic(dir string, dtype DType, flags SaveFlags) error {
	var record *C.rl_error
	d, size := chars(dir)
	status := C.rl_trainer_save_critic(t.ptr, d, size, C.int32_t(dtype), C.uint64_t(flags), &record)
	return outcome(status, &record, t)
}

// Publish makes engines read the weights of the last step, and gives their version.
func (t *Trainer) Publish() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_trainer_publish(t.ptr, &out, &record)
	return uint64(out), outcome(status, &record, t)
}

// SetAdvantage sets the function for algo.advantage = custom; nil for none.
func (t *Trainer) SetAdvantage(advantage AdvantageFunc) error {
	var record *C.rl_error
	status := C.rl_go_trainer_set_advantage(t.ptr, advantage.hook(t.failures), &record)
	return outcome(status, &record, t)
}

// SetLoss sets the function for algo.policy_loss = custom; nil for none.
func (t *Trainer) SetLoss(loss LossFunc) error {
	var record *C.rl_error
	status := C.rl_go_trainer_set_loss(t.ptr, loss.hook(t.failures), &record)
	return outcome(status, &record, t)
}
