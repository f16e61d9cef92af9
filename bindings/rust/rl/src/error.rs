//! Failures and results. An [`Error`] holds copies of the library's texts, so it outlives every
//! handle.
use crate::{sys, Knob, Status};
use std::fmt;
use std::ops::Deref;

pub type Result<T> = std::result::Result<T, Error>;

/// What a call came to that may end without its value and without having failed. A library newer
/// than this package may have more results, so a `match` needs an arm for those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<T> {
    Ready(T),
    /// Nothing came within the time given.
    Timeout,
    /// Nothing will come any more.
    Done,
    /// The host interrupted the call, or paused the engine.
    Interrupted,
    /// There is nothing yet; a later call may have it.
    WouldBlock,
    /// There is nothing to do until new work is given.
    Idle,
    /// The engine is paused.
    Paused,
}

impl<T> Outcome<T> {
    /// The value, if there is one.
    pub fn ready(self) -> Option<T> {
        match self {
            Outcome::Ready(value) => Some(value),
            _ => None,
        }
    }

    /// The value, where ending without it is a failure.
    pub fn into_result(self) -> Result<T> {
        let status = match self {
            Outcome::Ready(value) => return Ok(value),
            Outcome::Timeout => Status::Timeout,
            Outcome::Done => Status::Done,
            Outcome::Interrupted => Status::Interrupted,
            Outcome::WouldBlock => Status::WouldBlock,
            Outcome::Idle => Status::Idle,
            Outcome::Paused => Status::Paused,
        };
        Err(Error::of_host(status, "", "the call returned no value"))
    }

    pub fn is_ready(&self) -> bool {
        matches!(self, Outcome::Ready(_))
    }
}

/// Why a call failed. Its fields are those of [`ErrorFields`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<ErrorFields>);

/// The fields of an error; texts may be empty but `message` and `summary`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorFields {
    pub status: Status,
    /// One sentence that names the thing, the limit and the value seen.
    pub message: String,
    /// Option key, parameter or tensor concerned.
    pub key: String,
    /// Type, range or choices that would have been right.
    pub expected: String,
    /// File and byte offset, line and column, or JSON pointer.
    pub location: String,
    /// All of it with the status name, nearest names and causes, for a log.
    pub summary: String,
    /// The second option of a conflict.
    pub other_key: String,
    /// Valid names near an unknown one, nearest first.
    pub nearest: Vec<String>,
    /// errno or the code of a backend; 0 when none is involved.
    pub system_code: i32,
    /// The error that led to this one.
    pub cause: Option<Error>,
    /// The errors that this one reports at once.
    pub parts: Vec<Error>,
    /// If memory is short: what makes it fit, in the order to turn them.
    pub knobs: Vec<Knob>,
}

impl Error {
    /// An error that this layer finds before the library is called, or in what it returned.
    pub(crate) fn of_host(status: Status, key: &str, message: &str) -> Error {
        Error(Box::new(ErrorFields {
            status,
            message: message.to_string(),
            key: key.to_string(),
            expected: String::new(),
            location: String::new(),
            summary: format!("{}: {message}", status.name()),
            other_key: String::new(),
            nearest: Vec::new(),
            system_code: 0,
            cause: None,
            parts: Vec::new(),
            knobs: Vec::new(),
        }))
    }

    /// Copies a record of the library and ends it.
    ///
    /// # Safety
    /// `raw` is the caller's own record.
    unsafe fn take(raw: *mut sys::rl_error) -> Error {
        let text = |field| {
            let mut len = 0;
            let data = sys::rl_error_text(raw, field, &mut len);
            String::from_utf8_lossy(crate::text::slice(data.cast(), len)).into_owned()
        };
        let nearest =
            (0..).map(|i| sys::rl_error_nearest(raw, i)).take_while(|name| !name.is_null());
        let parts = (0..).map(|i| sys::rl_error_part(raw, i)).take_while(|part| !part.is_null());
        let cause = sys::rl_error_cause(raw);
        let error = Error(Box::new(ErrorFields {
            status: Status::from_raw(sys::rl_error_code(raw)),
            message: text(sys::RL_ERROR_MESSAGE),
            key: text(sys::RL_ERROR_KEY),
            expected: text(sys::RL_ERROR_EXPECTED),
            location: text(sys::RL_ERROR_LOCATION),
            summary: text(sys::RL_ERROR_SUMMARY),
            other_key: text(sys::RL_ERROR_OTHER_KEY),
            nearest: nearest.map(|name| crate::text::terminated(name).to_string()).collect(),
            system_code: sys::rl_error_system_code(raw),
            cause: if cause.is_null() { None } else { Some(Error::take(cause)) },
            parts: parts.map(|part| Error::take(part)).collect(),
            knobs: Error::knobs_of(raw),
        }));
        sys::rl_error_release(raw);
        error
    }
}

impl Error {
    /// # Safety
    /// `raw` is a record of the library.
    unsafe fn knobs_of(raw: *const sys::rl_error) -> Vec<Knob> {
        let mut knobs = Vec::new();
        for i in 0..sys::rl_error_knob_count(raw) {
            let mut knob = std::mem::zeroed::<sys::rl_knob>();
            sys::rl_knob_init(&mut knob, std::mem::size_of::<sys::rl_knob>());
            if sys::rl_error_knob_at(raw, i, &mut knob, std::ptr::null_mut()) == sys::RL_OK {
                knobs.push(Knob::from_raw(&knob));
            }
        }
        knobs
    }
}

impl Deref for Error {
    type Target = ErrorFields;

    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// The status of a call that did not fail, else its error, whose record is taken over.
///
/// # Safety
/// `err` is what the call wrote.
pub(crate) unsafe fn status_of(status: sys::rl_status, err: *mut sys::rl_error) -> Result<Status> {
    match Status::from_raw(status) {
        s @ (Status::Ok
        | Status::Timeout
        | Status::Done
        | Status::Interrupted
        | Status::WouldBlock
        | Status::Idle
        | Status::Paused) => Ok(s),
        s if err.is_null() => Err(Error::of_host(s, "", "the library gave no details")),
        _ => Err(Error::take(err)),
    }
}

/// Of a call that has no result but RL_OK.
pub(crate) fn only_ok(status: Status) -> Result<()> {
    match status {
        Status::Ok => Ok(()),
        other => Err(Error::of_host(other, "", "an unexpected result of this call")),
    }
}

/// The outcome of a call with a value that holds when the status is RL_OK.
pub(crate) fn outcome<T>(status: Status, value: impl FnOnce() -> T) -> Outcome<T> {
    match status {
        Status::Timeout => Outcome::Timeout,
        Status::Done => Outcome::Done,
        Status::Interrupted => Outcome::Interrupted,
        Status::WouldBlock => Outcome::WouldBlock,
        Status::Idle => Outcome::Idle,
        Status::Paused => Outcome::Paused,
        _ => Outcome::Ready(value()),
    }
}
