package rl

import (
	"context"
	"testing"
)

func TestTurnsAreAnsweredWithIDsAndFinished(t *testing.T) {
	p := newHost(t, UsePipeline, "pipeline.turns=always").pipeline(1)
	ok(t, p.Start())
	turns, scored := 0, 0
	events := p.Events(context.Background())
	for event := range events.C {
		view := value[EventView](t)(event.View())
		switch view.Kind {
		case EventTurn:
			turns++
			id := value[*Sample](t)(event.Sample()).SampleID
			reply := Reply{SampleID: id, Turn: view.Count, IDs: []int32{7, 9}}
			if view.Count == 2 {
				_, err := p.Reply(Reply{SampleID: id, Text: "a"})
				expect(t, err, ErrFailedPrecondition)
				reply = Reply{SampleID: id, Turn: view.Count, Finish: true}
			}
			if _, err := p.Reply(reply); err != nil {
				t.Fatal(err)
			}
		case EventScore:
			scored++
			sample, zeros := value[*Sample](t)(event.Sample()), 0
			for _, mask := range sample.LossMask {
				if mask == 0 {
					zeros++
				}
			}
			if zeros != 2 {
				t.Errorf("%d tokens without loss", zeros)
			}
			ok(t, p.Score(sample.SampleID, float64(sample.Slot)))
		}
		event.Close()
	}
	ok(t, events.Err())
	if scored != 2 || turns != 4 {
		t.Errorf("%d samples with %d turns", scored, turns)
	}
}

func TestAGroupComesWhole(t *testing.T) {
	p := newHost(t, UsePipeline, "pipeline.score_events=group").pipeline(1)
	ok(t, p.Start())
	groups := 0
	events := p.Events(context.Background())
	for event := range events.C {
		if event.Kind() == EventGroup {
			groups++
			for i, sample := range value[[]*Sample](t)(event.Samples()) {
				if int(sample.Slot) != i {
					t.Errorf("slot %d is sample %d", sample.Slot, i)
				}
				ok(t, p.Score(sample.SampleID, float64(i)))
			}
		}
		event.Close()
	}
	ok(t, events.Err())
	if groups != 1 {
		t.Errorf("%d groups", groups)
	}
}

func TestAnEngineTellsOfItsSamples(t *testing.T) {
	engine := newHost(t, UseGenerate).engine()
	queue := value[*EventQueue](t)(NewEventQueue())
	defer queue.Close()
	ok(t, engine.SetQueue(queue, 3))
	id := value[uint64](t)(engine.Submit(Request{Prompt: []int32{1, 2, 3}}))
	ok(t, engine.Run(context.Background()))
	event := value[*Event](t)(queue.Next(context.Background()))
	defer event.Close()
	view := value[EventView](t)(event.View())
	if view.Kind != EventFinished || view.Source != 3 {
		t.Errorf("kind %v of source %d", view.Kind, view.Source)
	}
	if sample := value[*Sample](t)(event.Sample()); sample.SampleID != id {
		t.Errorf("sample %d, not %d", sample.SampleID, id)
	}
	ok(t, queue.Interrupt())
	if _, err := queue.Next(context.Background()); err != ErrInterrupted {
		t.Errorf("%v instead of an interrupt", err)
	}
	ok(t, engine.SetQueue(nil, 0))
}
