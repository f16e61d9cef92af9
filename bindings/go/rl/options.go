package rl

/*
#include "rl.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Options hold a value for each option that the library knows; docs/options.md lists them. Objects
// copy the set they are made with. Where a parameter of another function may be nil, rl.h says what
// holds then.
type Options struct{ ptr *C.rl_options }

// NewOptions is a set with every option at its default.
func NewOptions() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_options_create(&out, &record), &out, &record)
}

// Clone is an independent copy, which is not frozen.
func (o *Options) Clone() (*Options, error) {
	var out *C.rl_options
	var record *C.rl_error
	return optionsOf(C.rl_options_clone(o.handle(), &out, &record), &out, &record, o)
}

func optionsOf(status C.rl_status, out **C.rl_options, record **C.rl_error,
	used ...any) (*Options, error) {
	if err := outcome(status, record, used...); err != nil {
		return nil, err
	}
	return backstop(&Options{*out}, (*Options).Close), nil
}

// Close ends the set. Objects made from it are not concerned.
func (o *Options) Close() {
	C.rl_options_destroy(o.handle())
	runtime.KeepAlive(o)
}

func (o *Options) handle() *C.rl_options {
	if o == nil {
		return nil
	}
	return o.ptr
}

// ---- setters ----

// Set takes a value of any type from text: "true", "12", "3e-6", "30s", "2GiB", "a,b,c".
func (o *Options) Set(key, text string) error {
	var record *C.rl_error
	k, size := chars(key)
	t, length := chars(text)
	return outcome(C.rl_options_set_text(o.handle(), k, size, t, length, &record), &record, o)
}

// SetAssignment takes "key=value", as command lines have it.
func (o *Options) SetAssignment(text string) error {
	var record *C.rl_error
	t, length := chars(text)
	return outcome(C.rl_options_set_assignment(o.handle(), t, length, &record), &record, o)
}

// SetBool sets a truth value.
func (o *Options) SetBool(key string, value bool) error {
	var record *C.rl_error
	k, size := chars(key)
	return outcome(C.rl_options_set_bool(o.handle(), k, size, truth(value), &record), &record, o)
}

// SetInt sets an integer option of any type, as SetUint does.
func (o *Options) SetInt(key string, value int64) error {
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_set_i64(o.handle(), k, size, C.int64_t(value), &record)
	return outcome(status, &record, o)
}

// SetUint sets an integer option of any type.
func (o *Options) SetUint(key string, value uint64) error {
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_set_u64(o.handle(), k, size, C.uint64_t(value), &record)
	return outcome(status, &record, o)
}

// SetFloat sets a number.
func (o *Options) SetFloat(key string, value float64) error {
	var record *C.rl_error
	k, size := chars(key)
	return outcome(C.rl_options_set_f64(o.handle(), k, size, C.double(value), &record), &record, o)
}

// SetString sets a text or a choice.
func (o *Options) SetString(key, value string) error {
	var record *C.rl_error
	k, size := chars(key)
	v, length := chars(value)
	return outcome(C.rl_options_set_string(o.handle(), k, size, v, length, &record), &record, o)
}

// SetStrings sets a list of texts.
func (o *Options) SetStrings(key string, values []string) error {
	var record *C.rl_error
	var memory arena
	defer memory.free()
	k, size := chars(key)
	starts, sizes := memory.texts(values)
	status := C.rl_options_set_string_list(o.handle(), k, size, starts, sizes,
		C.size_t(len(values)), &record)
	return outcome(status, &record, o)
}

// SetInts sets a list of integers.
func (o *Options) SetInts(key string, values []int64) error {
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_set_i64_list(o.handle(), k, size, first[C.int64_t](values),
		C.size_t(len(values)), &record)
	return outcome(status, &record, o)
}

// Unset goes back to the default.
func (o *Options) Unset(key string) error {
	var record *C.rl_error
	k, size := chars(key)
	return outcome(C.rl_options_unset(o.handle(), k, size, &record), &record, o)
}

// ApplyPreset sets all values of a preset, or none.
func (o *Options) ApplyPreset(name string) error {
	var record *C.rl_error
	n, size := chars(name)
	return outcome(C.rl_options_apply_preset(o.handle(), n, size, &record), &record, o)
}

// Freeze makes every later change of this set ErrNotChangeable.
func (o *Options) Freeze() error {
	var record *C.rl_error
	return outcome(C.rl_options_freeze(o.handle(), &record), &record, o)
}

// IsFrozen says whether the set is.
func (o *Options) IsFrozen() (bool, error) {
	var out C.uint32_t
	var record *C.rl_error
	status := C.rl_options_is_frozen(o.handle(), &out, &record)
	return out == 1, outcome(status, &record, o)
}

// Validate checks combinations of options; several violations are the Parts of one error.
func (o *Options) Validate() error {
	var record *C.rl_error
	return outcome(C.rl_options_validate(o.handle(), &record), &record, o)
}

// ---- getters ----

// GetText is a value of any type as Set reads it back.
func (o *Options) GetText(key string) (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_text(o.handle(), k, size, &out, &record)
	return takenText(out), outcome(status, &record, o)
}

// GetBool is a truth value.
func (o *Options) GetBool(key string) (bool, error) {
	var out C.uint32_t
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_bool(o.handle(), k, size, &out, &record)
	return out == 1, outcome(status, &record, o)
}

// GetInt reads an integer option of any type whose value fits, as GetUint does.
func (o *Options) GetInt(key string) (int64, error) {
	var out C.int64_t
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_i64(o.handle(), k, size, &out, &record)
	return int64(out), outcome(status, &record, o)
}

// GetUint reads an integer option of any type whose value fits.
func (o *Options) GetUint(key string) (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_u64(o.handle(), k, size, &out, &record)
	return uint64(out), outcome(status, &record, o)
}

// GetFloat is a number.
func (o *Options) GetFloat(key string) (float64, error) {
	var out C.double
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_f64(o.handle(), k, size, &out, &record)
	return float64(out), outcome(status, &record, o)
}

// GetString is a text or a choice.
func (o *Options) GetString(key string) (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_string(o.handle(), k, size, &out, &record)
	return takenText(out), outcome(status, &record, o)
}

// GetStrings is a list of texts.
func (o *Options) GetStrings(key string) ([]string, error) {
	return list(o, key, func(k *C.char, size, i C.size_t,
		record **C.rl_error) (string, C.rl_status) {
		var out *C.rl_bytes
		status := C.rl_options_get_list_string(o.handle(), k, size, i, &out, record)
		return takenText(out), status
	})
}

// GetInts is a list of integers.
func (o *Options) GetInts(key string) ([]int64, error) {
	return list(o, key, func(k *C.char, size, i C.size_t,
		record **C.rl_error) (int64, C.rl_status) {
		var out C.int64_t
		status := C.rl_options_get_list_i64(o.handle(), k, size, i, &out, record)
		return int64(out), status
	})
}

// list asks for every element of a list option.
func list[T any](o *Options, key string,
	element func(k *C.char, size, i C.size_t, record **C.rl_error) (T, C.rl_status)) ([]T, error) {
	var count C.size_t
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_get_list_size(o.handle(), k, size, &count, &record)
	if err := outcome(status, &record, o); err != nil {
		return nil, err
	}
	values := make([]T, count)
	for i := range values {
		values[i], status = element(k, size, C.size_t(i), &record)
		if err := outcome(status, &record, o); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// IsDefault says whether the value equals the default.
func (o *Options) IsDefault(key string) (bool, error) {
	var out C.uint32_t
	var record *C.rl_error
	k, size := chars(key)
	status := C.rl_options_is_default(o.handle(), k, size, &out, &record)
	return out == 1, outcome(status, &record, o)
}

// ---- whole sets ----

// Dump is lines "key=value": all options, or those that differ from their default.
func (o *Options) Dump(onlyChanged bool) (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_options_dump(o.handle(), truth(onlyChanged), &out, &record)
	return takenText(out), outcome(status, &record, o)
}

// Diff is lines "key=value" for the options in which the sets differ, with the values of other.
func (o *Options) Diff(other *Options) (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_options_diff(o.handle(), other.handle(), &out, &record)
	return takenText(out), outcome(status, &record, o, other)
}

// ExportJSON is the set as a JSON document: all options, or those that differ from their default.
func (o *Options) ExportJSON(onlyChanged bool) (string, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_options_export_json(o.handle(), truth(onlyChanged), &out, &record)
	return takenText(out), outcome(status, &record, o)
}

// ImportJSON takes the values of such a document over, all or nothing.
func (o *Options) ImportJSON(text string) error {
	var record *C.rl_error
	t, length := chars(text)
	return outcome(C.rl_options_import_json(o.handle(), t, length, &record), &record, o)
}

// ExportFlatBuffer is the set as a FlatBuffers document, as ExportJSON.
func (o *Options) ExportFlatBuffer(onlyChanged bool) ([]byte, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_options_export_flatbuffer(o.handle(), truth(onlyChanged), &out, &record)
	return taken[byte](out), outcome(status, &record, o)
}

// ImportFlatBuffer takes the values of such a document over, all or nothing.
func (o *Options) ImportFlatBuffer(document []byte) error {
	var record *C.rl_error
	status := C.rl_options_import_flatbuffer(o.handle(),
		unsafe.Pointer(first[byte](document)), C.size_t(len(document)), &record)
	return outcome(status, &record, o)
}

// Hash is a digest of all values.
func (o *Options) Hash() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_options_hash(o.handle(), &out, &record)
	return uint64(out), outcome(status, &record, o)
}

// Identity is a digest of the options on which the bits of a run depend.
func (o *Options) Identity() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_options_identity(o.handle(), &out, &record)
	return uint64(out), outcome(status, &record, o)
}
