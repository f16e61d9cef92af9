package rl

/*
#include "dlpack.h"
#include "hooks.h"
*/
import "C"

import (
	"context"
	"runtime"
)

// Trainer takes optimizer steps on a model's weights.
type Trainer struct {
	ptr      *C.rl_trainer
	failures *failures
	turn     turn // of what rl_trainer_cancel ends
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
// Once ctx is done the step is cancelled, as by Cancel: the error is ErrCancelled with ctx.Err() as
// its cause, unless the step was finished by then.
func (t *Trainer) Step(ctx context.Context, batch *Batch, advantages []float64) (*Event, error) {
	var out *C.rl_event
	var memory arena
	defer memory.free()
	step := memory.step(batch, advantages)
	err := t.computing(ctx, func(record **C.rl_error) C.rl_status {
		return C.rl_trainer_step(t.ptr, &step, &out, record)
	}, batch)
	if err != nil {
		return nil, err
	}
	return t.stepped(out)
}

// computing makes a call that rl_trainer_cancel ends, and calls that once ctx is done.
func (t *Trainer) computing(ctx context.Context, call func(record **C.rl_error) C.rl_status,
	used ...any) error {
	if err := t.turn.take(ctx); err != nil {
		return err
	}
	defer t.turn.giveBack()
	stop := untilDone(ctx, func() { C.rl_trainer_cancel(t.ptr, nil) })
	var record *C.rl_error
	err := t.failures.explain(outcome(call(&record), &record, t, used))
	if stop() {
		return cancelled(ctx, err)
	}
	return err
}

func (a *arena) step(batch *Batch, advantages []float64) C.rl_step {
	var step C.rl_step
	C.rl_step_init(&step, C.sizeof_rl_step)
	step.batch = batch.handle()
	step.advantages = placed[C.double](a, advantages)
	step.num_advantages = C.size_t(len(advantages))
	return step
}

func (t *Trainer) stepped(out *C.rl_event) (*Event, error) {
	event := eventOf(out)
	if err := t.failures.takeLoss(); err != nil {
		event.Close()
		return nil, err
	}
	return event, nil
}

// Totals are the counts of a batch that several processes share: tokens that carry loss, and
// samples with such tokens. Zeros: there is no larger batch.
type Totals struct{ Tokens, Sequences uint64 }

// Backward computes the gradients of an optimizer step on the batch, which is all or a part of one;
// Apply makes the step. Advantages and ctx are as in Step.
func (t *Trainer) Backward(ctx context.Context, batch *Batch, advantages []float64,
	whole Totals) error {
	var memory arena
	defer memory.free()
	step := memory.step(batch, advantages)
	step.total_tokens = C.uint64_t(whole.Tokens)
	step.total_sequences = C.uint64_t(whole.Sequences)
	err := t.computing(ctx, func(record **C.rl_error) C.rl_status {
		return C.rl_trainer_backward(t.ptr, &step, record)
	}, batch)
	if err != nil {
		return err
	}
	return t.failures.takeLoss()
}

// Gradient is that of a weight by name, or with an empty name of all in one row: with TensorCopy
// its values of now, else where the trainer computes it, which FillTensor may write to until Apply.
func (t *Trainer) Gradient(name string, flags TensorFlags) (*Tensor, error) {
	return t.GradientIn(Place{}, name, flags)
}

// GradientIn is Gradient in the memory of a place. A runtime on a GPU computes gradients in its
// memory; in that of the host they are a copy, which Apply reads back.
func (t *Trainer) GradientIn(place Place, name string, flags TensorFlags) (*Tensor, error) {
	var out *C.rl_tensor
	var record *C.rl_error
	n, size := chars(name)
	status := C.rl_go_gradient(t.ptr, n, size, place.raw(flags), &out, &record)
	runtime.KeepAlive(t)
	return tensorOf(status, out, &record)
}

// Apply makes the optimizer step with the gradients as they are now. The event is as that of Step.
func (t *Trainer) Apply() (*Event, error) {
	var out *C.rl_event
	var record *C.rl_error
	status := C.rl_trainer_apply(t.ptr, &out, &record)
	if err := outcome(status, &record, t); err != nil {
		return nil, err
	}
	return eventOf(out), nil
}

// Cancel ends the Step or Backward of another goroutine with its micro-batch: ErrCancelled there.
func (t *Trainer) Cancel() error {
	var record *C.rl_error
	status := C.rl_trainer_cancel(t.ptr, &record)
	return outcome(status, &record, t)
}

// SetOptions takes over the values that may change between steps.
func (t *Trainer) SetOptions(options *Options) error {
	var record *C.rl_error
	status := C.rl_trainer_set_options(t.ptr, options.handle(), &record)
	return outcome(status, &record, t, options)
}

// Options are a copy of the options, as SetOptions has changed them.
func (t *Trainer) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_trainer_options(t.ptr, &out, &record), &out, &record, t)
}

// SetQueue sends the trainer's events to a queue from now on, with the number source; nil: nowhere.
// Steps with their metrics, publications and checkpoints are told.
func (t *Trainer) SetQueue(queue *EventQueue, source uint64) error {
	var record *C.rl_error
	status := C.rl_trainer_set_queue(t.ptr, queue.handle(), C.uint64_t(source), &record)
	return outcome(status, &record, t, queue)
}

// Save writes a checkpoint with a text of the host to a directory of them, of which the newest
// keepLast stay (0: all), and gives its own directory. With SaveReplace it takes the place of one
// of as many steps.
func (t *Trainer) Save(dir, state string, keepLast uint64, flags SaveFlags) (string, error) {
	var path *C.rl_bytes
	var record *C.rl_error
	var memory arena
	defer memory.free()
	var c C.rl_checkpoint
	C.rl_checkpoint_init(&c, C.sizeof_rl_checkpoint)
	c.dir, c.dir_len = memory.text(dir)
	c.state, c.state_len = memory.text(state)
	c.keep_last, c.flags = C.uint64_t(keepLast), C.uint64_t(flags)
	status := C.rl_trainer_save(t.ptr, &c, &path, &record)
	err := outcome(status, &record, t)
	return takenText(path), err
}

// Load goes on from a checkpoint, or from the newest one of a directory of them, and gives the text
// of the host.
func (t *Trainer) Load(path string) (string, error) {
	var state *C.rl_bytes
	var record *C.rl_error
	p, size := chars(path)
	status := C.rl_trainer_load(t.ptr, p, size, &state, &record)
	err := outcome(status, &record, t)
	return takenText(state), err
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

// Forward computes an output of the samples of a batch under the weights of the last step: of
// hidden states and logits the rows, which count the ids of all samples, or all of them if rows are
// none.
func (t *Trainer) Forward(output Output, batch *Batch, rows []uint64) (*Tensor, error) {
	var memory arena
	defer memory.free()
	f := memory.forward(output, batch, rows)
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_trainer_forward(t.ptr, &f, &out, &record)
	runtime.KeepAlive(t)
	runtime.KeepAlive(batch)
	return tensorOf(status, out, &record)
}

// Forward is as that of a trainer, for a model that was opened with UseForward.
func (m *Model) Forward(output Output, batch *Batch, rows []uint64) (*Tensor, error) {
	var memory arena
	defer memory.free()
	f := memory.forward(output, batch, rows)
	var out *C.rl_tensor
	var record *C.rl_error
	status := C.rl_model_forward(m.ptr, &f, &out, &record)
	runtime.KeepAlive(m)
	runtime.KeepAlive(batch)
	return tensorOf(status, out, &record)
}

func (a *arena) forward(output Output, batch *Batch, rows []uint64) C.rl_forward {
	var f C.rl_forward
	C.rl_forward_init(&f, C.sizeof_rl_forward)
	f.output, f.batch = C.int32_t(output), batch.handle()
	f.rows, f.num_rows = placed[C.uint64_t](a, rows), C.size_t(len(rows))
	return f
}

func (t *Trainer) forward(output Output, batch *Batch, ids []int32, numPrompt int,
	temperature float32) (*Tensor, error) {
	var memory arena
	defer memory.free()
	f := memory.forward(output, batch, nil)
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

// Sleep gives memory back between steps until Wake: optimizer states, averages and held gradients
// move to the host's memory.
func (t *Trainer) Sleep() error {
	var record *C.rl_error
	return outcome(C.rl_trainer_sleep(t.ptr, &record), &record, t)
}

// Wake brings everything back, bit for bit.
func (t *Trainer) Wake() error {
	var record *C.rl_error
	return outcome(C.rl_trainer_wake(t.ptr, &record), &record, t)
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
