//! What a pipeline, a trainer, an engine or a buffer tells.
use crate::error::outcome;
use crate::events::Source;
use crate::text::{counted, terminated, timeout_ns};
use crate::{
    sys, AsyncEvents, DropReason, EventKind, Events, Outcome, Purpose, Result, Sample, SampleArray,
    Tensor,
};
use std::os::unix::io::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

handle!(
    /// An event. It may outlive its pipeline.
    Event,
    rl_event,
    rl_event_release
);

handle!(
    /// Where events wait: those of a pipeline, and of engines, buffers and trainers that were given
    /// it. Its descriptor is readable while [`EventQueue::next`] has something to say; it is for
    /// poll and epoll alone, and ends with the pipeline, the senders and every handle of the queue.
    EventQueue,
    rl_event_queue,
    rl_event_queue_release
);

/// The fields of an event; those that its kind does not use are 0, empty or None.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventView<'a> {
    pub kind: EventKind,
    pub reason: DropReason,
    pub step: u64,
    pub version: u64,
    pub ordinal: u64,
    pub data_row: Option<i64>,
    pub value: f64,
    pub count: u64,
    pub num_metrics: usize,
    pub text: &'a str,
    pub purpose: Purpose,
    /// Number of the sender, of its `set_queue`.
    pub source: u64,
}

impl Event {
    pub fn kind(&self) -> EventKind {
        // SAFETY: the handle is this object's.
        EventKind::from_raw(unsafe { sys::rl_event_kind(self.as_ptr()) })
    }

    pub fn view(&self) -> Result<EventView<'_>> {
        let event = self.as_ptr();
        // SAFETY: the text is the event's.
        unsafe {
            let raw = struct_of!(rl_event_view, rl_event_view_init, rl_event_get_view(event))?;
            Ok(EventView {
                kind: EventKind::from_raw(raw.kind),
                reason: DropReason::from_raw(raw.reason),
                step: raw.step,
                version: raw.version,
                ordinal: raw.ordinal,
                data_row: Some(raw.data_row).filter(|row| *row >= 0),
                value: raw.value,
                count: raw.count,
                num_metrics: raw.num_metrics,
                text: counted(raw.text, raw.text_len, "text")?,
                purpose: Purpose::from_raw(raw.purpose),
                source: raw.source,
            })
        }
    }

    /// The sample of an [`EventKind::Score`] or an [`EventKind::Turn`], and the first one of an
    /// [`EventKind::Group`].
    pub fn sample(&self) -> Result<Sample<'_>> {
        self.sample_at(0)
    }

    /// The samples of such an event, by slot.
    pub fn samples(&self) -> Result<Vec<Sample<'_>>> {
        let view = self.view()?;
        let count = if view.kind == EventKind::Group { view.count } else { 1 };
        (0..count as usize).map(|index| self.sample_at(index)).collect()
    }

    fn sample_at(&self, index: usize) -> Result<Sample<'_>> {
        let event = self.as_ptr();
        // SAFETY: the arrays are the event's.
        unsafe {
            let raw =
                struct_of!(rl_sample_view, rl_sample_view_init, rl_event_sample(event, index))?;
            Sample::from_raw(&raw)
        }
    }

    /// An array of sample `index` of the event, as [`crate::Batch::tensor`].
    pub fn tensor(&self, index: usize, array: SampleArray) -> Result<Tensor> {
        // SAFETY: the handle is this object's.
        unsafe {
            object_of!(Tensor, rl_event_tensor(self.as_ptr(), index, array.raw(), ptr::null()))
        }
    }

    /// A metric by name, such as "actor/pg_loss".
    pub fn metric(&self, name: &str) -> Result<f64> {
        let (text, len) = (name.as_ptr().cast(), name.len());
        // SAFETY: the name lives during the call.
        unsafe { value_of!(0.0, rl_event_metric_named(self.as_ptr(), text, len)) }
    }

    /// All metrics.
    pub fn metrics(&self) -> Result<Vec<(&str, f64)>> {
        let metric = |index| {
            let (mut name, mut value) = (ptr::null(), 0.0);
            // SAFETY: the name is the event's.
            unsafe {
                call!(rl_event_metric(self.as_ptr(), index, &mut name, &mut value))?;
                Ok((terminated(name), value))
            }
        };
        (0..self.view()?.num_metrics).map(metric).collect()
    }
}

impl EventQueue {
    /// A queue for engines, buffers and trainers.
    pub fn new() -> Result<Self> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Self, rl_event_queue_create()) }
    }

    /// The next event; without a timeout it waits for ever.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Outcome<Event>> {
        let mut event = ptr::null_mut();
        let ns = timeout_ns(timeout);
        // SAFETY: the handle is this object's.
        let status = unsafe { status_of!(rl_event_queue_next(self.as_ptr(), ns, &mut event)) }?;
        Ok(outcome(status, || Event::from_raw(event)))
    }

    /// All events; waits for each. It ends with the pipeline, if the queue is one's, or by an
    /// interrupt; a failure is the last item.
    pub fn events(&self) -> Events<'_> {
        Events::new(Source::Queue(self))
    }

    /// All events as futures, for any executor or [`crate::block_on`], by one helper thread. A host
    /// whose runtime watches descriptors can watch that of the queue instead, and call
    /// [`EventQueue::next`] with a timeout of 0 until nothing comes.
    pub fn async_events(&self) -> Result<AsyncEvents<'_>> {
        AsyncEvents::of_queue(self)
    }

    /// Makes one wait for an event, running or next, end as interrupted.
    pub fn interrupt(&self) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_event_queue_interrupt(self.as_ptr())) }
    }

    /// Events waiting now.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is this object's.
        unsafe { sys::rl_event_queue_size(self.as_ptr()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl AsRawFd for EventQueue {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the handle is this object's.
        unsafe { sys::rl_event_queue_fd(self.as_ptr()) }
    }
}
