package rl

import (
	"errors"
	"sort"
	"strings"
	"sync"
	"testing"
)

// A memoryStore is a queue in memory. fails is the error of its next call.
type memoryStore struct {
	mutex                   sync.Mutex
	ready, claimed, damaged map[string][]byte
	book                    []byte
	fails                   error
}

func newMemoryStore() *memoryStore {
	return &memoryStore{ready: map[string][]byte{}, claimed: map[string][]byte{},
		damaged: map[string][]byte{}}
}

func (m *memoryStore) locked(work func() error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.fails; err != nil {
		m.fails = nil
		return err
	}
	return work()
}

func (m *memoryStore) Put(name string, group []byte) error {
	return m.locked(func() error { m.ready[name] = group; return nil })
}

func (m *memoryStore) Claim(most uint64, found func(string, []byte) error) error {
	return m.locked(func() error {
		var tokens []string
		for token := range m.ready {
			tokens = append(tokens, token)
		}
		sort.Strings(tokens)
		for i := 0; i < len(tokens) && uint64(i) < most; i++ {
			token := tokens[i]
			m.claimed[token] = m.ready[token]
			delete(m.ready, token)
			if err := found(token, m.claimed[token]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *memoryStore) Recover() error {
	return m.locked(func() error {
		for token, group := range m.claimed {
			m.ready[token] = group
		}
		m.claimed = map[string][]byte{}
		return nil
	})
}

func (m *memoryStore) Acknowledge(token string) error {
	return m.locked(func() error { delete(m.claimed, token); return nil })
}

func (m *memoryStore) SetAside(token string) error {
	return m.locked(func() error {
		m.damaged[token] = m.claimed[token]
		delete(m.claimed, token)
		return nil
	})
}

func (m *memoryStore) ReadBook() (book []byte, err error) {
	err = m.locked(func() error { book = m.book; return nil })
	return book, err
}

func (m *memoryStore) WriteBook(book []byte) error {
	return m.locked(func() error { m.book = book; return nil })
}

// storedBuffer is a buffer on a store, into which it puts groups of one sample.
func storedBuffer(t *testing.T, store Store, ordinals ...uint64) *Buffer {
	t.Helper()
	options := value[*Options](t)(NewOptions())
	defer options.Close()
	ok(t, options.SetAssignment("pipeline.samples_per_prompt=1"))
	buffer := value[*Buffer](t)(NewStoredBuffer(options, 16, store))
	for _, ordinal := range ordinals {
		ok(t, buffer.Put(&Sample{IDs: []int32{1, 2, 3}, NumPrompt: 1, Ordinal: ordinal,
			SampleID: ordinal + 1, Temperature: 1, Scored: true}))
	}
	return buffer
}

func takenFrom(t *testing.T, buffer *Buffer, step uint64) int {
	t.Helper()
	batch := value[*Batch](t)(buffer.TryTake(Groups{Step: step}))
	defer batch.Close()
	return batch.Count()
}

func TestGroupsGoThroughAStoreOfTheHostOnce(t *testing.T) {
	store := newMemoryStore()
	sampler, trainer := storedBuffer(t, store, 0, 1, 2), storedBuffer(t, store)
	defer sampler.Close()
	if count := takenFrom(t, trainer, 1); count != 3 || len(store.claimed) != 3 {
		t.Error(count, len(store.claimed))
	}
	trainer.Close() // it died before the step was durable
	trainer = storedBuffer(t, store)
	defer trainer.Close()
	ok(t, trainer.Resume(0))
	if count := takenFrom(t, trainer, 1); count != 3 {
		t.Error(count)
	}
	ok(t, trainer.Acknowledge(1))
	if len(store.claimed) != 0 {
		t.Error(len(store.claimed))
	}
	storedBuffer(t, store, 1).Close()
	_, err := trainer.TryTake(Groups{Step: 2})
	expect(t, err, ErrTimeout)
	stats := value[BufferStats](t)(trainer.Stats())
	if stats.DuplicateGroups != 1 || stats.AcknowledgedGroups != 3 {
		t.Errorf("%+v", stats)
	}
	storedBuffer(t, store, 9).Close()
	for token := range store.ready {
		store.ready[token][60] ^= 1
	}
	_, err = trainer.TryTake(Groups{Step: 2})
	expect(t, err, ErrDataLoss)
	if len(store.damaged) != 1 {
		t.Error(store.damaged)
	}
}

type panickingStore struct{ *memoryStore }

func (panickingStore) WriteBook([]byte) error { panic("no ink") }

func TestErrorsAndPanicsOfAStoreFailTheCall(t *testing.T) {
	store := newMemoryStore()
	buffer := storedBuffer(t, store, 0)
	defer buffer.Close()
	store.fails = errors.New("the queue is gone")
	_, err := buffer.TryTake(Groups{Step: 1})
	expect(t, err, ErrIO)
	if !strings.Contains(err.Error(), "the queue is gone") {
		t.Error(err)
	}
	other := storedBuffer(t, panickingStore{store})
	defer other.Close()
	_, err = other.TryTake(Groups{Step: 1})
	expect(t, err, ErrIO)
	if !strings.Contains(err.Error(), "no ink") {
		t.Error(err)
	}
}
