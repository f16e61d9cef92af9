package rl

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestAnErrorHasItsFields(t *testing.T) {
	options := value[*Options](t)(NewOptions())
	defer options.Close()
	err := options.Set("engine.blok_size", "64")
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatalf("%T is no *Error", err)
	}
	if failure.Code != ErrUnknownOption || failure.Key != "engine.blok_size" ||
		failure.Message == "" || len(failure.Nearest) == 0 ||
		failure.Nearest[0] != "engine.block_size" || failure.SystemCode != 0 ||
		err.Error() != failure.Summary {
		t.Errorf("%+v", failure)
	}
	if !errors.Is(err, ErrUnknownOption) || errors.Is(err, ErrOutOfRange) ||
		errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is compares codes")
	}
	err = options.Set("engine.block_size", "63")
	if !errors.As(err, &failure) || failure.Expected == "" {
		t.Errorf("%v says nothing of what would be right", err)
	}
}

func TestSeveralErrorsArePartsOfOne(t *testing.T) {
	options := value[*Options](t)(NewOptions())
	defer options.Close()
	var failure *Error
	err := options.ImportJSON(`{"options": {"optimizer.lr": -1, "engine.blok_size": 64}}`)
	if !errors.As(err, &failure) || len(failure.Parts) != 2 {
		t.Fatalf("%v has no two parts", err)
	}
	for _, part := range failure.Parts {
		if part.Location == "" || part.Code == OK {
			t.Errorf("%+v", part)
		}
	}
}

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	_, err := ReadBufferFileInfo("nowhere.rlbuf")
	expect(t, err, ErrNotFound)
	var failure *Error
	if !errors.As(err, &failure) || !strings.Contains(failure.Location, "nowhere.rlbuf") ||
		failure.SystemCode != int32(syscall.ENOENT) {
		t.Errorf("%+v", failure)
	}
}

func TestAResultIsAPlainCode(t *testing.T) {
	buffer := value[*Buffer](t)(NewBuffer(nil, 64))
	defer buffer.Close()
	batch, err := buffer.TryTake(Groups{})
	if err != ErrTimeout || batch != nil {
		t.Errorf("%v, %v", batch, err)
	}
	if text := err.Error(); text != "RL_TIMEOUT" {
		t.Error(text)
	}
}

func TestEveryResultHasItsCode(t *testing.T) {
	h := newHost(t, UseParts)
	engine, trainer, batch := h.engine(), h.trainer(), h.scored()
	take := func(wanted error) {
		t.Helper()
		if batch, err := engine.Take(); err != wanted || batch != nil {
			t.Errorf("%v, %v instead of %v", batch, err, wanted)
		}
	}
	take(ErrIdle)
	expect(t, engine.Step(), ErrIdle)
	value[uint64](t)(engine.Submit(Request{Prompt: []int32{1, 2, 3}}))
	take(ErrWouldBlock)
	ok(t, engine.Pause())
	if err := engine.Run(context.Background()); err != ErrPaused {
		t.Error(err)
	}
	ok(t, engine.Unpause())
	_, err := trainer.Step(context.Background(), batch, nil) // while requests run
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != ErrBusy || errors.Is(err, ErrTimeout) {
		t.Errorf("%v is no failure", err)
	}
	ok(t, engine.Step())
	if err := engine.TryDrain(); err != ErrTimeout {
		t.Error(err)
	}
	ok(t, engine.Drain(context.Background()))
	ok(t, engine.Unpause())
}

func TestALibraryOfAnotherVersionIsAnErrorAndNoPanic(t *testing.T) {
	versionError = incompatible(1, 2)
	defer func() { versionError = nil }()
	_, err := NewOptions()
	expect(t, err, ErrIncompatible)
	_, err = NewRuntime(nil)
	expect(t, err, ErrIncompatible)
	_, err = NewBuffer(nil, 64)
	expect(t, err, ErrIncompatible)
	if text := err.Error(); !strings.Contains(text, "rl.h 0.1") || !strings.Contains(text, "0.2") {
		t.Error(text)
	}
}

func TestALibraryServesHeadersOfItsVersionAndFrom1OnEarlierMinorOnes(t *testing.T) {
	for _, c := range []struct {
		header, library uint32
		serves          bool
	}{{1, 1, true}, {1, 2, false}, {2, 1, false}, {1, 1<<16 | 1, false}, {1 << 16, 1, false},
		{1 << 16, 1<<16 | 1, true}, {1<<16 | 2, 1<<16 | 1, false}, {1 << 16, 2 << 16, false}} {
		err := incompatible(c.header, c.library)
		if (err == nil) != c.serves {
			t.Errorf("header %#x, library %#x: %v", c.header, c.library, err)
		}
	}
}

func TestConstantsAreThoseOfTheLibrary(t *testing.T) {
	for name, mine := range map[string]int64{
		"RL_NON_FINITE": int64(ErrNonFinite), "RL_EVENT_ENGINE_STATS": int64(EventEngineStats),
		"RL_STATE_FAILED": int64(StateFailed), "RL_DROP_SHUTDOWN": int64(DropShutdown),
		"RL_OPTION_NOT_EMPTY": int64(OptionNotEmpty), "RL_USE_PIPELINE": int64(UsePipeline),
		"RL_TEXT_GENERATION_PROMPT": int64(TextGenerationPrompt),
	} {
		if theirs := value[int64](t)(Constant(name)); theirs != mine {
			t.Errorf("%s is %d, not %d", name, theirs, mine)
		}
	}
	_, err := Constant("RL_NOTHING")
	expect(t, err, ErrNotFound)
}
