//! Services of the host in Rust: a model that is opened from memory and saved to it, and arenas in
//! memory of the host's.
mod common;

use common::MODEL;
use std::alloc::{alloc, dealloc, Layout};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Data = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Default)]
struct Memory {
    files: Arc<Mutex<BTreeMap<String, Data>>>,
    directories: Arc<Mutex<Vec<String>>>,
}

struct Opened(Data);

impl rl::InputFile for Opened {
    fn size(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let start = offset as usize;
        into.copy_from_slice(&self.0.lock().unwrap()[start..start + into.len()]);
        Ok(())
    }
}

impl rl::OutputFile for Opened {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(())
    }
    fn close(self: Box<Self>, _: bool) -> Result<()> {
        Ok(())
    }
}

fn inside(name: &str, dir: &str) -> bool {
    name == dir || name.starts_with(&format!("{dir}/"))
}

impl rl::FileSystem for Memory {
    fn prefix(&self) -> &str {
        "memory/"
    }
    fn open(&self, path: &str) -> Result<Box<dyn rl::InputFile>> {
        if path.contains("forbidden") {
            return Err(Error::new(ErrorKind::PermissionDenied, "the token has expired"));
        }
        let files = self.files.lock().unwrap();
        let data = files.get(path).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        Ok(Box::new(Opened(Arc::clone(data))))
    }
    fn create(&self, path: &str, append: bool) -> Result<Box<dyn rl::OutputFile>> {
        let mut files = self.files.lock().unwrap();
        let old = files.get(path).filter(|_| append).map(|data| data.lock().unwrap().clone());
        let data = Arc::new(Mutex::new(old.unwrap_or_default()));
        files.insert(path.to_string(), Arc::clone(&data));
        Ok(Box::new(Opened(data)))
    }
    fn kind(&self, path: &str) -> Result<rl::FileKind> {
        let files = self.files.lock().unwrap();
        let directories = self.directories.lock().unwrap();
        if files.contains_key(path) {
            return Ok(rl::FileKind::Regular);
        }
        let mut names = files.keys().chain(directories.iter());
        let there = names.any(|name| inside(name, path));
        Ok(if there { rl::FileKind::Directory } else { rl::FileKind::Absent })
    }
    fn list(&self, path: &str) -> Result<Vec<String>> {
        let files = self.files.lock().unwrap();
        let start = format!("{path}/");
        let names = files.keys().filter_map(|name| name.strip_prefix(&start));
        let mut names: Vec<_> =
            names.filter_map(|name| name.split('/').next()).map(str::to_string).collect();
        names.dedup();
        Ok(names)
    }
    fn make_directories(&self, path: &str) -> Result<()> {
        self.directories.lock().unwrap().push(path.to_string());
        Ok(())
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let moved = |name: String| match name.strip_prefix(from) {
            Some(rest) if inside(&name, from) => format!("{to}{rest}"),
            _ => name,
        };
        let mut files = self.files.lock().unwrap();
        files.remove(to);
        *files = std::mem::take(&mut *files).into_iter().map(|(n, d)| (moved(n), d)).collect();
        let mut directories = self.directories.lock().unwrap();
        *directories = std::mem::take(&mut *directories).into_iter().map(moved).collect();
        Ok(())
    }
    fn remove(&self, path: &str) -> Result<()> {
        self.files.lock().unwrap().retain(|name, _| !inside(name, path));
        self.directories.lock().unwrap().retain(|name| !inside(name, path));
        Ok(())
    }
}

fn memory_with_model() -> Memory {
    let memory = Memory::default();
    for name in ["config.json", "model.safetensors"] {
        let data = std::fs::read(format!("{MODEL}/{name}")).unwrap();
        let path = format!("memory/model/{name}");
        memory.files.lock().unwrap().insert(path, Arc::new(Mutex::new(data)));
    }
    memory
}

fn host(memory: &Memory) -> rl::Host {
    rl::Host::new().files(memory.clone())
}

#[test]
fn a_model_lives_in_memory() {
    let memory = memory_with_model();
    let mut options = common::options();
    options.set("model.path", "memory/model").unwrap();
    let runtime = rl::Runtime::hosted(&options, host(&memory)).unwrap();
    assert!(
        rl::Plan::hosted(&runtime, None, rl::Use::Model).unwrap().info().unwrap().total_bytes > 0
    );
    let model = rl::Model::open(&runtime, None, rl::Use::Model).unwrap();
    model.save("memory/saved", rl::Dtype::F32, false).unwrap();
    assert!(memory.files.lock().unwrap().contains_key("memory/saved/model.safetensors"));
    options.set("model.path", "memory/saved").unwrap();
    let again = rl::Model::open(&runtime, &options, rl::Use::Model).unwrap();
    assert_eq!(again.digest().unwrap(), model.digest().unwrap());
    assert!(!std::path::Path::new("memory").exists());
}

#[test]
fn errors_of_the_host_come_back_with_their_text() {
    let memory = memory_with_model();
    let mut options = common::options();
    options.set("model.path", "memory/none").unwrap();
    let runtime = rl::Runtime::hosted(&options, host(&memory)).unwrap();
    let none = rl::Model::open(&runtime, None, rl::Use::Model).unwrap_err();
    assert_eq!(none.status, rl::Status::NotFound);
    let files = std::mem::take(&mut *memory.files.lock().unwrap());
    let renamed = files.into_iter().map(|(n, d)| (n.replace("model/", "forbidden/"), d));
    *memory.files.lock().unwrap() = renamed.collect();
    options.set("model.path", "memory/forbidden").unwrap();
    let refused = rl::Model::open(&runtime, &options, rl::Use::Model).unwrap_err();
    assert_eq!(refused.status, rl::Status::Io);
    assert!(refused.message.contains("the token has expired"), "{}", refused.message);
}

/// Memory of the host, with the layouts of what the library holds by address.
struct Counted {
    held: Arc<Mutex<BTreeMap<usize, Layout>>>,
    full: Arc<AtomicBool>,
    _dropped: common::CountDrop,
}

impl Counted {
    fn new(drops: &Arc<AtomicUsize>) -> Self {
        let _dropped = common::CountDrop(Arc::clone(drops));
        Self { held: Arc::default(), full: Arc::default(), _dropped }
    }
}

// SAFETY: the memory is that of std's allocator, in the same layout at both ends.
unsafe impl rl::Allocator for Counted {
    fn allocate(&self, size: usize, alignment: usize) -> Result<NonNull<u8>> {
        if self.full.load(Ordering::SeqCst) {
            panic!("an allocator that panics has no memory");
        }
        let layout = Layout::from_size_align(size, alignment).unwrap();
        // SAFETY: sizes are multiples of 4096, and not 0.
        let memory = NonNull::new(unsafe { alloc(layout) });
        let memory = memory.ok_or_else(|| Error::from(ErrorKind::Other))?;
        self.held.lock().unwrap().insert(memory.as_ptr() as usize, layout);
        Ok(memory)
    }

    unsafe fn release(&self, memory: NonNull<u8>, size: usize) {
        let layout = self.held.lock().unwrap().remove(&(memory.as_ptr() as usize)).unwrap();
        assert_eq!(layout.size(), size);
        dealloc(memory.as_ptr(), layout);
    }
}

#[test]
fn arenas_are_memory_of_the_host() {
    let drops = Arc::new(AtomicUsize::new(0));
    let memory = Counted::new(&drops);
    let (blocks, full) = (Arc::clone(&memory.held), Arc::clone(&memory.full));
    let held = || blocks.lock().unwrap().values().map(Layout::size).sum::<usize>() as u64;
    let options = common::options();
    let host = rl::Host::new().allocator(memory);
    let runtime = rl::Runtime::hosted(&options, host).unwrap();
    let model = rl::Model::open(&runtime, None, rl::Use::Generate).unwrap();
    let engine = rl::Engine::new(&model, None).unwrap();
    let (reserved, count) = (runtime.reserved_bytes().unwrap(), blocks.lock().unwrap().len());
    assert!(count > 2 && (reserved..reserved + 4096 * count as u64).contains(&held()));
    assert_eq!(common::scored_group(&engine).len(), common::GROUP);
    drop(engine);
    full.store(true, Ordering::SeqCst);
    assert_eq!(rl::Engine::new(&model, None).unwrap_err().status, rl::Status::OutOfMemory);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop((model, runtime));
    assert_eq!((held(), drops.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn services_of_a_runtime_that_cannot_be_made_are_dropped() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut options = common::options();
    options.set("algo.advantage", "gdpo").unwrap(); // without algo.gdpo_weights
    let host = rl::Host::new().allocator(Counted::new(&drops));
    assert!(rl::Runtime::hosted(&options, host).is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn spans_of_the_host_are_counted_and_clocks_agree() {
    let options = common::options();
    let runtime = rl::Runtime::new(&options).unwrap();
    let profiler = rl::Profiler::new(&runtime).unwrap();
    let now = runtime.clock().unwrap();
    assert!(now.unix_ns > now.steady_ns);
    let span = rl::Span::new("judges", "score", now.steady_ns, now.steady_ns + 5);
    let span = span.arg(Some(("samples", 3)));
    runtime.trace_span(&span).unwrap();
    assert!(profiler.summary().unwrap().contains("score 1 5 5"));
    let backwards = span.end_ns(now.steady_ns - 1);
    let error = runtime.trace_span(&backwards).unwrap_err();
    assert_eq!(error.key, "span.end_ns");
}
