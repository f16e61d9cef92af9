//! Records what the objects of a runtime do.
use crate::text::{path_text, Bytes};
use crate::{Result, Runtime};
use std::path::Path;

handle!(
    /// Spans and counters from its creation to its end.
    Profiler,
    rl_profiler,
    rl_profiler_destroy
);

impl Profiler {
    /// Starts recording; it replaces the runtime's earlier profiler.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        // SAFETY: the library keeps the runtime alive.
        unsafe { object_of!(Self, rl_profiler_create(runtime.as_ptr())) }
    }

    /// Writes what was recorded so far as a Chrome trace.
    pub fn write_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_profiler_write_trace(self.as_ptr(), text, len)) }
    }

    /// Spans and counters recorded so far, and those dropped because the record is full.
    pub fn count(&self) -> Result<(u64, u64)> {
        let (mut records, mut dropped) = (0, 0);
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_profiler_count(self.as_ptr(), &mut records, &mut dropped)) }?;
        Ok((records, dropped))
    }

    /// Time by span name, as lines "name count total_ns longest_ns".
    pub fn summary(&self) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_profiler_summary(self.as_ptr())) }.map(|text| text.to_text())
    }
}
