//! Files of the host: models, data and checkpoints where the host keeps them.
use crate::callbacks::guarded;
use crate::text::{slice, slice_mut};
use crate::{sys, FileKind};
use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::os::raw::{c_char, c_void};

const ENOENT: i32 = 2;
const EIO: i32 = 5;

/// A file system of the host. It is called on every thread, several at once, and may call nothing
/// of the library that is not callback-safe. [`ErrorKind::NotFound`] means that there is no such
/// file; any other error fails the call of the library as [`crate::Status::Io`], with its text.
pub trait FileSystem: Send + Sync {
    /// Paths that begin with it are these files; empty: all paths.
    fn prefix(&self) -> &str {
        ""
    }
    /// Opens an existing file to read.
    fn open(&self, path: &str) -> Result<Box<dyn InputFile>>;
    /// Opens a file to write, empty or at its end.
    fn create(&self, path: &str, append: bool) -> Result<Box<dyn OutputFile>>;
    fn kind(&self, path: &str) -> Result<FileKind>;
    /// The names in a directory.
    fn list(&self, path: &str) -> Result<Vec<String>>;
    /// Makes a directory and those above it; no error if it exists.
    fn make_directories(&self, path: &str) -> Result<()>;
    /// Renames a file or a directory in one go; a file of that name is replaced.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file, or a directory with all in it; no error if nothing is there.
    fn remove(&self, path: &str) -> Result<()>;
    /// Makes durable which entries a directory has.
    fn sync_directory(&self, _path: &str) -> Result<()> {
        Ok(())
    }
}

/// A file of fixed size, read by several threads at once.
pub trait InputFile: Send + Sync {
    fn size(&self) -> u64;
    /// Fills all of `into`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;
}

/// A file that is written from here to its end.
pub trait OutputFile: Send {
    fn write(&mut self, data: &[u8]) -> Result<()>;
    /// Makes durable what was written.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    /// With `discard` the contents are not needed.
    fn close(self: Box<Self>, discard: bool) -> Result<()>;
}

/// What a token of the library's stands for.
enum Open {
    Input(Box<dyn InputFile>),
    Output(Box<dyn OutputFile>),
}

type Files = Box<dyn FileSystem>;

thread_local! {
    /// Of the last failure on this thread: the library asks at once.
    static LAST: RefCell<String> = RefCell::new(String::new());
}

/// The struct for the library, which consumes `files` with it. The prefix is the struct's to lend.
pub(crate) fn table(files: Files) -> sys::rl_files {
    // SAFETY: the struct is this function's.
    let mut table = unsafe { initial!(rl_files, rl_files_init) };
    let files = Box::new(files);
    table.prefix = files.prefix().as_ptr().cast();
    table.prefix_len = files.prefix().len();
    table.user_data = Box::into_raw(files).cast();
    table.destroy = Some(destroy);
    table.open = Some(open);
    table.create = Some(create);
    table.read = Some(read);
    table.write = Some(write);
    table.sync = Some(sync);
    table.close = Some(close);
    table.kind = Some(kind);
    table.list = Some(list);
    table.make_directories = Some(make_directories);
    table.rename = Some(rename);
    table.remove = Some(remove);
    table.sync_directory = Some(sync_directory);
    table.describe = Some(describe);
    table
}

/// Runs the host's part; its error, or its panic, becomes a code and the text of that code.
pub(crate) fn coded(work: impl FnOnce() -> Result<()>) -> i32 {
    let error = match guarded(|| Some(work())) {
        Some(Ok(())) => return 0,
        Some(Err(error)) => error,
        None => Error::new(ErrorKind::Other, "a function of the host panicked"),
    };
    LAST.with(|last| *last.borrow_mut() = error.to_string());
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) => ENOENT,
        (_, Some(code)) if code != 0 && code != ENOENT => code,
        _ => EIO,
    }
}

unsafe fn files<'a>(user_data: *mut c_void) -> &'a dyn FileSystem {
    &**user_data.cast::<Files>()
}

/// A path of the library's, which is UTF-8 as the host's was.
unsafe fn path<'a>(text: *const c_char, len: usize) -> Result<&'a str> {
    std::str::from_utf8(slice(text.cast(), len))
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "the path is not UTF-8"))
}

unsafe extern "C" fn destroy(user_data: *mut c_void) {
    guarded(|| {
        drop(Box::from_raw(user_data.cast::<Files>()));
        Some(())
    });
}

unsafe extern "C" fn open(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
    file: *mut *mut c_void,
    size: *mut u64,
) -> i32 {
    coded(|| {
        let input = files(user_data).open(path(text, len)?)?;
        *size = input.size();
        *file = Box::into_raw(Box::new(Open::Input(input))).cast();
        Ok(())
    })
}

unsafe extern "C" fn create(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
    append: u32,
    file: *mut *mut c_void,
) -> i32 {
    coded(|| {
        let output = files(user_data).create(path(text, len)?, append != 0)?;
        *file = Box::into_raw(Box::new(Open::Output(output))).cast();
        Ok(())
    })
}

fn misused<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Other, "the file was opened for something else"))
}

unsafe extern "C" fn read(
    _: *mut c_void,
    file: *mut c_void,
    offset: u64,
    data: *mut c_void,
    size: u64,
) -> i32 {
    coded(|| match &*file.cast::<Open>() {
        Open::Input(input) => input.read_at(offset, slice_mut(data.cast(), size as usize)),
        Open::Output(_) => misused(),
    })
}

unsafe extern "C" fn write(
    _: *mut c_void,
    file: *mut c_void,
    data: *const c_void,
    size: u64,
) -> i32 {
    coded(|| match &mut *file.cast::<Open>() {
        Open::Output(output) => output.write(slice(data.cast(), size as usize)),
        Open::Input(_) => misused(),
    })
}

unsafe extern "C" fn sync(_: *mut c_void, file: *mut c_void) -> i32 {
    coded(|| match &mut *file.cast::<Open>() {
        Open::Output(output) => output.sync(),
        Open::Input(_) => misused(),
    })
}

unsafe extern "C" fn close(_: *mut c_void, file: *mut c_void, discard: u32) -> i32 {
    coded(|| match *Box::from_raw(file.cast::<Open>()) {
        Open::Output(output) => output.close(discard != 0),
        Open::Input(_) => Ok(()),
    })
}

unsafe extern "C" fn kind(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
    out: *mut i32,
) -> i32 {
    coded(|| {
        *out = files(user_data).kind(path(text, len)?)?.raw();
        Ok(())
    })
}

unsafe extern "C" fn list(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
    found: sys::rl_file_found_fn,
    context: *mut c_void,
) -> i32 {
    coded(|| {
        for name in files(user_data).list(path(text, len)?)? {
            let taken = found.map_or(EIO, |take| take(context, name.as_ptr().cast(), name.len()));
            if taken != 0 {
                return Err(Error::from_raw_os_error(taken));
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn make_directories(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
) -> i32 {
    coded(|| files(user_data).make_directories(path(text, len)?))
}

unsafe extern "C" fn rename(
    user_data: *mut c_void,
    from: *const c_char,
    from_len: usize,
    to: *const c_char,
    to_len: usize,
) -> i32 {
    coded(|| files(user_data).rename(path(from, from_len)?, path(to, to_len)?))
}

unsafe extern "C" fn remove(user_data: *mut c_void, text: *const c_char, len: usize) -> i32 {
    coded(|| files(user_data).remove(path(text, len)?))
}

unsafe extern "C" fn sync_directory(
    user_data: *mut c_void,
    text: *const c_char,
    len: usize,
) -> i32 {
    coded(|| files(user_data).sync_directory(path(text, len)?))
}

/// Writes what the last code on this thread means.
pub(crate) unsafe extern "C" fn describe(
    _: *mut c_void,
    _: i32,
    text: *mut c_char,
    text_size: usize,
) {
    LAST.with(|last| {
        let last = last.borrow();
        let mut len = last.len().min(text_size - 1);
        while !last.is_char_boundary(len) {
            len -= 1;
        }
        let out: &mut [u8] = slice_mut(text.cast(), text_size);
        out[..len].copy_from_slice(&last.as_bytes()[..len]);
        out[len] = 0;
    });
}
