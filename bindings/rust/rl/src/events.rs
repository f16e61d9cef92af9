//! Events one after the other: of a pipeline, or of a queue.
use crate::{Event, EventQueue, Outcome, Pipeline, Result};
use std::time::Duration;

/// What events are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Pipeline(&'a Pipeline),
    Queue(&'a EventQueue),
}

impl Source<'_> {
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Result<Outcome<Event>> {
        match self {
            Source::Pipeline(pipeline) => pipeline.next(timeout),
            Source::Queue(queue) => queue.next(timeout),
        }
    }
}

/// Iterator of [`Pipeline::events`] and [`EventQueue::events`].
#[derive(Debug)]
pub struct Events<'a> {
    source: Source<'a>,
    ended: bool,
}

impl<'a> Events<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self { source, ended: false }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.source.next(None).map(Outcome::ready).transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
