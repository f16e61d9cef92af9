// 2_generate: asks a model a question and prints several answers.
//
//	2_generate MODEL [QUESTION]        MODEL is a Hugging Face directory or a GGUF file
//
// New here: rl.NewRuntime, Runtime.Open, Model.EncodeChat, Engine.Submit, Engine.Run, Engine.Take,
// Batch.Sample, Model.Decode.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"librl/rl"
)

const numAnswers = 4

// ---- errors ----

func check(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// ---- pieces ----

// The question as token ids: as a chat when the model has a chat format that librl knows, else as
// plain text.
func encode(model *rl.Model, question string) []int32 {
	chat := []rl.Message{{Role: "user", Content: question}}
	ids, err := model.EncodeChat(chat, rl.TextGenerationPrompt)
	var failure *rl.Error
	if !errors.As(err, &failure) {
		return ids
	}
	if failure.Code != rl.ErrUnsupported && failure.Code != rl.ErrFailedPrecondition {
		check(err)
	}
	fmt.Printf("(no chat: %s)\n", failure.Message)
	return must(model.Encode(question, 0))
}

// An answer ends where the model ends its turn.
func stopAtEndOfTurn(options *rl.Options, model *rl.Model) {
	var stops []int64
	for _, id := range must(model.EosIDs()) {
		stops = append(stops, int64(id))
	}
	check(options.SetInts("sampling.stop_token_ids", stops))
}

// Prints an answer with its mean log-prob. True when the sample is whole.
func printAnswer(model *rl.Model, batch *rl.Batch, index int) bool {
	sample := must(batch.Sample(index))
	sum, count := 0.0, sample.NumGenerated()
	for _, logprob := range sample.Logprobs {
		sum += float64(logprob)
	}
	text := must(model.Decode(sample.IDs[sample.NumPrompt:], rl.TextSkipSpecial))
	fmt.Printf("response %d, %d tokens, log-prob %.3f per token: %s\n", sample.Slot, count,
		sum/float64(count), text)
	return count > 0 && sum <= 0 && sample.Finish != rl.FinishAborted
}

// ---- main ----

func main() {
	question := "What is 7 + 5? Answer with the number only."
	if len(os.Args) > 2 {
		question = os.Args[2]
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: 2_generate MODEL [QUESTION]")
		os.Exit(2)
	}

	// Options and objects.
	options := must(rl.NewOptions())
	check(options.Set("model.path", os.Args[1]))
	check(options.Set("engine.max_num_seqs", "4"))
	check(options.Set("sampling.temperature", "0.7"))
	check(options.Set("sampling.max_new_tokens", "32"))
	runtime := must(rl.NewRuntime(options))
	model := must(runtime.Open(options, rl.UseGenerate))
	stopAtEndOfTurn(options, model)
	engine := must(model.NewEngine(options))

	// Work.
	prompt := encode(model, question)
	must(engine.Submit(rl.Request{Prompt: prompt, NumSamples: numAnswers}))
	check(engine.Run(context.Background()))
	batch := must(engine.Take())
	good := 0
	for i := 0; i < batch.Count(); i++ {
		if printAnswer(model, batch, i) {
			good++
		}
	}

	// Check.
	if good != numAnswers {
		fmt.Fprintf(os.Stderr, "2_generate: %d of %d responses are complete\n", good, numAnswers)
	}

	// End: any order will do.
	model.Close()
	runtime.Close()
	options.Close()
	engine.Close()
	batch.Close()
	if good != numAnswers {
		os.Exit(1)
	}
}
