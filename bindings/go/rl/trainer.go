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
	var memory arena
	defer memory.free()
	var step C.rl_step
	C.rl_step_init(&step, C.sizeof_rl_step)
	step.batch = batch.handle()
	step.advantages = placed[C.double](&memory, advantages)
	step.num_advantages = C.size_t(len(advantages))
	status := C.rl_trainer_step(t.ptr, &step, &out, &record)
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
	return floatsOf(t.forward(OutputLogprobs, nil, ids, numPrompt, temperature))
}

// BatchLogprobs are those of every token after the prompts of a batch, one sample after the other.
func (t *Trainer) BatchLogprobs(batch *Batch) ([]float32, error) {
	return floatsOf(t.forward(OutputLogprobs, batch, nil, 0, 1))
}

// Hidden are the hidden states of a sequence under the weights of the last step, a row for each id.
func (t *Trainer) Hidden(ids []int32) (*Tensor, error) {
	return t.forward(OutputHidden, nil, ids, 0, 1)
}

// Scores of the samples of a batch, with algo.objective = reward_model.
func (t *Trainer) Scores(batch *Batch) ([]float32, error) {
	return floatsOf(t.forward(OutputScores, batch, nil, 0, 1))
}

func (t *Trainer) forward(output Output, batch *Batch, ids []int32, numPrompt int,
	temperature float32) (*Tensor, error) {
	var memory arena
	defer memory.free()
	var f C.rl_forward
	C.rl_forward_init(&f, C.sizeof_rl_forward)
	f.output, f.batch = C.int32_t(output), batch.handle()
	f.ids, f.num_ids = placed[C.int32_t](&memory, ids), C.size_t(len(ids))
	f.num_prompt, f.temperature = C.size_t(numPrompt), C.float(temperature)
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_trainer_forward(t.ptr, &f, &out, &record)
	runtime.KeepAlive(t)
	runtime.KeepAlive(batch)
	return tensorOf(status, out, &record)
}

func floatsOf(tensor *Tensor, err error) ([]float32, error) {
	if err != nil {
		return nil, err
	}
	defer tensor.Close()
	return TensorValues[float32](tensor)
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
