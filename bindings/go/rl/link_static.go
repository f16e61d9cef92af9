//go:build rl_static

package rl

// The archive has every function already when the linker comes to the -lrl of pkg-config, which is
// librl.so where both are installed: as what is not needed, that is left out.

// #cgo LDFLAGS: -l:librl.a -Wl,--as-needed
// #cgo pkg-config: --static rl
import "C"
