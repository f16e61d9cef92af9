//! The plan as an adviser: knobs, and the fastest setting that fits.
mod common;

#[test]
fn a_fit_keeps_the_budget_and_a_refusal_has_knobs() {
    let mut options = common::options();
    let runtime = rl::Runtime::new(&options).unwrap();
    let machine = runtime.probe().unwrap();
    assert!(machine.f32_flops > 0.0 && machine.copy_bytes_per_s > 0.0 && machine.threads >= 1);
    let plan = rl::Plan::new(&options, rl::Use::Pipeline).unwrap();
    let least = plan.info().unwrap().least_bytes;
    assert!(plan.knobs().unwrap().iter().all(|knob| knob.value != knob.proposed));
    options.set("runtime.memory_budget_bytes", &least.to_string()).unwrap();
    let (usage, most) = (rl::Use::Pipeline, rl::KnobEffect::Speed);
    let (fit, time) = rl::Plan::fit(&runtime, &options, usage, Some(&machine), most).unwrap();
    assert!(fit.info().unwrap().total_bytes <= least && time.total_s > time.train_s);
    options.set("runtime.memory_budget_bytes", "1").unwrap();
    assert!(!rl::Plan::new(&options, usage).unwrap_err().knobs.is_empty());
}
