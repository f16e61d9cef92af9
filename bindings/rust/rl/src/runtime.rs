//! The runtime: compute threads, memory budget and log of all objects made from it.
use crate::callbacks::{boxed, drop_box, on_log, LogLine};
use crate::options::handle_or_null;
use crate::{sys, Host, Machine, Options, Result};
use std::ptr;

handle!(
    /// Threads, budget and log. The runtime itself ends with the last object made from it.
    Runtime,
    rl_runtime,
    rl_runtime_destroy
);

/// Two clocks at one moment. All times of the library are nanoseconds of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReading {
    pub steady_ns: i64,
    /// Since 1970.
    pub unix_ns: i64,
}

given!(
    /// Work of the host for the trace, by [`ClockReading::steady_ns`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Span<'a> {
        /// The row of the trace.
        lane: &'a str,
        name: &'a str,
        start_ns: i64,
        end_ns: i64,
        /// A number to show with it, and what it is.
        arg: Option<(&'a str, i64)>,
    }
);

impl<'a> Span<'a> {
    pub fn new(lane: &'a str, name: &'a str, start_ns: i64, end_ns: i64) -> Self {
        Self { lane, name, start_ns, end_ns, arg: None }
    }
}

impl Runtime {
    /// Fails with [`crate::Status::Incompatible`] when the library cannot serve this package.
    pub fn new<'a>(options: impl Into<Option<&'a Options>>) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_runtime_create(sys::RL_ABI_VERSION, options)) }
    }

    /// A runtime with services of the host: all objects made from it read and write their files
    /// through those of the host, and have its memory. The plan of a model in its files is
    /// [`crate::Plan::hosted`].
    pub fn hosted<'a>(options: impl Into<Option<&'a Options>>, host: Host) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: the functions are those of this crate, and user_data ends with destroy.
        host.given_to(|host| unsafe {
            object_of!(Self, rl_runtime_create_hosted(sys::RL_ABI_VERSION, options, host))
        })
    }

    /// Another rank of this runtime's run, which has the option parallel.data of them. Each rank
    /// works on a thread of its own.
    pub fn create_rank(&self, rank: u32) -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_runtime_create_rank(self.as_ptr(), rank)) }
    }

    /// Both clocks of the runtime, at one moment.
    pub fn clock(&self) -> Result<ClockReading> {
        // SAFETY: the handle is this object's.
        let now =
            unsafe { struct_of!(rl_clock, rl_clock_init, rl_runtime_get_clock(self.as_ptr())) }?;
        Ok(ClockReading { steady_ns: now.steady_ns, unix_ns: now.unix_ns })
    }

    /// Measures the machine with the runtime's threads, in a fraction of a second.
    pub fn probe(&self) -> Result<Machine> {
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_machine, rl_machine_init, rl_runtime_probe(self.as_ptr())) }
            .map(|raw| Machine::from_raw(&raw))
    }

    /// Adds work of the host to what is recorded now.
    pub fn trace_span(&self, span: &Span<'_>) -> Result<()> {
        let (arg_name, arg_value) = span.arg.unwrap_or(("", 0));
        // SAFETY: the texts live during the call and are copied.
        unsafe {
            let mut raw = initial!(rl_span, rl_span_init);
            (raw.lane, raw.lane_len) = (span.lane.as_ptr().cast(), span.lane.len());
            (raw.name, raw.name_len) = (span.name.as_ptr().cast(), span.name.len());
            (raw.arg_name, raw.arg_name_len) = (arg_name.as_ptr().cast(), arg_name.len());
            (raw.start_ns, raw.end_ns) = (span.start_ns, span.end_ns);
            raw.arg_value = arg_value;
            call!(rl_runtime_trace_span(self.as_ptr(), &raw))
        }
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

    /// A copy of the options that the runtime was made with.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_runtime_options(self.as_ptr())) }
    }

    /// Number of compute threads, the caller's own counted.
    pub fn threads(&self) -> Result<i64> {
        self.info().map(|info| info.threads)
    }

    /// Bytes that the arenas of all objects made from the runtime hold now.
    pub fn reserved_bytes(&self) -> Result<u64> {
        self.info().map(|info| info.reserved_bytes)
    }

    /// Which rank of its run it is, from 0.
    pub fn rank(&self) -> Result<u32> {
        self.info().map(|info| info.rank)
    }

    /// Number of ranks of the run.
    pub fn num_ranks(&self) -> Result<u32> {
        self.info().map(|info| info.num_ranks)
    }

    fn info(&self) -> Result<sys::rl_runtime_info> {
        let runtime = self.as_ptr();
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_runtime_info, rl_runtime_info_init, rl_runtime_get_info(runtime)) }
    }
}
