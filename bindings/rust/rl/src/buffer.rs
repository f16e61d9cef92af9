//! Scored samples on their way to a trainer. They gather to groups by ordinal.
use crate::error::outcome;
use crate::model::save_flags;
use crate::options::handle_or_null;
use crate::store::{table, Store};
use crate::text::{path_text, timeout_ns};
use crate::{sys, Batch, EventQueue, Model, Options, Outcome, Result, Runtime, Sample};
use std::path::Path;
use std::ptr;
use std::time::Duration;

handle!(
    /// Holds samples until their groups are whole.
    ///
    /// ```
    /// # fn main() -> rl::Result<()> {
    /// let buffer = rl::Buffer::new(None, 64)?;
    /// let groups = rl::Groups::default().min(4).max(8).version(12);
    /// let soon = std::time::Duration::from_millis(1);
    /// assert!(matches!(buffer.take(&groups, Some(soon))?, rl::Outcome::Timeout));
    /// # Ok(())
    /// # }
    /// ```
    Buffer,
    rl_buffer,
    rl_buffer_destroy
);

returned!(
    /// What a buffer file says of itself; 0 is what its writer did not know.
    BufferFileInfo = rl_buffer_file_info {
        /// Number of the training step, from 1, whose batch it holds; 0: of none.
        step: u64,
        /// Samples of a complete group.
        group_size: u64,
        /// Token budget of a micro-batch in its run, which a replay's trainer must use.
        max_tokens_per_device: u64,
        /// [`Options::identity`] of its run.
        options_identity: u64,
        /// Version of the weights that training on it starts from.
        weight_version: u64,
        /// [`Model::digest`] of these weights.
        weight_digest: u64,
        /// Vocabulary of the model.
        vocab: u64,
        /// Whether version, digest and vocabulary are valid.
        has_model: bool,
    }
);

returned!(
    /// What a buffer holds, and counts of samples since it was created: put = taken + dropped +
    /// stale + stored + samples.
    BufferStats = rl_buffer_stats {
        /// Now.
        samples: u64,
        /// Now, with those that are not complete.
        groups: u64,
        /// Now.
        whole_groups: u64,
        put: u64,
        taken: u64,
        dropped: u64,
        /// Removed by [`Buffer::take`] because of `buffer.max_staleness`.
        stale: u64,
        /// Given to a store.
        stored: u64,
        /// Trained by steps that are durable.
        acknowledged_groups: u64,
        /// Delivered again by the store, and dropped.
        duplicate_groups: u64,
        /// Set aside because they could not be read.
        damaged_groups: u64,
        /// Now, those that wait in files of `buffer.spill_path`.
        spilled_groups: u64,
    }
);

given!(
    /// Which whole groups [`Buffer::take`] gives; by default all, and at least one.
    #[derive(Clone, Debug)]
    Groups {
        /// Wait for so many.
        min: u64,
        max: u64,
        /// Of the weights that are to be trained, for `buffer.max_staleness`.
        version: u64,
        /// The training step that they are for, with a store.
        step: u64,
    }
);

impl Default for Groups {
    fn default() -> Self {
        Self { min: 1, max: u64::MAX, version: 0, step: 0 }
    }
}

given!(
    /// Which groups [`Buffer::discard`] removes: those that every field admits, by default all.
    #[derive(Clone, Debug, Default)]
    Discard<'a> {
        /// None: of every ordinal.
        ordinals: Option<&'a [u64]>,
        /// Groups of an older version; 0: of every one.
        below_version: u64,
        /// Only groups that are not whole.
        incomplete_only: bool,
    }
);

impl Buffer {
    pub fn new<'a>(options: impl Into<Option<&'a Options>>, max_samples: u64) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_buffer_create(options, max_samples)) }
    }

    /// A buffer whose whole groups go to a store of the host; [`Buffer::take`] claims them there.
    /// `max_samples` bounds those that are here.
    pub fn stored<'a>(
        options: impl Into<Option<&'a Options>>,
        max_samples: u64,
        store: impl Store + 'static,
    ) -> Result<Self> {
        let (options, store) = (handle_or_null(options.into()), table(store));
        // SAFETY: options are copied, and so is the struct, with which the library takes the store.
        unsafe { object_of!(Self, rl_buffer_create_stored(options, max_samples, &store)) }
    }

    pub fn put(&self, sample: &Sample<'_>) -> Result<()> {
        let view = sample.to_raw()?;
        // SAFETY: the sample's arrays live during the call and are copied.
        unsafe { call!(rl_buffer_put(self.as_ptr(), &view)) }
    }

    /// Copies every sample of a batch, or none.
    pub fn put_batch(&self, batch: &Batch) -> Result<()> {
        // SAFETY: the samples are copied.
        unsafe { call!(rl_buffer_put_batch(self.as_ptr(), batch.as_ptr())) }
    }

    /// Removes whole groups, those of `buffer.policy` first, and waits for `groups.min` of them;
    /// without a timeout for ever. A timeout when they did not come, done when the buffer ended.
    pub fn take(&self, groups: &Groups, timeout: Option<Duration>) -> Result<Outcome<Batch>> {
        let mut batch = ptr::null_mut();
        // SAFETY: the struct lives during the call.
        let status = unsafe {
            let mut take = initial!(rl_take, rl_take_init);
            (take.min_groups, take.max_groups) = (groups.min, groups.max);
            (take.version, take.step) = (groups.version, groups.step);
            status_of!(rl_buffer_take(self.as_ptr(), &take, timeout_ns(timeout), &mut batch))
        }?;
        Ok(outcome(status, || Batch::from_raw(batch)))
    }

    /// The weights of a training step are durable: the groups that were taken for it and for
    /// earlier steps leave the store.
    pub fn acknowledge(&self, step: u64) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_buffer_acknowledge(self.as_ptr(), step)) }
    }

    /// Training goes on after a step, that of a checkpoint or 0: groups that were taken for later
    /// ones come again.
    pub fn resume(&self, step: u64) -> Result<()> {
        // SAFETY: the handle is this object's.
        unsafe { call!(rl_buffer_resume(self.as_ptr(), step)) }
    }

    /// Removes groups, whole or not; the number of their samples.
    pub fn discard(&self, groups: &Discard<'_>) -> Result<u64> {
        // SAFETY: the ordinals live during the call.
        unsafe {
            let mut drop = initial!(rl_drop, rl_drop_init);
            if let Some(ordinals) = groups.ordinals {
                (drop.ordinals, drop.num_ordinals) = (ordinals.as_ptr(), ordinals.len());
            }
            drop.below_version = groups.below_version;
            drop.incomplete_only = u32::from(groups.incomplete_only);
            value_of!(0, rl_buffer_drop(self.as_ptr(), &drop))
        }
    }

    /// Sends the buffer's events to a queue from now on, with the number `source`; None: nowhere.
    /// [`EventKind::Groups`] says that whole groups wait: take them with a timeout of 0 until there
    /// are none. [`EventKind::GroupDropped`] says which group was removed, and why.
    ///
    /// [`EventKind::Groups`]: crate::EventKind::Groups
    /// [`EventKind::GroupDropped`]: crate::EventKind::GroupDropped
    pub fn set_queue(&self, queue: Option<&EventQueue>, source: u64) -> Result<()> {
        let queue = queue.map_or(ptr::null_mut(), |q| q.as_ptr());
        // SAFETY: the handles live during the call, and the library keeps the queue alive.
        unsafe { call!(rl_buffer_set_queue(self.as_ptr(), queue, source)) }
    }

    /// A copy of the options that the buffer was made with.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_buffer_options(self.as_ptr())) }
    }

    /// What the buffer holds, and its counts.
    pub fn stats(&self) -> Result<BufferStats> {
        let this = self.as_ptr();
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_buffer_stats, rl_buffer_stats_init, rl_buffer_get_stats(this)) }
            .map(|raw| BufferStats::from_raw(&raw))
    }

    /// Writes every sample held to a file; an existing one only with `replace`. `model` is what
    /// training on them starts from.
    pub fn save(&self, path: impl AsRef<Path>, model: Option<&Model>, replace: bool) -> Result<()> {
        let path = path_text(path.as_ref())?;
        let (text, len, flags) = (path.as_ptr().cast(), path.len(), save_flags(replace));
        // SAFETY: the path lives during the call.
        unsafe { call!(rl_buffer_save(self.as_ptr(), text, len, model_or_null(model), flags)) }
    }

    /// Adds every sample of a file; their number. With a model, training on them must start from
    /// its weights.
    pub fn load(&self, path: impl AsRef<Path>, model: Option<&Model>) -> Result<u64> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe { value_of!(0, rl_buffer_load(self.as_ptr(), text, len, model_or_null(model))) }
    }

    /// From now on files are those of a runtime; None: those of the system.
    pub fn set_runtime(&self, runtime: Option<&Runtime>) -> Result<()> {
        let files = runtime.map_or(ptr::null(), |r| r.as_ptr() as *const _);
        // SAFETY: the library keeps the runtime alive.
        unsafe { call!(rl_buffer_set_runtime(self.as_ptr(), files)) }
    }

    /// Reads the beginning of a buffer file through the files of a runtime.
    pub fn hosted_file_info(runtime: &Runtime, path: impl AsRef<Path>) -> Result<BufferFileInfo> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe {
            struct_of!(
                rl_buffer_file_info,
                rl_buffer_file_info_init,
                rl_buffer_get_hosted_file_info(runtime.as_ptr(), text, len)
            )
        }
        .map(|raw| BufferFileInfo::from_raw(&raw))
    }

    /// Reads the beginning of a buffer file.
    pub fn file_info(path: impl AsRef<Path>) -> Result<BufferFileInfo> {
        let path = path_text(path.as_ref())?;
        let (text, len) = (path.as_ptr().cast(), path.len());
        // SAFETY: the path lives during the call.
        unsafe {
            struct_of!(
                rl_buffer_file_info,
                rl_buffer_file_info_init,
                rl_buffer_get_file_info(text, len)
            )
        }
        .map(|raw| BufferFileInfo::from_raw(&raw))
    }
}

fn model_or_null(model: Option<&Model>) -> *const sys::rl_model {
    model.map_or(ptr::null(), |m| m.as_ptr() as *const _)
}
