//go:build !rl_static

package rl

// #cgo pkg-config: rl
import "C"
