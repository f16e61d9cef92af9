package rl

/*
#include "rl.h"
#include "files.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/cgo"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// A FileSystem holds files of the host: models, data and checkpoints. It is called on any thread,
// several at once, and may call nothing of this package. fs.ErrNotExist means that there is no such
// file; any other error fails the call of librl as ErrIO, with its text, and so does a panic. librl
// writes important files under another name and renames them when they are complete.
type FileSystem interface {
	// Prefix begins the paths that are these files; "": all paths.
	Prefix() string
	// Open opens an existing file to read.
	Open(path string) (InputFile, error)
	// Create opens a file to write, empty or at its end.
	Create(path string, append bool) (OutputFile, error)
	Kind(path string) (FileKind, error)
	// List gives the names in a directory.
	List(path string) ([]string, error)
	// MakeDirectories makes a directory and those above it; no error if it exists.
	MakeDirectories(path string) error
	// Rename renames a file or a directory in one go; a file of that name is replaced.
	Rename(from, to string) error
	// Remove removes a file, or a directory with all in it; no error if nothing is there.
	Remove(path string) error
	// SyncDirectory makes durable which entries a directory has.
	SyncDirectory(path string) error
}

// An InputFile has a fixed size and is read by several threads at once.
type InputFile interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// An OutputFile is written from here to its end.
type OutputFile interface {
	io.Writer
	// Sync makes durable what was written.
	Sync() error
	// Close ends the file; with discard its contents are not needed.
	Close(discard bool) error
}

// NewHostedRuntime makes a runtime whose objects read and write all their files through those of
// the host.
func NewHostedRuntime(options *Options, files FileSystem) (*Runtime, error) {
	var out *C.rl_runtime
	var record *C.rl_error
	start, size := chars(files.Prefix())
	hooked := newHandle(&fileHook{files, hostErrors{texts: map[int]string{}}})
	status := C.rl_go_runtime_create_hosted(options.handle(), hooked, start, size, &out, &record)
	if err := outcome(status, &record, options); err != nil {
		return nil, err
	}
	return backstop(&Runtime{out, &failures{}}, (*Runtime).Close), nil
}

// NewPlan plans for a model in the files of the runtime; options may be nil: then those of the
// runtime hold.
func (r *Runtime) NewPlan(options *Options, use Use) (*Plan, error) {
	var out *C.rl_plan
	var record *C.rl_error
	status := C.rl_plan_create_hosted(r.ptr, options.handle(), C.int32_t(use), &out, &record)
	return planOf(status, &out, &record, r, options)
}

// ReadBufferFileInfo reads the beginning of a buffer file in the files of the runtime.
func (r *Runtime) ReadBufferFileInfo(path string) (BufferFileInfo, error) {
	var info C.rl_buffer_file_info
	var record *C.rl_error
	C.rl_buffer_file_info_init(&info, C.sizeof_rl_buffer_file_info)
	start, size := chars(path)
	status := C.rl_buffer_get_hosted_file_info(r.ptr, start, size, &info, &record)
	return fileInfoOf(&info), outcome(status, &record, r)
}

// SetRuntime has the buffer use the files of a runtime from now on; nil: those of the system.
func (b *Buffer) SetRuntime(r *Runtime) error {
	var ptr *C.rl_runtime
	if r != nil {
		ptr = r.ptr
	}
	var record *C.rl_error
	return outcome(C.rl_buffer_set_runtime(b.ptr, ptr, &record), &record, b, r)
}

// ---- what files.c calls ----

// hostErrors are those of a service of the host, for which librl asks on the same thread, at once.
type hostErrors struct {
	mutex sync.Mutex
	texts map[int]string // of a thread's last error
}

// A fileHook is what stands behind the user_data of files.
type fileHook struct {
	files FileSystem
	hostErrors
}

func newHandle(thing any) C.uintptr_t { return C.uintptr_t(cgo.NewHandle(thing)) }

// run calls the host and turns its error into a code of rl_files or rl_store.
func (h *hostErrors) run(call func() error) C.int32_t {
	err := guarded(call)
	if err == nil {
		return 0
	}
	code := syscall.EIO
	if errors.Is(err, fs.ErrNotExist) {
		code = syscall.ENOENT
	} else if number := syscall.Errno(0); errors.As(err, &number) && number != 0 {
		code = number
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.texts[syscall.Gettid()] = err.Error()
	return C.int32_t(code)
}

func filesOf(handle C.uintptr_t) *fileHook { return cgo.Handle(handle).Value().(*fileHook) }

//export rlGoFileOpen
func rlGoFileOpen(handle C.uintptr_t, path *C.char, pathSize C.size_t, token *C.uintptr_t,
	size *C.uint64_t) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error {
		file, err := h.files.Open(textOf(path, pathSize))
		if err != nil {
			return err
		}
		length := file.Size()
		if length < 0 {
			_ = file.Close()
			return fmt.Errorf("the file has a size of %d bytes", length)
		}
		*size, *token = C.uint64_t(length), newHandle(file)
		return nil
	})
}

//export rlGoFileCreate
func rlGoFileCreate(handle C.uintptr_t, path *C.char, pathSize C.size_t, append C.uint32_t,
	token *C.uintptr_t) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error {
		file, err := h.files.Create(textOf(path, pathSize), append != 0)
		if err == nil && file == nil {
			err = errors.New("Create gave no file")
		}
		if err != nil {
			return err
		}
		*token = newHandle(file)
		return nil
	})
}

//export rlGoFileRead
func rlGoFileRead(handle, token C.uintptr_t, offset C.uint64_t, data unsafe.Pointer,
	size C.uint64_t) C.int32_t {
	return filesOf(handle).run(func() error {
		file, into := cgo.Handle(token).Value().(InputFile), unsafe.Slice((*byte)(data), int(size))
		count, err := file.ReadAt(into, int64(offset))
		if count == len(into) {
			return nil
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%d of %d bytes were read: %w", count, len(into), err)
	})
}

//export rlGoFileWrite
func rlGoFileWrite(handle, token C.uintptr_t, data unsafe.Pointer, size C.uint64_t) C.int32_t {
	return filesOf(handle).run(func() error {
		from := unsafe.Slice((*byte)(data), int(size))
		count, err := cgo.Handle(token).Value().(OutputFile).Write(from)
		if err == nil && count != len(from) {
			err = io.ErrShortWrite
		}
		return err
	})
}

//export rlGoFileSync
func rlGoFileSync(handle, token C.uintptr_t) C.int32_t {
	return filesOf(handle).run(cgo.Handle(token).Value().(OutputFile).Sync)
}

//export rlGoFileClose
func rlGoFileClose(handle, token C.uintptr_t, discard C.uint32_t) C.int32_t {
	defer cgo.Handle(token).Delete()
	return filesOf(handle).run(func() error {
		if file, ok := cgo.Handle(token).Value().(OutputFile); ok {
			return file.Close(discard != 0)
		}
		return cgo.Handle(token).Value().(InputFile).Close()
	})
}

//export rlGoFileKind
func rlGoFileKind(handle C.uintptr_t, path *C.char, pathSize C.size_t, kind *C.int32_t) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error {
		found, err := h.files.Kind(textOf(path, pathSize))
		*kind = C.int32_t(found)
		return err
	})
}

//export rlGoFileList
func rlGoFileList(handle C.uintptr_t, path *C.char, pathSize C.size_t, found C.rl_file_found_fn,
	context unsafe.Pointer) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error {
		names, err := h.files.List(textOf(path, pathSize))
		if err != nil {
			return err
		}
		for _, name := range names {
			start, size := chars(name)
			if code := C.rl_go_file_found(found, context, start, size); code != 0 {
				return syscall.Errno(code)
			}
		}
		return nil
	})
}

// onPath calls a method that takes a path.
func onPath(handle C.uintptr_t, path *C.char, pathSize C.size_t,
	method func(FileSystem, string) error) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error { return method(h.files, textOf(path, pathSize)) })
}

//export rlGoFileMakeDirectories
func rlGoFileMakeDirectories(handle C.uintptr_t, path *C.char, pathSize C.size_t) C.int32_t {
	return onPath(handle, path, pathSize, FileSystem.MakeDirectories)
}

//export rlGoFileRename
func rlGoFileRename(handle C.uintptr_t, from *C.char, fromSize C.size_t, to *C.char,
	toSize C.size_t) C.int32_t {
	h := filesOf(handle)
	return h.run(func() error { return h.files.Rename(textOf(from, fromSize), textOf(to, toSize)) })
}

//export rlGoFileRemove
func rlGoFileRemove(handle C.uintptr_t, path *C.char, pathSize C.size_t) C.int32_t {
	return onPath(handle, path, pathSize, FileSystem.Remove)
}

//export rlGoFileSyncDirectory
func rlGoFileSyncDirectory(handle C.uintptr_t, path *C.char, pathSize C.size_t) C.int32_t {
	return onPath(handle, path, pathSize, FileSystem.SyncDirectory)
}

//export rlGoFileDescribe
func rlGoFileDescribe(handle C.uintptr_t, text *C.char, textSize C.size_t) {
	filesOf(handle).describe(text, textSize)
}

// describe writes what the last code of this thread means.
func (h *hostErrors) describe(text *C.char, textSize C.size_t) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	out := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(textSize))
	told := strings.ReplaceAll(h.texts[syscall.Gettid()], "\x00", " ")
	delete(h.texts, syscall.Gettid())
	if most := len(out) - 1; len(told) > most {
		told = told[:most]
	}
	out[copy(out, strings.ToValidUTF8(told, ""))] = 0
}
