//! Text and arrays both ways: what librl returns becomes Rust's, and its pointers to nothing become
//! empty slices.
use crate::{sys, Error, Result, Status};
use std::os::raw::c_char;
use std::path::Path;

handle!(
    /// Bytes that the library made.
    Bytes,
    rl_bytes,
    rl_bytes_release
);

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes live as long as the handle.
        unsafe {
            slice(sys::rl_bytes_data(self.as_ptr()).cast(), sys::rl_bytes_size(self.as_ptr()))
        }
    }

    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_slice()).into_owned()
    }

    /// The bytes as token ids.
    pub fn to_ids(&self) -> Vec<i32> {
        let whole = self.as_slice().chunks_exact(std::mem::size_of::<i32>());
        whole.map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

/// A slice over what librl returned; empty for NULL.
///
/// # Safety
/// `data` is NULL or points to `len` elements that live and stay for `'a`.
pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, len)
}

/// As [`slice`], for an array that the host fills.
///
/// # Safety
/// As of [`slice`], and nothing else refers to the elements.
pub unsafe fn slice_mut<'a, T>(data: *mut T, len: usize) -> &'a mut [T] {
    if data.is_null() || len == 0 {
        return &mut [];
    }
    std::slice::from_raw_parts_mut(data, len)
}

/// Text that librl returned with its length.
///
/// # Safety
/// As of [`slice`].
pub unsafe fn counted<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a str> {
    std::str::from_utf8(slice(data.cast(), len))
        .map_err(|e| Error::of_host(Status::Internal, what, &format!("{what} is not UTF-8: {e}")))
}

/// Text of librl that ends with NUL; empty for NULL, and for what is not UTF-8, which librl never
/// returns.
///
/// # Safety
/// `text` is NULL or points to NUL-terminated text that lives for `'a`.
pub unsafe fn terminated<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    std::ffi::CStr::from_ptr(text).to_str().unwrap_or("")
}

/// The pointer of an array that may be left out: NULL when it is empty.
pub fn optional<T>(array: &[T]) -> *const T {
    if array.is_empty() {
        return std::ptr::null();
    }
    array.as_ptr()
}

/// A text in the notation of JSON.
pub fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out + "\""
}

/// A path as the text that librl takes.
pub fn path_text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let text = format!("the path {} is not UTF-8", path.display());
        Error::of_host(Status::InvalidArgument, "path", &text)
    })
}

/// A time to wait in nanoseconds: None waits for ever.
pub fn timeout_ns(timeout: Option<std::time::Duration>) -> i64 {
    timeout.map_or(-1, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX))
}

/// `Err` unless an array that goes with others has their length; a length of 0 is one left out.
pub fn same_length(what: &str, seen: usize, wanted: usize) -> Result<()> {
    if seen == 0 || seen == wanted {
        return Ok(());
    }
    let text = format!("{what} has {seen} entries, expected {wanted}");
    Err(Error::of_host(Status::InvalidArgument, what, &text))
}
