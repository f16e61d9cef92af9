package rl

/*
#include "rl.h"
*/
import "C"

import (
	"runtime"
	"strconv"
	"strings"
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

// Clone is an independent copy.
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
	key, value, found := strings.Cut(text, "=")
	if !found {
		return invalid("text", "%q is not of the form key=value", text)
	}
	return o.Set(key, value)
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

// Validate checks combinations of options; several violations are the Parts of one error.
func (o *Options) Validate() error {
	var record *C.rl_error
	return outcome(C.rl_options_validate(o.handle(), &record), &record, o)
}

// ---- getters ----

// value is what librl says of an option: its value, and that as a text.
func (o *Options) value(key string) (C.rl_option_value, string, error) {
	var value C.rl_option_value
	var text *C.rl_bytes
	var record *C.rl_error
	C.rl_option_value_init(&value, C.sizeof_rl_option_value)
	k, size := chars(key)
	status := C.rl_options_get(o.handle(), k, size, &value, &text, &record)
	return value, takenText(text), outcome(status, &record, o)
}

// typed is a value of one of these types; another one is ErrWrongType.
func (o *Options) typed(key string, types ...OptionType) (C.rl_option_value, string, error) {
	value, text, err := o.value(key)
	if err != nil {
		return value, text, err
	}
	for _, wanted := range types {
		if OptionType(value._type) == wanted {
			return value, text, nil
		}
	}
	message := key + " has another type"
	return value, text, &Error{Code: ErrWrongType, Key: key, Message: message, Summary: message}
}

// GetText is a value of any type as Set reads it back.
func (o *Options) GetText(key string) (string, error) {
	_, text, err := o.value(key)
	return text, err
}

// GetBool is a truth value.
func (o *Options) GetBool(key string) (bool, error) {
	value, _, err := o.typed(key, OptionBool)
	return value.i64 == 1, err
}

// GetInt reads an integer option of any type; one that does not fit is 0.
func (o *Options) GetInt(key string) (int64, error) {
	value, _, err := o.typed(key, OptionI64, OptionDurationNS, OptionU64, OptionBytes)
	return int64(value.i64), err
}

// GetUint reads an integer option of any type; one that does not fit is 0.
func (o *Options) GetUint(key string) (uint64, error) {
	value, _, err := o.typed(key, OptionU64, OptionBytes, OptionI64, OptionDurationNS)
	return uint64(value.u64), err
}

// GetFloat is a number.
func (o *Options) GetFloat(key string) (float64, error) {
	value, _, err := o.typed(key, OptionF64)
	return float64(value.f64), err
}

// GetString is a text or a choice.
func (o *Options) GetString(key string) (string, error) {
	_, text, err := o.typed(key, OptionString, OptionEnum)
	return text, err
}

// GetStrings is a list of texts.
func (o *Options) GetStrings(key string) ([]string, error) {
	value, text, err := o.typed(key, OptionStringList)
	if err != nil || value.num_items == 0 {
		return nil, err
	}
	return items(text), nil
}

// GetInts is a list of integers.
func (o *Options) GetInts(key string) ([]int64, error) {
	value, text, err := o.typed(key, OptionI64List)
	if err != nil || value.num_items == 0 {
		return nil, err
	}
	var values []int64
	for _, item := range items(text) {
		number, err := strconv.ParseInt(item, 10, 64)
		if err != nil {
			return nil, err
		}
		values = append(values, number)
	}
	return values, nil
}

// items are the elements of a list, from its text.
func items(text string) []string {
	var all []string
	var item strings.Builder
	for i := 0; i < len(text); i++ {
		switch letter := text[i]; {
		case letter == ',':
			all = append(all, item.String())
			item.Reset()
		case letter == '\\' && i+1 < len(text):
			i++
			item.WriteByte(unescaped(text[i]))
		default:
			item.WriteByte(letter)
		}
	}
	return append(all, item.String())
}

func unescaped(letter byte) byte {
	switch letter {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	}
	return letter
}

// IsDefault says whether the value equals the default.
func (o *Options) IsDefault(key string) (bool, error) {
	value, _, err := o.value(key)
	return value.is_default == 1, err
}

// ---- whole sets ----

func (o *Options) export(format OptionFormat, onlyChanged bool) ([]byte, error) {
	var out *C.rl_bytes
	var record *C.rl_error
	status := C.rl_options_export(o.handle(), C.int32_t(format), truth(onlyChanged), &out, &record)
	return taken[byte](out), outcome(status, &record, o)
}

// Dump is lines "key=value": all options, or those that differ from their default.
func (o *Options) Dump(onlyChanged bool) (string, error) {
	text, err := o.export(FormatText, onlyChanged)
	return string(text), err
}

// ExportJSON is the set as a JSON document: all options, or those that differ from their default.
func (o *Options) ExportJSON(onlyChanged bool) (string, error) {
	text, err := o.export(FormatJSON, onlyChanged)
	return string(text), err
}

// ImportJSON takes the values of such a document over, all or nothing.
func (o *Options) ImportJSON(text string) error { return o.load(FormatJSON, []byte(text)) }

// ExportFlatBuffer is the set as a FlatBuffers document, as ExportJSON.
func (o *Options) ExportFlatBuffer(onlyChanged bool) ([]byte, error) {
	return o.export(FormatFlatbuffer, onlyChanged)
}

// ImportFlatBuffer takes the values of such a document over, all or nothing.
func (o *Options) ImportFlatBuffer(document []byte) error {
	return o.load(FormatFlatbuffer, document)
}

func (o *Options) load(format OptionFormat, document []byte) error {
	var record *C.rl_error
	status := C.rl_options_import(o.handle(), C.int32_t(format),
		unsafe.Pointer(first[byte](document)), C.size_t(len(document)), &record)
	return outcome(status, &record, o)
}

// Identity is a digest of the options on which the bits of a run depend.
func (o *Options) Identity() (uint64, error) {
	var out C.uint64_t
	var record *C.rl_error
	status := C.rl_options_identity(o.handle(), &out, &record)
	return uint64(out), outcome(status, &record, o)
}
