package rl

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
)

// memoryFiles are files in memory, below the prefix "memory/".
type memoryFiles struct {
	mutex       sync.Mutex
	files       map[string]*memoryFile
	directories map[string]bool
	fails       error // of the next Kind
}

type memoryFile struct{ data []byte }

type memoryInput struct{ *bytes.Reader }

func (memoryInput) Close() error { return nil }

func (f *memoryFile) Write(data []byte) (int, error) {
	f.data = append(f.data, data...)
	return len(data), nil
}
func (f *memoryFile) Sync() error      { return nil }
func (f *memoryFile) Close(bool) error { return nil }

func inside(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func (m *memoryFiles) Prefix() string { return "memory/" }

func (m *memoryFiles) Open(path string) (InputFile, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	file, ok := m.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return memoryInput{bytes.NewReader(file.data)}, nil
}

func (m *memoryFiles) Create(path string, append bool) (OutputFile, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.files[path] == nil || !append {
		m.files[path] = &memoryFile{}
	}
	return m.files[path], nil
}

func (m *memoryFiles) names() []string {
	var names []string
	for name := range m.files {
		names = append(names, name)
	}
	for name := range m.directories {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (m *memoryFiles) Kind(path string) (FileKind, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.fails; err != nil {
		m.fails = nil
		return FileAbsent, err
	}
	if m.files[path] != nil {
		return FileRegular, nil
	}
	for _, name := range m.names() {
		if inside(name, path) {
			return FileDirectory, nil
		}
	}
	return FileAbsent, nil
}

func (m *memoryFiles) List(path string) ([]string, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var found []string
	for _, name := range m.names() {
		rest := strings.TrimPrefix(name, path+"/")
		first, _, _ := strings.Cut(rest, "/")
		if rest != name && (len(found) == 0 || found[len(found)-1] != first) {
			found = append(found, first)
		}
	}
	return found, nil
}

func (m *memoryFiles) MakeDirectories(path string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.directories[path] = true
	return nil
}

func (m *memoryFiles) Rename(from, to string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.files, to)
	for _, name := range m.names() {
		if !inside(name, from) {
			continue
		}
		moved := to + strings.TrimPrefix(name, from)
		if file := m.files[name]; file != nil {
			delete(m.files, name)
			m.files[moved] = file
		} else {
			delete(m.directories, name)
			m.directories[moved] = true
		}
	}
	return nil
}

func (m *memoryFiles) Remove(path string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, name := range m.names() {
		if inside(name, path) {
			delete(m.files, name)
			delete(m.directories, name)
		}
	}
	return nil
}

func (m *memoryFiles) SyncDirectory(string) error { return nil }

func memoryWithModel(t *testing.T) *memoryFiles {
	files := &memoryFiles{files: map[string]*memoryFile{}, directories: map[string]bool{}}
	for _, name := range []string{"config.json", "model.safetensors"} {
		data := value[[]byte](t)(os.ReadFile(fixtures + "models/llama/" + name))
		files.files["memory/model/"+name] = &memoryFile{data}
	}
	return files
}

func TestAModelAndABufferLiveInTheFilesOfTheHost(t *testing.T) {
	files, h := memoryWithModel(t), newHost(t, UseParts)
	ok(t, h.options.SetAssignment("model.path=memory/model"))
	runtime := value[*Runtime](t)(NewHostedRuntime(h.options, files))
	defer runtime.Close()
	plan := value[*Plan](t)(runtime.NewPlan(nil, UseModel))
	defer plan.Close()
	model := value[*Model](t)(runtime.Open(nil, UseModel))
	defer model.Close()
	ok(t, model.Save("memory/saved", DTypeF32, 0))
	if files.files["memory/saved/model.safetensors"] == nil {
		t.Error(files.names())
	}
	ok(t, h.options.SetAssignment("model.path=memory/saved"))
	again := value[*Model](t)(runtime.Open(h.options, UseModel))
	defer again.Close()
	if value[uint64](t)(again.Digest()) != value[uint64](t)(model.Digest()) {
		t.Error("the saved model is another one")
	}
	if _, err := os.Stat("memory"); err == nil {
		t.Error("something went to the disk")
	}

	buffer := value[*Buffer](t)(NewBuffer(h.options, 16))
	defer buffer.Close()
	ok(t, buffer.SetRuntime(runtime))
	ok(t, buffer.Save("memory/samples.rlbuf", nil, 0))
	info := value[BufferFileInfo](t)(runtime.ReadBufferFileInfo("memory/samples.rlbuf"))
	if info.GroupSize != 2 {
		t.Errorf("%+v", info)
	}
	ok(t, buffer.SetRuntime(nil))
	expect(t, buffer.Save("/nowhere/samples.rlbuf", nil, 0), ErrNotFound)
}

func TestErrorsAndPanicsOfAFileSystemFailTheCall(t *testing.T) {
	files, h := memoryWithModel(t), newHost(t, UseModel)
	ok(t, h.options.SetAssignment("model.path=memory/model"))
	runtime := value[*Runtime](t)(NewHostedRuntime(h.options, files))
	defer runtime.Close()
	files.fails = errors.New("the token has expired")
	_, err := runtime.Open(nil, UseModel)
	expect(t, err, ErrIO)
	if !strings.Contains(err.Error(), "the token has expired") {
		t.Error(err)
	}
	ok(t, h.options.SetAssignment("model.path=memory/none"))
	_, err = runtime.Open(h.options, UseModel)
	expect(t, err, ErrNotFound)
}

func TestSpansOfTheHostAreRecorded(t *testing.T) {
	h := newHost(t, UseModel)
	profiler := value[*Profiler](t)(h.runtime.NewProfiler())
	defer profiler.Close()
	now := value[Clock](t)(h.runtime.Clock())
	if now.UnixNS <= now.SteadyNS {
		t.Errorf("%+v", now)
	}
	span := Span{Lane: "judges", Name: "score", StartNS: now.SteadyNS, EndNS: now.SteadyNS + 5,
		ArgName: "samples", ArgValue: 3}
	ok(t, h.runtime.TraceSpan(span))
	if summary := value[string](t)(profiler.Summary()); !strings.Contains(summary, "score 1 5 5") {
		t.Error(summary)
	}
	span.EndNS = span.StartNS - 1
	expect(t, h.runtime.TraceSpan(span), ErrInvalidArgument)
}
