//! The memory of a run before anything of it is allocated.
use crate::options::handle_or_null;
use crate::text::{terminated, Bytes};
use crate::{sys, Device, Dtype, KnobEffect, Options, PlanKind, Result, Runtime, Use};

handle!(
    /// What a run will need, from options and the header of `model.path` alone.
    Plan,
    rl_plan,
    rl_plan_release
);

returned!(
    /// Totals of a plan, and the sizes that it chose.
    PlanInfo = rl_plan_info {
        /// `arena_bytes` + `baseline_bytes`: what the budget bounds.
        total_bytes: u64,
        /// All arenas, exact.
        arena_bytes: u64,
        /// An estimate of memory outside arenas.
        baseline_bytes: u64,
        /// 0: no limit.
        budget_bytes: u64,
        /// Tokens of the longest sequence.
        max_model_len: i64,
        /// Rows of a training micro-batch; 0 without a trainer and forwards.
        max_tokens: i64,
        /// Blocks in the KV pool of each engine; 0 without one.
        kv_blocks: i64,
        threads: i64,
        /// Of the computation.
        dtype: Dtype,
        /// `total_bytes` of the smallest plan of these options.
        least_bytes: u64,
    }
);

/// An arena, or a part of the arena that rollout and training share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanItem {
    pub name: String,
    pub phase: String,
    pub bytes: u64,
    pub kind: PlanKind,
    /// Whose memory it is.
    pub device: Device,
    pub device_index: i32,
    /// The model that it is for, such as "critic"; empty: not for one of them alone.
    pub role: String,
}

/// An option that takes less memory with another value. What it does is counted after the knobs
/// before it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Knob {
    pub key: String,
    /// Its present value.
    pub value: String,
    /// The value to set.
    pub proposed: String,
    /// By which the smallest plan shrinks.
    pub saved_bytes: u64,
    /// Estimated time of a step with the knob turned, divided by that before.
    pub time_ratio: f64,
    pub effect: KnobEffect,
}

impl Eq for Knob {} // a time ratio is a number

impl Knob {
    /// # Safety
    /// The texts are those of a struct that the library filled in, and live.
    pub(crate) unsafe fn from_raw(raw: &sys::rl_knob) -> Self {
        Knob {
            key: terminated(raw.key).to_string(),
            value: terminated(raw.value).to_string(),
            proposed: terminated(raw.proposed).to_string(),
            saved_bytes: raw.saved_bytes,
            time_ratio: raw.time_ratio,
            effect: KnobEffect::from_raw(raw.effect),
        }
    }
}

returned!(
    /// What a machine can do, for estimates of time; `Runtime::probe` measures it.
    #[derive(Copy)]
    Machine = rl_machine {
        /// Of matrix products in fp32, per second; a multiply-add is two.
        f32_flops: f64,
        /// Of those in bf16.
        bf16_flops: f64,
        /// Of memory, beyond the caches.
        read_bytes_per_s: f64,
        /// Of memory, by bytes written.
        copy_bytes_per_s: f64,
        /// That all rates are for.
        threads: i64,
    }
);

impl Machine {
    /// Rates that are known otherwise.
    pub fn new(
        f32_flops: f64,
        bf16_flops: f64,
        read_bytes_per_s: f64,
        copy_bytes_per_s: f64,
        threads: i64,
    ) -> Self {
        Machine { f32_flops, bf16_flops, read_bytes_per_s, copy_bytes_per_s, threads }
    }
}

returned!(
    /// An estimate of the seconds of a step; 0 for what a use does not have.
    #[derive(Copy)]
    StepTime = rl_step_time {
        total_s: f64,
        /// Prompts and decoding.
        rollout_s: f64,
        /// Forwards of reference, critic, reward model and teacher.
        logprob_s: f64,
        /// Forwards and backwards, of the critic too.
        train_s: f64,
        /// The optimizer.
        update_s: f64,
        /// New weights to the engine.
        publish_s: f64,
    }
);

impl Plan {
    /// A plan with the fastest setting that fits the budget, and the estimated time of a step.
    /// Without options those of the runtime hold; without rates the machine is probed. Knobs that
    /// change more than `most` are not turned.
    pub fn fit<'a>(
        runtime: &Runtime,
        options: impl Into<Option<&'a Options>>,
        usage: Use,
        machine: Option<&Machine>,
        most: KnobEffect,
    ) -> Result<(Self, StepTime)> {
        let options = handle_or_null(options.into());
        let runtime = runtime.as_ptr();
        // SAFETY: options and rates are copied.
        unsafe {
            let mut rates = initial!(rl_machine, rl_machine_init);
            let mut given = std::ptr::null();
            if let Some(machine) = machine {
                rates.f32_flops = machine.f32_flops;
                rates.bf16_flops = machine.bf16_flops;
                rates.read_bytes_per_s = machine.read_bytes_per_s;
                rates.copy_bytes_per_s = machine.copy_bytes_per_s;
                rates.threads = machine.threads;
                given = &rates as *const _;
            }
            let mut time = initial!(rl_step_time, rl_step_time_init);
            let (usage, most) = (usage.raw(), most.raw());
            let plan =
                object_of!(Self, rl_plan_fit(runtime, options, usage, given, most, &mut time))?;
            Ok((plan, StepTime::from_raw(&time)))
        }
    }

    pub fn new(options: &Options, usage: Use) -> Result<Self> {
        // SAFETY: options are only read.
        unsafe { object_of!(Self, rl_plan_create(options.as_ptr(), usage.raw())) }
    }

    /// The model is read through the files of a runtime; without options those of the runtime hold.
    pub fn hosted<'a>(
        runtime: &Runtime,
        options: impl Into<Option<&'a Options>>,
        usage: Use,
    ) -> Result<Self> {
        let options = handle_or_null(options.into());
        // SAFETY: options are copied.
        unsafe { object_of!(Self, rl_plan_create_hosted(runtime.as_ptr(), options, usage.raw())) }
    }

    pub fn info(&self) -> Result<PlanInfo> {
        // SAFETY: the handle is this object's.
        unsafe { struct_of!(rl_plan_info, rl_plan_info_init, rl_plan_get_info(self.as_ptr())) }
            .map(|raw| PlanInfo::from_raw(&raw))
    }

    /// A copy of the options that the plan was made for.
    pub fn options(&self) -> Result<Options> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Options, rl_plan_options(self.as_ptr())) }
    }

    /// The items, arenas first.
    pub fn items(&self) -> Result<Vec<PlanItem>> {
        // SAFETY: texts are copied while the plan lives.
        unsafe {
            let plan = self.as_ptr();
            let item = |i| {
                let raw = struct_of!(rl_plan_item, rl_plan_item_init, rl_plan_at(plan, i))?;
                Ok(PlanItem {
                    name: terminated(raw.name).to_string(),
                    phase: terminated(raw.phase).to_string(),
                    bytes: raw.bytes,
                    kind: PlanKind::from_raw(raw.kind),
                    device: Device::from_raw(raw.device),
                    device_index: raw.device_index,
                    role: terminated(raw.role).to_string(),
                })
            };
            (0..sys::rl_plan_count(plan)).map(item).collect()
        }
    }

    /// The knobs that save memory, in the order to turn them.
    pub fn knobs(&self) -> Result<Vec<Knob>> {
        // SAFETY: texts are copied while the plan lives.
        unsafe {
            let plan = self.as_ptr();
            let knob = |i| {
                let raw = struct_of!(rl_knob, rl_knob_init, rl_plan_knob_at(plan, i))?;
                Ok(Knob::from_raw(&raw))
            };
            (0..sys::rl_plan_knob_count(plan)).map(knob).collect()
        }
    }

    /// The plan as a table for people.
    pub fn text(&self) -> Result<String> {
        // SAFETY: the handle is this object's.
        unsafe { object_of!(Bytes, rl_plan_text(self.as_ptr())) }.map(|text| text.to_text())
    }
}
