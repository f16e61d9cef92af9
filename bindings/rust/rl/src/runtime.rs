//! The runtime: compute threads, memory budget and log of all objects made from it.
use crate::callbacks::{boxed, drop_box, on_log, LogLine};
use crate::options::handle_or_null;
use crate::{sys, Options, Result};
use std::ptr;

handle!(
    /// Threads, budget and log. The runtime itself ends with the last object made from it.
    Runtime,
    rl_runtime,
    rl_runtime_destroy
);

impl Runtime {
    /// Fails with [`crate::Status::Incompatible`] when the library cannot serve this package.
    pub fn new<'a>(options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_runtime_create(sys::RL_ABI_VERSION, options)) }
    }

    /// Sets the one sink of the log, which may be called on any thread. In it only functions that
    /// are callback-safe work. One that panics hears nothing more.
    pub fn set_log<F>(&self, sink: F) -> Result<()>
    where
        F: FnMut(LogLine<'_>) + Send + 'static,
    {
        let user_data = boxed(sink);
        let (function, end) = (Some(on_log::<F> as _), Some(drop_box::<F> as _));
        // SAFETY: F is Send, and the library calls it on one thread at a time and ends it once.
        unsafe { call!(rl_runtime_set_log(self.as_ptr(), function, user_data, end)) }
    }

    /// Silences the log, as it is at first.
    pub fn clear_log(&self) -> Result<()> {
        // SAFETY: no function and no user_data are valid.
        unsafe { call!(rl_runtime_set_log(self.as_ptr(), None, ptr::null_mut(), None)) }
    }

    /// Number of compute threads, the caller's own counted.
    pub fn threads(&self) -> Result<i64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_runtime_threads(self.as_ptr())) }
    }

    /// Bytes that all arenas of the process hold now.
    pub fn reserved_bytes(&self) -> Result<u64> {
        // SAFETY: the handle is this object's.
        unsafe { value_of!(0, rl_runtime_reserved_bytes(self.as_ptr())) }
    }
}
