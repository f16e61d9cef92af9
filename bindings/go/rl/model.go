package rl

/*
#include "rl.h"
*/
import "C"

import "encoding/json"

// Model has weights, tokenizer and chat format, which engines, trainers and pipelines made from it
// share.
type Model struct {
	ptr *C.rl_model
	guard
}

// ModelInfo has shape and abilities.
type ModelInfo struct {
	Family       string
	Vocab        int64 // rows of the embedding
	Hidden       int64
	Layers       int64
	Heads        int64 // query heads
	KVHeads      int64
	HeadDim      int64
	FFN          int64
	MaxPosition  int64 // longest sequence of the model's configuration, tokens
	BosID, PadID int64 // -1 when there is none
	DType        DType // of the matrix products
	HasTokenizer bool
	TiedHead     bool // the head shares the embedding's weights
}

// Message is a turn of a chat.
type Message struct{ Role, Content string }

// Close ends the handle. The model itself ends with the last object made from it.
func (m *Model) Close() {
	if m != nil {
		defer m.ending()()
		C.rl_model_destroy(m.ptr)
	}
}

// Options are a copy of the options that the model was opened with.
func (m *Model) Options() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_model_options(m.ptr, &out, &record), &out, &record, m)
}

func (m *Model) handle() *C.rl_model {
	if m == nil {
		return nil
	}
	return m.ptr
}

// Info has shape and abilities.
func (m *Model) Info() (ModelInfo, error) {
	defer m.reading()()
	var info C.rl_model_info
	var record *C.rl_error
	C.rl_model_info_init(&info, C.sizeof_rl_model_info)
	status := C.rl_model_get_info(m.ptr, &info, &record)
	return ModelInfo{
		Family:       C.GoString(info.family),
		Vocab:        int64(info.vocab),
		Hidden:       int64(info.hidden),
		Layers:       int64(info.layers),
		Heads:        int64(info.heads),
		KVHeads:      int64(info.kv_heads),
		HeadDim:      int64(info.head_dim),
		FFN:          int64(info.ffn),
		MaxPosition:  int64(info.max_position),
		BosID:        int64(info.bos_id),
		PadID:        int64(info.pad_id),
		DType:        DType(info.dtype),
		HasTokenizer: info.has_tokenizer == 1,
		TiedHead:     info.tied_head == 1,
	}, outcome(status, &record, m)
}

// Save writes a Hugging Face directory, complete by one rename or not at all.
func (m *Model) Save(dir string, dtype DType, flags SaveFlags) error {
	var record *C.rl_error
	d, size := chars(dir)
	status := C.rl_model_save(m.ptr, d, size, C.int32_t(dtype), C.uint64_t(flags), &record)
	return outcome(status, &record, m)
}

// Encode is the token ids of a text. Flags: TextAddSpecial, TextAllowSpecial.
func (m *Model) Encode(text string, flags TextFlags) ([]int32, error) {
	var ids *C.rl_bytes
	var record *C.rl_error
	t, length := chars(text)
	status := C.rl_model_encode(m.ptr, t, length, C.uint64_t(flags), &ids, &record)
	return taken[int32](ids), outcome(status, &record, m)
}

// Decode is the text of token ids. Flags: TextSkipSpecial.
func (m *Model) Decode(ids []int32, flags TextFlags) (string, error) {
	var text *C.rl_bytes
	var record *C.rl_error
	status := C.rl_model_decode(m.ptr, first[C.int32_t](ids), C.size_t(len(ids)),
		C.uint64_t(flags), &text, &record)
	return takenText(text), outcome(status, &record, m)
}

// EncodeChat is the token ids of a chat in the model's chat format. Flags: TextGenerationPrompt.
func (m *Model) EncodeChat(messages []Message, flags TextFlags) ([]int32, error) {
	type entry struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	entries := make([]entry, len(messages))
	for i, message := range messages {
		entries[i] = entry(message)
	}
	chat, err := json.Marshal(map[string][]entry{"messages": entries})
	if err != nil {
		return nil, err
	}
	return m.EncodeChatJSON(string(chat), flags)
}

// EncodeChatJSON is the same for a chat given as one JSON object.
func (m *Model) EncodeChatJSON(chat string, flags TextFlags) ([]int32, error) {
	var ids *C.rl_bytes
	var record *C.rl_error
	t, length := chars(chat)
	status := C.rl_model_encode_chat(m.ptr, t, length, C.uint64_t(flags), &ids, &record)
	return taken[int32](ids), outcome(status, &record, m)
}

// RenderChat is the text of such a chat.
func (m *Model) RenderChat(chat string, flags TextFlags) (string, error) {
	var text *C.rl_bytes
	var record *C.rl_error
	t, length := chars(chat)
	status := C.rl_model_render_chat(m.ptr, t, length, C.uint64_t(flags), &text, &record)
	return takenText(text), outcome(status, &record, m)
}

// EosIDs are the ids that end an answer.
func (m *Model) EosIDs() ([]int32, error) {
	var ids *C.rl_bytes
	var record *C.rl_error
	status := C.rl_model_eos_ids(m.ptr, &ids, &record)
	return taken[int32](ids), outcome(status, &record, m)
}

// Version of the weights: 0 as loaded, one more with each publication.
func (m *Model) Version() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_model_version(m.ptr, &out, &record)
	return uint64(out), outcome(status, &record, m)
}

// Digest of all fp32 parameters: equal weights give equal digests.
func (m *Model) Digest() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_model_digest(m.ptr, &out, &record)
	return uint64(out), outcome(status, &record, m)
}

// ---- what is made from a model; options may be nil: those of the model ----

// NewEngine reserves KV pool and workspace.
func (m *Model) NewEngine(options *Options) (*Engine, error) {
	var out *C.rl_engine
	var record *C.rl_error
	status := C.rl_engine_create(m.ptr, options.handle(), &out, &record)
	if err := outcome(status, &record, m, options); err != nil {
		return nil, err
	}
	return backstop(&Engine{out}, (*Engine).Close), nil
}

// NewTrainer reserves gradients, optimizer states and workspace. The model was opened with
// UseTrain.
func (m *Model) NewTrainer(options *Options) (*Trainer, error) {
	var out *C.rl_trainer
	var record *C.rl_error
	status := C.rl_trainer_create(m.ptr, options.handle(), &out, &record)
	if err := outcome(status, &record, m, options); err != nil {
		return nil, err
	}
	return backstop(&Trainer{out, &failures{}, newTurn()}, (*Trainer).Close), nil
}

// NewPipeline reserves all memory, opens the data files and resumes as checkpoint.resume says. The
// model was opened with UsePipeline. Nothing runs before Start.
func (m *Model) NewPipeline(options *Options) (*Pipeline, error) {
	var out *C.rl_pipeline
	var record *C.rl_error
	status := C.rl_pipeline_create(m.ptr, options.handle(), &out, &record)
	if err := outcome(status, &record, m, options); err != nil {
		return nil, err
	}
	return backstop(newPipeline(out), (*Pipeline).Close), nil
}
