//! A store of the host for groups between processes that sample and one that trains.
use crate::callbacks::guarded;
use crate::files::{coded, describe};
use crate::sys;
use crate::text::slice;
use std::io::{Error, ErrorKind, Result};
use std::os::raw::{c_char, c_void};
use std::ptr;

const EIO: i32 = 5;

/// A store of groups, such as a queue, for [`crate::Buffer::stored`]. It is called on every thread,
/// several at once, and may call nothing of the library that is not callback-safe. It may deliver a
/// group several times and in any order: a group is trained on once. An error fails the call of the
/// library as [`crate::Status::Io`], with its text.
pub trait Store: Send + Sync {
    /// Keeps a group durably; one of the same name that waits may be replaced.
    fn put(&self, name: &str, group: &[u8]) -> Result<()>;
    /// Calls `found` for groups that nobody has claimed, at most so many, each with the token of
    /// its delivery; they are claimed from then on. It waits for none, and returns the error of
    /// `found`.
    fn claim(
        &self,
        max_groups: u64,
        found: &mut dyn FnMut(&str, &[u8]) -> Result<()>,
    ) -> Result<()>;
    /// Makes groups that were claimed and not acknowledged claimable again, also those that other
    /// processes have claimed.
    fn recover(&self) -> Result<()>;
    /// Forgets a group, which may be gone already.
    fn acknowledge(&self, token: &str) -> Result<()>;
    /// Keeps a group that cannot be read where nobody claims it; it may be gone already.
    fn set_aside(&self, token: &str) -> Result<()>;
    /// The book, which says which groups were trained on; None if there is none.
    fn read_book(&self) -> Result<Option<Vec<u8>>>;
    /// Keeps the book durably, in place of the one before, in one go.
    fn write_book(&self, book: &[u8]) -> Result<()>;
}

type Held = Box<dyn Store>;

/// The struct for the library, which takes the store over with it.
pub(crate) fn table(store: impl Store + 'static) -> sys::rl_store {
    let held: Held = Box::new(store);
    // SAFETY: the struct is this function's.
    let mut table = unsafe { initial!(rl_store, rl_store_init) };
    table.user_data = Box::into_raw(Box::new(held)).cast();
    table.destroy = Some(destroy);
    table.put = Some(put);
    table.claim = Some(claim);
    table.recover = Some(recover);
    table.acknowledge = Some(acknowledge);
    table.set_aside = Some(set_aside);
    table.read_book = Some(read_book);
    table.write_book = Some(write_book);
    table.describe = Some(describe);
    table
}

unsafe fn store<'a>(user_data: *mut c_void) -> &'a dyn Store {
    &**user_data.cast::<Held>()
}

/// A name of the library's, or a token that the host gave it.
unsafe fn name<'a>(text: *const c_char, len: usize) -> Result<&'a str> {
    std::str::from_utf8(slice(text.cast(), len))
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "the name is not UTF-8"))
}

/// Hands a group or the book to the library, which copies it.
unsafe fn give(
    found: sys::rl_store_found_fn,
    context: *mut c_void,
    token: Option<&str>,
    data: &[u8],
) -> Result<()> {
    let (text, len) = token.map_or((ptr::null(), 0), |t| (t.as_ptr(), t.len()));
    let taken = found.map_or(EIO, |take| {
        take(context, text.cast(), len, data.as_ptr().cast(), data.len() as u64)
    });
    if taken == 0 {
        Ok(())
    } else {
        Err(Error::from_raw_os_error(taken))
    }
}

unsafe extern "C" fn destroy(user_data: *mut c_void) {
    guarded(|| {
        drop(Box::from_raw(user_data.cast::<Held>()));
        Some(())
    });
}

unsafe extern "C" fn put(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
    data: *const c_void,
    size: u64,
) -> i32 {
    coded(|| store(user_data).put(name(text, len)?, slice(data.cast(), size as usize)))
}

unsafe extern "C" fn claim(
    user_data: *mut c_void,
    max_groups: u64,
    found: sys::rl_store_found_fn,
    context: *mut c_void,
) -> i32 {
    coded(|| {
        store(user_data)
            .claim(max_groups, &mut |token, group| give(found, context, Some(token), group))
    })
}

unsafe extern "C" fn recover(user_data: *mut c_void) -> i32 {
    coded(|| store(user_data).recover())
}

unsafe extern "C" fn acknowledge(user_data: *mut c_void, text: *const c_char, len: usize) -> i32 {
    coded(|| store(user_data).acknowledge(name(text, len)?))
}

unsafe extern "C" fn set_aside(user_data: *mut c_void, text: *const c_char, len: usize) -> i32 {
    coded(|| store(user_data).set_aside(name(text, len)?))
}

unsafe extern "C" fn read_book(
    user_data: *mut c_void,
    found: sys::rl_store_found_fn,
    context: *mut c_void,
) -> i32 {
    coded(|| match store(user_data).read_book()? {
        Some(book) => give(found, context, None, &book),
        None => Ok(()),
    })
}

unsafe extern "C" fn write_book(user_data: *mut c_void, data: *const c_void, size: u64) -> i32 {
    coded(|| store(user_data).write_book(slice(data.cast(), size as usize)))
}
