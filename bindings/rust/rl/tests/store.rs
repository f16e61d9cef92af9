//! A store of the host in Rust: groups in memory, on their way from buffer to buffer.
mod common;

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
struct Groups {
    ready: BTreeMap<String, Vec<u8>>,
    claimed: BTreeMap<String, Vec<u8>>,
    damaged: BTreeMap<String, Vec<u8>>,
    book: Option<Vec<u8>>,
    gone: bool,
    panics: bool,
}

#[derive(Clone)]
struct Queue {
    groups: Arc<Mutex<Groups>>,
    _dropped: Arc<common::CountDrop>,
}

impl Queue {
    fn new(drops: &Arc<AtomicUsize>) -> Self {
        let _dropped = Arc::new(common::CountDrop(Arc::clone(drops)));
        Self { groups: Arc::default(), _dropped }
    }
    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap()
    }
}

impl rl::Store for Queue {
    fn put(&self, name: &str, group: &[u8]) -> Result<()> {
        self.groups().ready.insert(name.to_string(), group.to_vec());
        Ok(())
    }
    fn claim(
        &self,
        max_groups: u64,
        found: &mut dyn FnMut(&str, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut groups = self.groups();
        if groups.gone {
            return Err(Error::new(ErrorKind::ConnectionReset, "the queue is gone"));
        }
        for _ in 0..max_groups {
            let token = match groups.ready.keys().next() {
                Some(token) => token.clone(),
                None => break,
            };
            let group = groups.ready.remove(&token).unwrap();
            groups.claimed.insert(token.clone(), group.clone());
            found(&token, &group)?;
        }
        Ok(())
    }
    fn recover(&self) -> Result<()> {
        let mut groups = self.groups();
        let claimed = std::mem::take(&mut groups.claimed);
        groups.ready.extend(claimed);
        Ok(())
    }
    fn acknowledge(&self, token: &str) -> Result<()> {
        if self.groups().panics {
            panic!("no ink");
        }
        self.groups().claimed.remove(token);
        Ok(())
    }
    fn set_aside(&self, token: &str) -> Result<()> {
        let mut groups = self.groups();
        let group = groups.claimed.remove(token).unwrap();
        groups.damaged.insert(token.to_string(), group);
        Ok(())
    }
    fn read_book(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.groups().book.clone())
    }
    fn write_book(&self, book: &[u8]) -> Result<()> {
        self.groups().book = Some(book.to_vec());
        Ok(())
    }
}

fn opened(queue: &Queue) -> rl::Buffer {
    let mut options = rl::Options::new().unwrap();
    options.set("pipeline.samples_per_prompt", "1").unwrap();
    rl::Buffer::stored(&options, 16, queue.clone()).unwrap()
}

fn put(buffer: &rl::Buffer, ordinal: u64) {
    let sample = rl::Sample::new(&[1, 2, 3], 1).ordinal(ordinal).sample_id(ordinal + 1);
    buffer.put(&sample.reward(Some(0.5))).unwrap();
}

fn take(buffer: &rl::Buffer, step: u64) -> rl::Result<rl::Outcome<rl::Batch>> {
    buffer.take(&rl::Groups::default().step(step), Some(Duration::ZERO))
}

fn count(buffer: &rl::Buffer, step: u64) -> usize {
    take(buffer, step).unwrap().ready().map_or(0, |batch| batch.len())
}

#[test]
fn groups_go_through_a_store_of_the_host_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let queue = Queue::new(&drops);
    let (sampler, trainer) = (opened(&queue), opened(&queue));
    (0..3).for_each(|ordinal| put(&sampler, ordinal));
    assert_eq!((count(&trainer, 1), queue.groups().claimed.len()), (3, 3));
    drop(trainer); // it died before the step was durable
    let trainer = opened(&queue);
    trainer.resume(0).unwrap();
    assert_eq!(count(&trainer, 1), 3);
    trainer.acknowledge(1).unwrap();
    assert!(queue.groups().claimed.is_empty());
    put(&sampler, 1);
    assert_eq!(count(&trainer, 2), 0);
    let stats = trainer.stats().unwrap();
    assert_eq!((stats.duplicate_groups, stats.acknowledged_groups), (1, 3));
    put(&sampler, 9);
    queue.groups().ready.values_mut().for_each(|group| group[60] ^= 1);
    assert_eq!(take(&trainer, 2).unwrap_err().status, rl::Status::DataLoss);
    assert_eq!(queue.groups().damaged.len(), 1);
    drop((sampler, trainer, queue));
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn errors_and_panics_of_a_store_fail_the_call() {
    let queue = Queue::new(&Arc::default());
    let buffer = opened(&queue);
    put(&buffer, 0);
    queue.groups().gone = true;
    let failed = take(&buffer, 1).unwrap_err();
    assert_eq!(failed.status, rl::Status::Io);
    assert!(failed.message.contains("the queue is gone"), "{}", failed.message);
    queue.groups().gone = false;
    assert_eq!(count(&buffer, 1), 1);
    queue.groups().panics = true;
    let failed = buffer.acknowledge(1).unwrap_err();
    assert_eq!(failed.status, rl::Status::Io);
    assert!(failed.message.contains("panicked"), "{}", failed.message);
}
