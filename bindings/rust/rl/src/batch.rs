//! A list of samples.
use crate::text::{optional, Bytes};
use crate::{sys, Result, Sample, SampleArray, Tensor};
use std::ptr;

handle!(
    /// Samples that an engine drew or a buffer gave. Samples of it borrow from it.
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

    /// Sets the reward of sample `index`, without kinds of reward beside it. Samples taken before
    /// end, hence `&mut`.
    pub fn set_reward(&mut self, index: usize, reward: f64) -> Result<()> {
        self.set_reward_parts(index, reward, &[])
    }

    /// The same with kinds of reward beside the reward.
    pub fn set_reward_parts(&mut self, index: usize, reward: f64, parts: &[f64]) -> Result<()> {
        self.set_score(index, raw_score(0, reward, parts))
    }

    /// The same with what each token after the prompt earns in addition.
    pub fn set_token_rewards(&mut self, index: usize, reward: f64, tokens: &[f64]) -> Result<()> {
        self.set_score(index, with_token_rewards(raw_score(0, reward, &[]), tokens))
    }

    /// What the score points to must live.
    fn set_score(&mut self, index: usize, score: sys::rl_score) -> Result<()> {
        // SAFETY: no sample borrows from the batch.
        unsafe { call!(rl_batch_score(self.as_ptr(), index, &score, 1)) }
    }
}

/// All samples of a batch.
fn raw_part(batch: &Batch) -> sys::rl_batch_part {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_batch_part, rl_batch_part_init) };
    raw.batch = batch.as_ptr();
    raw
}

/// An entry for `rl_batch_score` and `rl_pipeline_score`, which points to the parts.
pub(crate) fn raw_score(sample_id: u64, reward: f64, parts: &[f64]) -> sys::rl_score {
    // SAFETY: the function writes the struct that it is given.
    let mut raw = unsafe { initial!(rl_score, rl_score_init) };
    raw.sample_id = sample_id;
    raw.reward = reward;
    raw.parts = optional(parts);
    raw.num_parts = parts.len();
    raw
}

/// The same with token rewards, to which it points too.
pub(crate) fn with_token_rewards(mut raw: sys::rl_score, rewards: &[f64]) -> sys::rl_score {
    raw.token_rewards = optional(rewards);
    raw.num_token_rewards = rewards.len();
    raw
}
