//! Functions of the host that the library calls. Each lives in a box that the library hands back
//! and ends through `drop_box`, exactly once. A panic stops at the border: the call fails, and the
//! function is not called again.
use crate::text::{slice, slice_mut, terminated};
use crate::{sys, AlgoTokens, FieldKind, LogLevel};
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine<'a> {
    pub level: LogLevel,
    /// The part of the library that speaks, such as "engine".
    pub component: &'a str,
    pub message: &'a str,
    /// When, by [`crate::ClockReading::steady_ns`].
    pub time_ns: i64,
    /// When, since 1970.
    pub unix_ns: i64,
    /// The facts of the message, for programs.
    pub fields: &'a [LogField<'a>],
}

/// A named fact of a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogField<'a> {
    pub name: &'a str,
    pub value: &'a str,
    pub kind: FieldKind,
}

/// The host's function as user_data. The lock is never waited for: the library calls a function on
/// one thread at a time, and a function that its own call re-enters, or that has panicked, fails.
pub(crate) fn boxed<F>(function: F) -> *mut c_void {
    Box::into_raw(Box::new(Mutex::new(function))).cast()
}

/// Ends what [`boxed`] made.
pub(crate) unsafe extern "C" fn drop_box<F>(user_data: *mut c_void) {
    guarded(|| {
        drop(Box::from_raw(user_data.cast::<Mutex<F>>()));
        Some(())
    });
}

/// Runs `work` and keeps its panic at the border; None for that.
pub fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        // What was thrown may panic when dropped, and what that throws is kept for ever.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        None
    })
}

/// Calls the function in `user_data`; None when it could not be called or panicked.
unsafe fn with<F, T>(user_data: *mut c_void, work: impl FnOnce(&mut F) -> Option<T>) -> Option<T> {
    let function = &*user_data.cast::<Mutex<F>>();
    guarded(|| function.try_lock().ok().and_then(|mut f| work(&mut f)))
}

pub(crate) unsafe extern "C" fn on_log<F: FnMut(LogLine<'_>) + Send>(
    user_data: *mut c_void,
    record: *const sys::rl_log_record,
) {
    with(user_data, |f: &mut F| {
        let line = &*record;
        let component = String::from_utf8_lossy(slice(line.component.cast(), line.component_len));
        let message = String::from_utf8_lossy(slice(line.message.cast(), line.message_len));
        let names = slice(line.field_names, line.num_fields).iter();
        let values = slice(line.field_values, line.num_fields).iter();
        let kinds = slice(line.field_kinds, line.num_fields).iter();
        let fields: Vec<_> = names
            .zip(values)
            .zip(kinds)
            .map(|((&name, &value), &kind)| LogField {
                name: terminated(name),
                value: terminated(value),
                kind: FieldKind::from_raw(kind),
            })
            .collect();
        f(LogLine {
            level: LogLevel::from_raw(line.level),
            component: &component,
            message: &message,
            time_ns: line.time_ns,
            unix_ns: line.unix_ns,
            fields: &fields,
        });
        Some(())
    });
}

pub(crate) unsafe extern "C" fn on_advantage<F>(
    user_data: *mut c_void,
    tokens: *const sys::rl_algo_tokens,
    advantages: *mut f64,
) -> i32
where
    F: FnMut(&AlgoTokens<'_>, &mut [f64]) -> bool + Send,
{
    let done = with(user_data, |f: &mut F| {
        let tokens = AlgoTokens::from_raw(&*tokens);
        Some(f(&tokens, slice_mut(advantages, tokens.num_tokens())))
    });
    i32::from(done != Some(true))
}

pub(crate) unsafe extern "C" fn on_loss<F>(
    user_data: *mut c_void,
    tokens: *const sys::rl_algo_tokens,
    weights: *const f64,
    loss: *mut f64,
    gradient: *mut f64,
) -> i32
where
    F: FnMut(&AlgoTokens<'_>, &[f64], &mut [f64]) -> Option<f64> + Send,
{
    let done = with(user_data, |f: &mut F| {
        let tokens = AlgoTokens::from_raw(&*tokens);
        let count = tokens.num_tokens();
        f(&tokens, slice(weights, count), slice_mut(gradient, count))
    });
    match done {
        Some(value) => {
            *loss = value;
            0
        }
        None => 1,
    }
}
