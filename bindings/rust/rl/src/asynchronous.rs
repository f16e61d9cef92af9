//! Events as futures that need no executor of their own. One helper thread waits in poll(2) for the
//! queue's descriptor while a future is pending, and wakes it; nothing runs on it but the waker.
use crate::events::Source;
use crate::{Event, EventQueue, Outcome, Pipeline, Result};
use std::future::Future;
use std::io::Write;
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Events of a pipeline or a queue as futures.
#[derive(Debug)]
pub struct AsyncEvents<'a> {
    source: Source<'a>,
    shared: Arc<Shared>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
    _queue: Option<EventQueue>, // keeps a pipeline's descriptor
}

/// The next event: None at the end of the pipeline or after an interrupt. One that is dropped while
/// it is pending loses no event.
#[derive(Debug)]
pub struct NextEvent<'a, 'b> {
    events: &'b AsyncEvents<'a>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    waker: Option<Waker>,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until somebody wants to be woken; false when nobody ever will.
    fn wait_for_waker(&self) -> bool {
        let mut wanted = self.lock();
        while wanted.waker.is_none() && !wanted.stopped {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        !wanted.stopped
    }

    fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<'a> AsyncEvents<'a> {
    pub(crate) fn of_pipeline(pipeline: &'a Pipeline) -> Result<Self> {
        let queue = pipeline.queue()?;
        let descriptor = queue.as_raw_fd();
        Self::new(Source::Pipeline(pipeline), descriptor, Some(queue))
    }

    pub(crate) fn of_queue(queue: &'a EventQueue) -> Result<Self> {
        Self::new(Source::Queue(queue), queue.as_raw_fd(), None)
    }

    fn new(source: Source<'a>, descriptor: RawFd, queue: Option<EventQueue>) -> Result<Self> {
        let (stop, stopped) = UnixStream::pair().map_err(of_system)?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let wait = move || {
            while seen.wait_for_waker() {
                wait_readable(descriptor, stopped.as_raw_fd());
                seen.wake();
            }
        };
        let thread =
            thread::Builder::new().name("rl-events".to_string()).spawn(wait).map_err(of_system)?;
        Ok(Self { source, shared, stop, thread: Some(thread), _queue: queue })
    }

    /// One future at a time: a later one takes the place of an earlier one.
    #[allow(clippy::should_implement_trait)] // the name that async iterators have
    pub fn next(&mut self) -> NextEvent<'a, '_> {
        NextEvent { events: self }
    }
}

impl Drop for AsyncEvents<'_> {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        // The other end lives as long as the thread, and its buffer has room for one byte.
        let _ = self.stop.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it only fails when a waker panicked
        }
    }
}

impl Future for NextEvent<'_, '_> {
    type Output = Option<Result<Event>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.events.source.next(Some(Duration::ZERO)) {
            // The descriptor stays readable while there is something to say, so nothing is lost in
            // between.
            Ok(Outcome::Timeout) => {
                self.events.shared.lock().waker = Some(context.waker().clone());
                self.events.shared.changed.notify_all();
                Poll::Pending
            }
            other => Poll::Ready(other.map(Outcome::ready).transpose()),
        }
    }
}

/// Runs a future on this thread to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
}

/// Waits until one of both can be read. A signal ends it too, which a waker may do at any time.
fn wait_readable(first: RawFd, second: RawFd) {
    const POLLIN: c_short = 1;
    let mut fds = [first, second].map(|fd| PollFd { fd, events: POLLIN, revents: 0 });
    // SAFETY: the array has as many entries as the call is told.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, -1) };
}

fn of_system(error: std::io::Error) -> crate::Error {
    crate::Error::of_host(crate::Status::Io, "", &format!("cannot wait for events: {error}"))
}
