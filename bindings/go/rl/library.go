package rl

/*
#include "rl.h"
*/
import "C"

// ABIVersion is the library's version of the interface: major << 16 | minor.
func ABIVersion() uint32 { return uint32(C.rl_abi_version()) }

// Version is the library's release.
func Version() string { return C.GoString(C.rl_version_string()) }

// BuildInfo says how the library was built, as lines "name=value".
func BuildInfo() (string, error) {
	var info *C.rl_bytes
	var record *C.rl_error
	status := C.rl_build_info(&info, &record)
	return takenText(info), outcome(status, &record)
}

// A Feature works in this build on this machine, or there is a reason why not.
type Feature struct {
	Name      string
	Available bool
	Reason    string
}

// FindFeature is the feature of a name.
func FindFeature(name string) (Feature, error) {
	var available C.uint32_t
	var reason *C.char
	var record *C.rl_error
	start, size := chars(name)
	status := C.rl_feature(start, size, &available, &reason, &record)
	if err := outcome(status, &record); err != nil {
		return Feature{}, err
	}
	return Feature{name, available == 1, C.GoString(reason)}, nil
}

// Features are all of them.
func Features() ([]Feature, error) {
	var features []Feature
	for i := C.size_t(0); ; i++ {
		name := C.rl_feature_name(i)
		if name == nil {
			return features, nil
		}
		feature, err := FindFeature(C.GoString(name))
		if err != nil {
			return nil, err
		}
		features = append(features, feature)
	}
}

// DeviceInfo is a GPU of this machine.
type DeviceInfo struct {
	Name              string
	MemoryBytes       uint64
	ArchitectureMajor int
	ArchitectureMinor int
}

// Devices are the GPUs that the option runtime.device_index counts; none where the feature "cuda"
// is not available.
func Devices() ([]DeviceInfo, error) {
	var count C.size_t
	var record *C.rl_error
	if err := outcome(C.rl_device_count(&count, &record), &record); err != nil {
		return nil, err
	}
	var devices []DeviceInfo
	for i := C.size_t(0); i < count; i++ {
		var info C.rl_device_info
		C.rl_device_info_init(&info, C.sizeof_rl_device_info)
		if err := outcome(C.rl_device_get(i, &info, &record), &record); err != nil {
			return nil, err
		}
		devices = append(devices, DeviceInfo{
			Name:              C.GoString(info.name),
			MemoryBytes:       uint64(info.memory_bytes),
			ArchitectureMajor: int(info.architecture_major),
			ArchitectureMinor: int(info.architecture_minor),
		})
	}
	return devices, nil
}

// Constant is the value of an integer constant of rl.h by its name there.
func Constant(name string) (int64, error) {
	var value C.int64_t
	var record *C.rl_error
	start, size := chars(name)
	status := C.rl_constant(start, size, &value, &record)
	return int64(value), outcome(status, &record)
}
