// 4_grpo: trains a model by GRPO on questions whose answer is an integer. librl drives the loop,
// this host rewards: 1 when the last integer of an answer is the one in the row's tag, else 0.
// Held-out rows are answered greedily before and after. Ctrl-C ends the run with a checkpoint;
// --resume goes on from the newest one. With --ranks so many ranks share the work, each in a
// goroutine of its own, those of parallel.tensor, context and pipeline included; with --launcher
// this process is one of a run's ranks. New here: Pipeline, Events, Event.Sample, Model.Save,
// Runtime.CreateRank.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"librl/rl"
	"programs/launcher"
)

const (
	barWidth  = 30
	edgeSteps = 5
	maxSteps  = 10000
	maxRanks  = 64
)

const (
	stepS = iota
	reward
	rolloutRate
	trainRate
)

var seriesNames = []string{"timing_s/step", "critic/rewards/mean", "perf/rollout_tokens_per_s",
	"perf/train_tokens_per_s"}

type arguments struct {
	model, data, eval, out, steps string
	ranks, launcher, meeting      string
	settings                      []string
	resume                        bool
}

// A rank of this process.
type rank struct {
	runtime  *rl.Runtime
	model    *rl.Model
	pipeline *rl.Pipeline
}

type run struct {
	pipeline                      *rl.Pipeline
	place                         launcher.Place // rank 0 has metrics and files
	stopping, onTerminal          bool
	numEvals                      int
	start                         time.Time
	firstStepEndS, evalBeforeS    float64
	accuracyBefore, accuracyAfter float64
	logprobDiff                   float64
	series                        [4][]float64 // of every step of this process
	step, numAnswers, rewarded    uint64       // steps done; answers of a step; rewards given in it
}

const usage = "4_grpo --model M --data D [--eval E] --steps N --out DIR " +
	"[--set KEY=VALUE]... [--resume] " +
	"[--ranks N | --launcher torchrun|slurm|mpi|kubernetes|ray [--rendezvous PLACE]]"

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

func refuse(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(2)
}

// ---- pieces ----

func parse(words []string) (a arguments, good bool) {
	values := map[string]*string{"--model": &a.model, "--data": &a.data, "--eval": &a.eval,
		"--out": &a.out, "--steps": &a.steps, "--ranks": &a.ranks, "--launcher": &a.launcher,
		"--rendezvous": &a.meeting}
	for i := 0; i < len(words); i++ {
		value, known := values[words[i]]
		switch {
		case words[i] == "--resume":
			a.resume = true
		case i+1 < len(words) && known:
			i++
			*value = words[i]
		case i+1 < len(words) && words[i] == "--set":
			i++
			a.settings = append(a.settings, words[i])
		default:
			return a, false
		}
	}
	if a.launcher != "" && a.ranks != "" || a.launcher == "" && a.meeting != "" {
		return a, false
	}
	return a, a.model != "" && a.data != "" && a.out != "" && a.steps != ""
}

// either is a where the condition holds, else b.
func either(condition bool, a, b string) string {
	if condition {
		return a
	}
	return b
}

func configure(options *rl.Options, a arguments) {
	check(options.Set("model.path", a.model))
	check(options.Set("data.path", a.data))
	check(options.Set("eval.path", a.eval))
	check(options.Set("eval.every_steps", either(a.eval != "", a.steps, "0")))
	check(options.Set("pipeline.total_steps", a.steps))
	check(options.Set("parallel.data", either(a.ranks != "", a.ranks, "1")))
	ranks := must(options.GetUint("parallel.data"))
	check(options.Set("checkpoint.dir", filepath.Join(a.out, "checkpoints")))
	check(options.Set("checkpoint.resume", either(a.resume, "auto", "never")))
	check(options.Set("metrics.jsonl", filepath.Join(a.out, "metrics.jsonl")))
	check(options.Set("metrics.eval_jsonl",
		either(a.eval != "", filepath.Join(a.out, "evals.jsonl"), "")))
	check(options.Set("metrics.samples", filepath.Join(a.out, "samples.jsonl")))
	check(options.Set("metrics.tensorboard", "true"))
	check(options.Set("profiler.timeline.enable", "true"))
	check(options.Set("profiler.timeline.dir", a.out))
	for _, setting := range a.settings {
		check(options.SetAssignment(setting))
	}
	if a.ranks != "" {
		shareRanks(options, ranks)
	}
}

// product is that of the numbers of ranks of some axes.
func product(options *rl.Options, axes ...string) uint64 {
	ranks := uint64(1)
	for _, axis := range axes {
		ranks *= must(options.GetUint("parallel." + axis))
	}
	return ranks
}

// shareRanks sets parallel.data so that the axes make so many ranks.
func shareRanks(options *rl.Options, ranks uint64) {
	inner := product(options, "tensor", "context", "pipeline")
	if ranks%inner != 0 {
		refuse(fmt.Sprintf("4_grpo: %d ranks are not a multiple of parallel.tensor * "+
			"parallel.context * parallel.pipeline = %d", ranks, inner))
	}
	check(options.Set("parallel.data", fmt.Sprint(ranks/inner)))
}

// joinRun makes this process a rank of a run of several.
func joinRun(options *rl.Options, a arguments) launcher.Place {
	place, err := launcher.PlaceOf(a.launcher, a.meeting)
	if err != nil {
		refuse(fmt.Sprintf("4_grpo: launcher %s: %v", a.launcher, err))
	}
	if place.Ranks > 1 {
		shareRanks(options, place.Ranks)
		check(options.Set("comm.backend", "gloo"))
		check(options.Set("comm.rendezvous", place.Rendezvous))
		check(options.Set("comm.rank", fmt.Sprint(place.Rank)))
	}
	return place
}

func isTerminal(file *os.File) bool {
	var settings syscall.Termios
	_, _, code := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TCGETS,
		uintptr(unsafe.Pointer(&settings)))
	return code == 0
}

var integer = regexp.MustCompile(`-?[0-9]+`)

func rewardOf(text, tag string) float64 {
	found := integer.FindAllString(text, -1)
	if len(found) == 0 {
		return 0
	}
	last, err := strconv.ParseInt(found[len(found)-1], 10, 64)
	wanted, _ := strconv.ParseInt(tag, 10, 64)
	if err != nil || last != wanted {
		return 0
	}
	return 1
}

// ---- events ----

// rewardSample gives a sample its reward. A step that was given up takes no more rewards.
func rewardSample(pipeline *rl.Pipeline, sample *rl.Sample) error {
	err := pipeline.Score(sample.SampleID, rewardOf(sample.Text, sample.Tag))
	if errors.Is(err, rl.ErrLate) {
		return nil
	}
	return err
}

// serve is all that ranks but the first have to do: the samples that they generate need rewards.
func (r rank) serve() error {
	events := r.pipeline.Events(context.Background())
	var failed error
	for event := range events.C {
		if event.Kind() == rl.EventScore && failed == nil {
			sample, err := event.Sample()
			if err == nil {
				err = rewardSample(r.pipeline, sample)
			}
			failed = err
		}
		event.Close()
	}
	if failed != nil {
		return failed
	}
	return events.Err()
}

// together makes a call that ranks make together, each in a goroutine of its own.
func together(ranks []rank, call func(index int, r rank) error) error {
	results := make([]error, len(ranks))
	var group sync.WaitGroup
	for i := range ranks {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results[i] = call(i, ranks[i])
		}(i)
	}
	group.Wait()
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

func onScore(r *run, event *rl.Event) {
	sample := must(event.Sample())
	if err := rewardSample(r.pipeline, sample); !r.stopping {
		check(err)
	}
	if sample.Purpose != rl.PurposeTrain || !r.onTerminal {
		return
	}
	r.rewarded++
	bar := strings.Repeat("#", int(r.rewarded*barWidth/r.numAnswers))
	fmt.Printf("\rstep %d [%-*s] %d/%d", r.step+1, barWidth, bar, r.rewarded, r.numAnswers)
}

func onStep(r *run, event *rl.Event, step uint64) {
	i := len(r.series[stepS])
	if i == 0 {
		r.firstStepEndS = time.Since(r.start).Seconds() - r.evalBeforeS
	}
	r.rewarded = 0
	for k, name := range seriesNames {
		r.series[k] = append(r.series[k], must(event.Metric(name)))
	}
	if diff := must(event.Metric("training/logprob_max_abs_diff")); diff > r.logprobDiff {
		r.logprobDiff = diff
	}
	fmt.Printf("step %d  reward %.3f  %.2f s  rollout %.0f tokens/s  train %.0f tokens/s\n", step,
		r.series[reward][i], r.series[stepS][i], r.series[rolloutRate][i], r.series[trainRate][i])
}

func onEvent(r *run, event *rl.Event) {
	view := must(event.View())
	if view.Kind != rl.EventScore && r.onTerminal {
		fmt.Print("\r\033[K")
	}
	switch view.Kind {
	case rl.EventScore:
		onScore(r, event)
	case rl.EventStep:
		r.step = view.Step
		if r.place.Rank == 0 {
			onStep(r, event, view.Step)
		}
	}
	if view.Text != "" {
		fmt.Println(view.Text) // a checkpoint's path, why a group ended
	}
	if view.Kind == rl.EventEval {
		if r.numEvals++; r.numEvals == 1 {
			r.evalBeforeS, r.accuracyBefore = must(event.Metric("timing_s/eval")), view.Value
		} else {
			r.accuracyAfter = view.Value
		}
		fmt.Printf("held-out accuracy %.3f of %d questions\n", view.Value, view.Count)
	}
	event.Close()
}

// Serves the pipeline until it ends. Ctrl-C gives the current step up.
func serve(r *run) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	events := r.pipeline.Events(context.Background())
	for open := true; open; {
		select {
		case event, ok := <-events.C:
			if open = ok; ok {
				onEvent(r, event)
			}
		case <-interrupted:
			r.stopping = true
			if err := r.pipeline.Stop(0); !errors.Is(err, rl.ErrTimeout) {
				check(err)
			}
		}
	}
	check(events.Err())
}

// checkpoint writes one with the ranks that divide the first model; others have nothing to write.
func checkpoint(r *run, savers []rank) {
	paths := make([]string, len(savers))
	check(together(savers, func(i int, own rank) (err error) {
		paths[i], err = own.pipeline.Checkpoint(-1)
		return err
	}))
	if len(paths) > 0 {
		fmt.Printf("stopped after step %d: %s\n", r.step, paths[0])
	}
}

// ---- summary ----

func median(values []float64) float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	if len(sorted) == 0 {
		return -1
	}
	return 0.5 * (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2])
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return -1
	}
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

func number(key string, value float64) string { // below 0: not known
	if value < 0 {
		return fmt.Sprintf("  \"%s\": null,\n", key)
	}
	return fmt.Sprintf("  \"%s\": %.12g,\n", key, value)
}

func writeSummary(r *run, a arguments, plan rl.PlanInfo, digest, seed uint64) {
	rewards, diff := r.series[reward], r.logprobDiff
	n, edge := len(rewards), edgeSteps
	if n < edge {
		edge = n
	}
	if n == 0 {
		diff = -1
	}
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	text := "{\n" + number("steps", float64(r.step)) +
		number("step_s_median", median(r.series[stepS])) +
		number("first_step_end_s", r.firstStepEndS) +
		number("eval_before_s", r.evalBeforeS) +
		number("accuracy_before", r.accuracyBefore) +
		number("accuracy_after", r.accuracyAfter) +
		number("reward_first", mean(rewards[:edge])) +
		number("reward_last", mean(rewards[n-edge:])) +
		number("rollout_tokens_per_s", median(r.series[rolloutRate])) +
		number("train_tokens_per_s", median(r.series[trainRate])) +
		number("logprob_max_abs_diff", diff) +
		number("peak_rss_bytes", 1024*float64(usage.Maxrss)) +
		number("planned_bytes", float64(plan.TotalBytes)) +
		number("wall_s", time.Since(r.start).Seconds()) +
		number("threads", float64(plan.Threads)) +
		fmt.Sprintf("  \"weight_digest\": \"%016x\",\n  \"seed\": %d\n}\n", digest, seed)
	check(os.WriteFile(filepath.Join(a.out, "summary.json"), []byte(text), 0o666))
}

// ---- main ----

// copyOf says which copy of its part of the model a rank has.
func copyOf(rank, parts, copies uint64) uint64 { return rank / parts % copies }

// createRanks makes the objects of the ranks of this process: the first runtime makes the others.
func createRanks(options *rl.Options, place launcher.Place) []rank {
	count := product(options, "tensor", "context", "data", "pipeline")
	if place.Ranks > 1 {
		count = 1
	}
	if count > maxRanks {
		refuse(fmt.Sprintf("4_grpo: there are at most %d ranks", maxRanks))
	}
	ranks := make([]rank, count)
	for i := range ranks {
		if i == 0 {
			ranks[i].runtime = must(rl.NewRuntime(options))
		} else {
			ranks[i].runtime = must(ranks[0].runtime.CreateRank(uint32(i)))
		}
		ranks[i].model = must(ranks[i].runtime.Open(options, rl.UsePipeline))
		ranks[i].pipeline = must(ranks[i].model.NewPipeline(options))
	}
	return ranks
}

// endRanks ends them. Whether all with the same part of the model have the same weights.
func endRanks(ranks []rank, parts, copies uint64) bool {
	same := true
	digests := make([]uint64, len(ranks))
	for i, own := range ranks {
		digests[i] = must(own.model.Digest())
		same = same && digests[i] == digests[uint64(i)-copyOf(uint64(i), parts, copies)*parts]
		own.pipeline.Close()
		own.model.Close()
		own.runtime.Close()
	}
	return same
}

func main() {
	r := &run{start: time.Now(), firstStepEndS: -1, accuracyBefore: -1, accuracyAfter: -1}
	a, good := parse(os.Args[1:])
	if !good {
		refuse(usage)
	}
	r.onTerminal = isTerminal(os.Stdout)
	check(os.MkdirAll(a.out, 0o777))

	// Options and objects.
	options := must(rl.NewOptions())
	configure(options, a)
	r.place = launcher.Place{Ranks: 1}
	if a.launcher != "" {
		r.place = joinRun(options, a)
	}
	ranks := createRanks(options, r.place)
	first, parts := ranks[0], product(options, "tensor")
	copies := product(options, "context", "data")
	var savers []rank // that divide the first model
	for i, own := range ranks {
		if copyOf(r.place.Rank+uint64(i), parts, copies) == 0 {
			savers = append(savers, own)
		}
	}
	r.pipeline = first.pipeline
	plan := must(r.pipeline.Plan())
	info := must(plan.Info())
	total := must(options.GetUint("pipeline.total_steps"))
	if total < 1 || total > maxSteps {
		refuse("4_grpo: --steps must be 1 to 10000")
	}
	r.step = must(r.pipeline.Stats()).Step
	r.numAnswers = must(options.GetUint("pipeline.samples_per_prompt")) *
		must(options.GetUint("pipeline.prompts_per_step"))

	// Work.
	if a.eval != "" && r.place.Rank == 0 {
		check(r.pipeline.Evaluate())
	}
	for _, own := range ranks {
		check(own.pipeline.Start())
	}
	check(together(ranks, func(i int, own rank) error {
		if i > 0 {
			return own.serve()
		}
		serve(r)
		return nil
	}))
	if r.stopping || r.step < total && r.place.Ranks > 1 {
		checkpoint(r, savers) // perhaps another process was stopped
	}
	check(together(savers, func(_ int, own rank) error {
		return own.model.Save(filepath.Join(a.out, "model"), rl.DTypeBF16, rl.SaveReplace)
	}))
	digest := must(first.model.Digest())
	if r.place.Rank == 0 {
		writeSummary(r, a, info, digest, must(options.GetUint("runtime.seed")))
		check(r.pipeline.WriteReport(nil, filepath.Join(a.out, "report.html")))
	} else {
		fmt.Printf("rank %d: weights %016x\n", r.place.Rank, digest)
	}

	// Check.
	divided := must(options.GetInt("parallel.context")) > 1
	inRing := divided && must(options.GetString("parallel.context_kind")) == "ring"
	good = (r.stopping || r.step == total) && (r.logprobDiff == 0 || inRing) // they differ a little
	if !good {
		fmt.Fprintln(os.Stderr, "4_grpo: steps are missing or log-probs differ")
	}

	// End.
	plan.Close()
	if !endRanks(ranks, parts, copies) {
		good = false
		fmt.Fprintln(os.Stderr, "4_grpo: the weights of ranks differ")
	}
	options.Close()
	if !good {
		os.Exit(1)
	}
}
