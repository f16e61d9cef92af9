//! What a host provides to a runtime: files and memory of its own.
use crate::callbacks::guarded;
use crate::files::{table, FileSystem};
use crate::sys;
use std::fmt;
use std::io;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

const ENOMEM: i32 = 12;

/// Memory of the host for arenas and for tensors that own theirs. It is called on every thread,
/// several at once, and may call nothing of the library that is not callback-safe.
///
/// # Safety
/// Memory that `allocate` gives is as large and as aligned as it was asked for, may be read and
/// written, and is nobody else's until `release`.
pub unsafe trait Allocator: Send + Sync {
    /// `size` bytes, a multiple of 4096, at a multiple of `alignment`, a power of two. An error
    /// fails the call of the library as [`crate::Status::OutOfMemory`].
    fn allocate(&self, size: usize, alignment: usize) -> io::Result<NonNull<u8>>;

    /// Takes memory of `allocate` back.
    ///
    /// # Safety
    /// It is of this allocator and has this size, and nothing uses it any more.
    unsafe fn release(&self, memory: NonNull<u8>, size: usize);

    /// Whether `decommit` does something.
    fn can_decommit(&self) -> bool {
        false
    }

    /// Gives the pages of memory back, whose addresses stay and read as zeros from then on.
    ///
    /// # Safety
    /// It is of this allocator and has this size.
    unsafe fn decommit(&self, _memory: NonNull<u8>, _size: usize) {}
}

/// The services of a host, for [`crate::Runtime::hosted`]. What it does not provide comes from the
/// operating system.
#[derive(Default)]
#[non_exhaustive]
pub struct Host {
    files: Option<Box<dyn FileSystem>>,
    allocator: Option<Box<dyn Allocator>>,
}

impl Host {
    /// A host that provides nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files of the host.
    #[must_use]
    pub fn files(mut self, files: impl FileSystem + 'static) -> Self {
        self.files = Some(Box::new(files));
        self
    }

    /// Memory of the host.
    #[must_use]
    pub fn allocator(mut self, allocator: impl Allocator + 'static) -> Self {
        self.allocator = Some(Box::new(allocator));
        self
    }

    /// Calls the library with the struct of these services, which it takes over.
    pub(crate) fn given_to<T>(self, call: impl FnOnce(&sys::rl_host) -> T) -> T {
        let (files, allocator) = (self.files.map(table), self.allocator.map(memory));
        // SAFETY: the struct is this function's.
        let mut host = unsafe { initial!(rl_host, rl_host_init) };
        host.files = files.as_ref().map_or(ptr::null(), |files| files as *const _);
        host.allocator = allocator.as_ref().map_or(ptr::null(), |memory| memory as *const _);
        call(&host)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = (self.files.is_some(), self.allocator.is_some());
        f.debug_struct("Host").field("files", &there.0).field("allocator", &there.1).finish()
    }
}

type Memory = Box<dyn Allocator>;

/// The struct for the library, which takes the allocator over with it.
fn memory(allocator: Memory) -> sys::rl_allocator {
    // SAFETY: the struct is this function's.
    let mut memory = unsafe { initial!(rl_allocator, rl_allocator_init) };
    memory.decommit = if allocator.can_decommit() { Some(decommit) } else { None };
    memory.user_data = Box::into_raw(Box::new(allocator)).cast();
    memory.destroy = Some(destroy);
    memory.allocate = Some(allocate);
    memory.release = Some(release);
    memory
}

unsafe extern "C" fn destroy(user_data: *mut c_void) {
    guarded(|| {
        drop(Box::from_raw(user_data.cast::<Memory>()));
        Some(())
    });
}

unsafe extern "C" fn allocate(
    user_data: *mut c_void,
    size: u64,
    alignment: u64,
    out: *mut *mut c_void,
) -> i32 {
    let allocator = &*user_data.cast::<Memory>();
    match guarded(|| Some(allocator.allocate(size as usize, alignment as usize))) {
        Some(Ok(memory)) => {
            *out = memory.as_ptr().cast();
            0
        }
        Some(Err(error)) => error.raw_os_error().filter(|code| *code != 0).unwrap_or(ENOMEM),
        None => ENOMEM,
    }
}

unsafe extern "C" fn release(user_data: *mut c_void, memory: *mut c_void, size: u64) {
    let allocator = &*user_data.cast::<Memory>();
    guarded(|| NonNull::new(memory.cast()).map(|memory| allocator.release(memory, size as usize)));
}

unsafe extern "C" fn decommit(user_data: *mut c_void, memory: *mut c_void, size: u64) {
    let allocator = &*user_data.cast::<Memory>();
    guarded(|| NonNull::new(memory.cast()).map(|memory| allocator.decommit(memory, size as usize)));
}
