package rl

/*
#include "rl.h"
*/
import "C"

import "strings"

// OptionInfo is a row of the option table.
type OptionInfo struct {
	Key, Default, Unit, Doc, Since, Source string
	UnsupportedReason                      string // not empty: only the default is accepted
	Type                                   OptionType
	When                                   When
	Flags                                  OptionFlags
	MinI64, MaxI64                         int64
	MinU64, MaxU64                         uint64
	MinF64, MaxF64                         float64
	Choices                                []Choice
}

// A Choice is a value of an enum option and what it means.
type Choice struct{ Name, Doc string }

// OptionInfos is the option table in key order.
func OptionInfos() ([]OptionInfo, error) {
	infos := make([]OptionInfo, 0, int(C.rl_option_count()))
	for i := C.size_t(0); i < C.rl_option_count(); i++ {
		var row C.rl_option_info
		var record *C.rl_error
		C.rl_option_info_init(&row, C.sizeof_rl_option_info)
		if err := outcome(C.rl_option_at(i, &row, &record), &record); err != nil {
			return nil, err
		}
		info, err := optionInfoOf(&row)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// FindOption is the row of a key, else ErrUnknownOption with the nearest keys.
func FindOption(key string) (OptionInfo, error) {
	var row C.rl_option_info
	var record *C.rl_error
	C.rl_option_info_init(&row, C.sizeof_rl_option_info)
	start, size := chars(key)
	if err := outcome(C.rl_option_find(start, size, &row, &record), &record); err != nil {
		return OptionInfo{}, err
	}
	return optionInfoOf(&row)
}

func optionInfoOf(row *C.rl_option_info) (OptionInfo, error) {
	info := OptionInfo{
		Key:               C.GoString(row.key),
		Default:           C.GoString(row.default_text),
		Unit:              C.GoString(row.unit),
		Doc:               C.GoString(row.doc),
		Since:             C.GoString(row.since),
		Source:            C.GoString(row.source),
		UnsupportedReason: C.GoString(row.unsupported_reason),
		Type:              OptionType(row._type),
		When:              When(row.when),
		Flags:             OptionFlags(row.flags),
		MinI64:            int64(row.min_i64),
		MaxI64:            int64(row.max_i64),
		MinU64:            uint64(row.min_u64),
		MaxU64:            uint64(row.max_u64),
		MinF64:            float64(row.min_f64),
		MaxF64:            float64(row.max_f64),
	}
	for i := C.size_t(0); i < row.num_choices; i++ {
		var name, doc *C.char
		var record *C.rl_error
		status := C.rl_option_choice(row.key, C.RL_NUL_TERMINATED, i, &name, &doc, &record)
		if err := outcome(status, &record); err != nil {
			return OptionInfo{}, err
		}
		info.Choices = append(info.Choices, Choice{C.GoString(name), C.GoString(doc)})
	}
	return info, nil
}

// A Preset is a name for several settings.
type Preset struct {
	Name, Doc string
	Settings  []Setting
}

// A Setting is a key and a value as Options.Set reads it.
type Setting struct{ Key, Value string }

// Presets are all of them in name order.
func Presets() ([]Preset, error) {
	var presets []Preset
	for i := C.size_t(0); i < C.rl_preset_count(); i++ {
		var name, doc *C.char
		var record *C.rl_error
		status := C.rl_preset_at(i, &name, &doc, &record)
		if err := outcome(status, &record); err != nil {
			return nil, err
		}
		preset := Preset{Name: C.GoString(name), Doc: C.GoString(doc)}
		if err := preset.read(); err != nil {
			return nil, err
		}
		presets = append(presets, preset)
	}
	return presets, nil
}

// read asks for the settings: what differs from the defaults in a set that has the preset.
func (p *Preset) read() error {
	options, err := NewOptions()
	if err != nil {
		return err
	}
	defer options.Close()
	if err := options.ApplyPreset(p.Name); err != nil {
		return err
	}
	lines, err := options.Dump(true)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		key, value, _ := strings.Cut(line, "=")
		p.Settings = append(p.Settings, Setting{key, value})
	}
	return nil
}
