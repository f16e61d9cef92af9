package rl

/*
#include "rl.h"
*/
import "C"

import "runtime"

// Conversation is a sample whose tokens come in turn from the model and from an environment.
type Conversation struct{ ptr *C.rl_conversation }

// ConversationInfo says where a conversation stands.
type ConversationInfo struct {
	SampleID   uint64 // the same in all turns
	Ordinal    uint64 // of its group: the conversations forked from one another
	Slot       uint32
	Generating bool // a turn is drawn, and what follows is as before it
	NumIDs     uint64
	NumTurns   uint64 // of the model, that ended
	Finish     Finish // of the last of them
}

// Prompt is what a conversation begins with.
type Prompt struct {
	IDs      []int32
	Tag      string  // for the conversation and its forks, returned unread
	Ordinal  *uint64 // of its group; nil: librl chooses
	SampleID uint64  // 0: librl chooses
}

// NewConversation begins with a prompt of token ids.
func (e *Engine) NewConversation(ids []int32) (*Conversation, error) {
	return e.NewConversationOf(Prompt{IDs: ids})
}

// NewConversationOf begins with a prompt that says what its sample is called.
func (e *Engine) NewConversationOf(start Prompt) (*Conversation, error) {
	var out *C.rl_conversation
	var record *C.rl_error
	var memory arena
	defer memory.free()
	prompt := memory.content(start.IDs)
	prompt.tag, prompt.tag_len = memory.text(start.Tag)
	if start.Ordinal != nil {
		prompt.ordinal = C.uint64_t(*start.Ordinal)
	}
	prompt.sample_id = C.uint64_t(start.SampleID)
	status := C.rl_conversation_create(e.ptr, &prompt, &out, &record)
	return conversationOf(status, &out, &record, e)
}

// Fork is another conversation with the tokens so far, in the next slot of the group.
func (c *Conversation) Fork() (*Conversation, error) {
	var out *C.rl_conversation
	var record *C.rl_error
	return conversationOf(C.rl_conversation_fork(c.ptr, &out, &record), &out, &record, c)
}

func conversationOf(status C.rl_status, out **C.rl_conversation, record **C.rl_error,
	used ...any) (*Conversation, error) {
	if err := outcome(status, record, used...); err != nil {
		return nil, err
	}
	return backstop(&Conversation{*out}, (*Conversation).Close), nil
}

// Close ends the handle; a turn under way is aborted.
func (c *Conversation) Close() {
	if c != nil {
		C.rl_conversation_destroy(c.ptr)
		runtime.KeepAlive(c)
	}
}

// Append adds tokens of the environment.
func (c *Conversation) Append(ids []int32) error {
	var record *C.rl_error
	var memory arena
	defer memory.free()
	content := memory.content(ids)
	return outcome(C.rl_conversation_append(c.ptr, &content, &record), &record, c)
}

// Generate queues a turn of the model. sampling may be nil: that of the engine.
func (c *Conversation) Generate(sampling *Options, priority int64) error {
	var record *C.rl_error
	var turn C.rl_turn
	C.rl_turn_init(&turn, C.sizeof_rl_turn)
	turn.sampling, turn.priority = sampling.handle(), C.int64_t(priority)
	status := C.rl_conversation_generate(c.ptr, &turn, &record)
	return outcome(status, &record, c, sampling)
}

// Info says where the conversation stands.
func (c *Conversation) Info() (ConversationInfo, error) {
	var info C.rl_conversation_info
	var record *C.rl_error
	C.rl_conversation_info_init(&info, C.sizeof_rl_conversation_info)
	status := C.rl_conversation_get_info(c.ptr, &info, &record)
	return ConversationInfo{
		SampleID:   uint64(info.sample_id),
		Ordinal:    uint64(info.ordinal),
		Slot:       uint32(info.slot),
		Generating: info.generating == 1,
		NumIDs:     uint64(info.num_ids),
		NumTurns:   uint64(info.num_turns),
		Finish:     Finish(info.finish),
	}, outcome(status, &record, c)
}

// Sample is a copy of the sample so far, as a batch of one.
func (c *Conversation) Sample() (*Batch, error) {
	var out *C.rl_batch
	var record *C.rl_error
	return batchOf(C.rl_conversation_sample(c.ptr, &out, &record), &out, &record, c)
}

// content is what a conversation takes, with its ids in the arena.
func (a *arena) content(ids []int32) C.rl_content {
	var content C.rl_content
	C.rl_content_init(&content, C.sizeof_rl_content)
	content.ids, content.num_ids = placed[C.int32_t](a, ids), C.size_t(len(ids))
	return content
}
