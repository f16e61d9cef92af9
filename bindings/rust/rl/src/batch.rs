//! A list of samples.
use crate::text::{optional, Bytes};
use crate::{sys, Result, Sample, SampleArray, Score, Tensor};
use std::ptr;

handle!(
    /// Samples that an engine drew or a buffer gave. Samples of it borrow from it.
    ///
    /// ```
    /// # fn main() -> rl::Result<()> {
    /// let ids = [1, 2, 3];
    /// let sample = rl::Sample::new(&ids, 2).ordinal(7).reward(Some(0.5)).tag("of another engine");
    /// let batch = rl::Batch::new(&[sample])?;
    /// let again = rl::Batch::from_bytes(&batch.to_bytes()?)?;
    /// assert_eq!(again.sample(0)?.answer(), [3]);
    /// # Ok(())
    /// # }
    /// ```
    Batch,
    rl_batch,
    rl_batch_release
);

impl Batch {
    /// A batch of copies of samples, all of whose arrays are checked.
    pub fn new(samples: &[Sample<'_>]) -> Result<Self> {
        let views = samples.iter().map(Sample::to_raw).collect::<Result<Vec<_>>>()?;
        // SAFETY: what the views point to lives during the call and is copied.
        unsafe { object_of!(Self, rl_batch_create(optional(&views), views.len())) }
    }

    /// The samples of batches one after the other, with their present rewards.
    pub fn concat(batches: &[&Batch]) -> Result<Self> {
        let parts: Vec<_> = batches.iter().map(|batch| raw_part(batch)).collect();
        // SAFETY: the batches live during the call.
        unsafe { object_of!(Self, rl_batch_select(optional(&parts), parts.len())) }
    }

    /// The samples at these indices, in any order, also repeated, with their present rewards.
    pub fn select(&self, indices: &[usize]) -> Result<Self> {
        let mut part = raw_part(self);
        // A slice is never at NULL, which would stand for all samples.
        (part.indices, part.num_indices) = (indices.as_ptr(), indices.len());
        // SAFETY: batch and indices live during the call.
        unsafe { object_of!(Self, rl_batch_select(&part, 1)) }
    }

    /// The samples of what [`Batch::to_bytes`] or a buffer file holds. Bytes may come from
    /// anywhere: they are checked.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        // SAFETY: the bytes live during the call and are copied.
        unsafe { object_of!(Self, rl_batch_import(data.as_ptr().cast(), data.len())) }
    }

    /// The samples with their present rewards, for another process or a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_batch_export(self.as_ptr())) }
            .map(|bytes| bytes.as_slice().to_vec())
    }

    pub fn len(&self) -> usize {
        // SAFETY: the handle is this object's.
        unsafe { sys::rl_batch_count(self.as_ptr()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sample `index`, whose texts are empty: [`crate::Model::decode`] makes them.
    pub fn sample(&self, index: usize) -> Result<Sample<'_>> {
        let batch = self.as_ptr();
        // SAFETY: the arrays are the batch's; what would move them needs `&mut self`.
        unsafe {
            let raw =
                struct_of!(rl_sample_view, rl_sample_view_init, rl_batch_sample(batch, index))?;
            Sample::from_raw(&raw)
        }
    }

    /// All samples.
    pub fn samples(&self) -> Result<Vec<Sample<'_>>> {
        (0..self.len()).map(|i| self.sample(i)).collect()
    }

    /// An array of sample `index`, where it lies. It never changes, and outlives the batch.
    pub fn tensor(&self, index: usize, array: SampleArray) -> Result<Tensor> {
        // SAFETY: the handle is this object's.
        unsafe {
            object_of!(Tensor, rl_batch_tensor(self.as_ptr(), index, array.raw(), ptr::null()))
        }
    }

    /// Sets the reward of sample `index`, in place of an earlier one and of all beside it. Samples
    /// taken before end, hence `&mut`.
    pub fn set_reward(&mut self, index: usize, reward: f64) -> Result<()> {
        self.score(index, &[Score::new(0, reward)])
    }

    /// Sets the rewards of samples from sample `first` on, all of them or, after a failure, none.
    pub fn score(&mut self, first: usize, scores: &[Score<'_>]) -> Result<()> {
        let raw: Vec<_> = scores.iter().map(Score::to_raw).collect();
        // SAFETY: no sample borrows from the batch, and what the entries point to lives.
        unsafe { call!(rl_batch_score(self.as_ptr(), first, raw.as_ptr(), raw.len())) }
    }
}

/// All samples of a batch.
fn raw_part(batch: &Batch) -> sys::rl_batch_part {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_batch_part, rl_batch_part_init) };
    raw.batch = batch.as_ptr();
    raw
}
