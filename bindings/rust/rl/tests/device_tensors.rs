//! Tensors in the memory of a GPU, such as the emulated one.
mod common;

use common::{options, scored_group};
use rl::{Device, Dlpack, Place, Status, Stream, Tensor};

const NORM: &str = "model.norm.weight";
const GPU: Place = Place::gpu(0, Stream::PER_THREAD);

fn on_gpu() -> (rl::Runtime, rl::Model) {
    let mut options = options();
    options.set("runtime.device", "cuda").unwrap();
    let runtime = rl::Runtime::new(&options).unwrap();
    let model = rl::Model::open(&runtime, &options, rl::Use::Parts).unwrap();
    (runtime, model)
}

fn values_of(model: &rl::Model) -> Vec<f32> {
    model.weight(NORM).unwrap().as_slice().unwrap().to_vec()
}

#[test]
#[ignore = "needs a GPU"]
fn weight_crosses_by_dlpack_in_memory_of_the_gpu() {
    let (runtime, model) = on_gpu();
    let copy = model.weight_in(GPU, NORM).unwrap();
    let info = copy.info().unwrap();
    assert_eq!((info.device, info.device_index, info.read_only), (Device::Cuda, 0, false));
    assert_eq!(copy.as_slice::<f32>().unwrap_err().status, Status::Unsupported);
    let before = values_of(&model);
    let twice = before.iter().map(|x| x * 2.0).collect();
    let twice = Dlpack::from_vec(twice, info.shape).unwrap();
    let twice = Tensor::from_dlpack(&runtime, twice, false).unwrap();
    model.set_weights(&[(NORM, &twice)]).unwrap();
    assert_ne!(values_of(&model), before);
    let theirs = copy.to_dlpack_behind(Stream::LEGACY).unwrap();
    let theirs = Tensor::from_dlpack_behind(&runtime, theirs, false, Stream::LEGACY).unwrap();
    assert_eq!(model.set_weights(&[(NORM, &theirs)]).unwrap(), 2);
    assert_eq!(values_of(&model), before);
}

#[test]
#[ignore = "needs a GPU"]
fn other_devices_and_streams_are_refused() {
    let (_runtime, model) = on_gpu();
    let other = model.weight_in(Place::gpu(1, Stream::NONE), NORM).unwrap_err();
    assert_eq!(other.status, Status::Unsupported);
    let strange = Stream::from_raw(12345);
    let unknown = model.weight_in(Place::gpu(0, strange), NORM).unwrap_err();
    assert_eq!(unknown.status, Status::InvalidArgument);
    let copy = model.weight_in(GPU, NORM).unwrap();
    assert_eq!(copy.to_dlpack_behind(strange).unwrap_err().status, Status::InvalidArgument);
}

#[test]
#[ignore = "needs a GPU"]
fn gradients_are_in_memory_of_the_gpu() {
    let (_runtime, model) = on_gpu();
    let engine = rl::Engine::new(&model, None).unwrap();
    let trainer = rl::Trainer::new(&model, None).unwrap();
    let batch = scored_group(&engine);
    trainer.backward(&batch).unwrap();
    let copy = trainer.gradient_in(GPU, "").unwrap();
    assert_eq!(copy.info().unwrap().device, Device::Cuda);
    // SAFETY: nothing writes to it.
    let lent = unsafe { trainer.lend_gradient_in(GPU, NORM) }.unwrap();
    assert_eq!(lent.info().unwrap().device, Device::Cuda);
    let before = values_of(&model);
    trainer.apply().unwrap();
    assert_ne!(values_of(&model), before);
}
