"""Tensors in the memory of a GPU, here the emulated one, cross by DLPack alone."""
import pytest

import rl

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
GPU = (rl.Device.CUDA, 0)
LEGACY, PER_THREAD = 1, 2


@pytest.fixture
def gpu(open_host):
    return open_host(runtime__device="cuda")


class Library:
    """Another library's tensor of the GPU, which notes how it is asked."""

    def __init__(self, tensor, device=GPU):
        self.tensor, self.device, self.asked = tensor, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.tensor.__dlpack__(**asked)


def in_host(host, name):
    return numpy.array(host.model.weight(name))


def test_a_weight_is_in_the_memory_that_is_asked_for(gpu):
    name = gpu.model.weight_names[0]
    live, copy = (gpu.model.weight(name, copy=copy, device=rl.Device.CUDA) for copy in (0, 1))
    for tensor in (live, copy):
        assert tensor.__dlpack_device__() == GPU and tensor.device is rl.Device.CUDA
        assert tensor.shape == in_host(gpu, name).shape
    assert live.read_only and not copy.read_only
    assert gpu.model.weight(name).__dlpack_device__() == (rl.Device.CPU, 0)
    with pytest.raises(rl.Error) as raised:
        gpu.model.weight(name, device=rl.Device.CUDA, device_index=1)
    assert raised.value.code == rl.Code.UNSUPPORTED


def test_the_host_does_not_read_memory_of_a_gpu(gpu):
    weight = gpu.model.weight(gpu.model.weight_names[0], device=rl.Device.CUDA)
    for read in (weight.memoryview, weight.numpy, lambda: numpy.asarray(weight),
                 lambda: weight.__dlpack__(max_version=(1, 0), dl_device=(rl.Device.CPU, 0))):
        with pytest.raises(BufferError, match="memory of the device"):
            read()


def test_streams_are_those_of_the_array_api(gpu):
    weight = gpu.model.weight(gpu.model.weight_names[0], device=rl.Device.CUDA)
    for stream in (None, LEGACY, PER_THREAD, -1):
        assert weight.__dlpack__(max_version=(1, 0), stream=stream, dl_device=GPU) is not None
    with pytest.raises(BufferError, match="stream 0"):
        weight.__dlpack__(max_version=(1, 0), stream=0)
    with pytest.raises(rl.Error) as raised:
        weight.__dlpack__(max_version=(1, 0), stream=12345)
    assert raised.value.code == rl.Code.INVALID_ARGUMENT


def test_weights_are_set_from_another_librarys_memory(gpu):
    first, second = gpu.model.weight_names[1:3]
    values = {name: in_host(gpu, name) for name in (first, second)}
    theirs = Library(gpu.model.weight(first, copy=True, device=rl.Device.CUDA))
    gpu.model.set_weights({first: values[first] * 2})
    assert gpu.model.set_weights({first: theirs}, stream=PER_THREAD) == 2
    assert theirs.asked == [{"max_version": (1, 0), "stream": LEGACY}]
    assert numpy.array_equal(in_host(gpu, first), values[first])
    assert numpy.array_equal(in_host(gpu, second), values[second])


def test_memory_of_other_devices_is_refused(gpu):
    weight = gpu.model.weight(gpu.model.weight_names[0], copy=True, device=rl.Device.CUDA)
    with pytest.raises(BufferError, match=r"device \(10, 0\)"):
        rl.Tensor(gpu.runtime, Library(weight, device=(10, 0)))
    host = rl.Runtime(rl.Options({"runtime.threads": 1}))
    with pytest.raises(rl.Error) as raised:
        rl.Tensor(host, weight)
    assert raised.value.code == rl.Code.UNSUPPORTED


def test_gradients_are_in_the_memory_of_the_gpu(gpu):
    trainer = rl.Trainer(gpu.model)
    trainer.backward(gpu.group(), [1.0, -1.0])
    name = gpu.model.weight_names[0]
    gradient = trainer.gradient(name, device=rl.Device.CUDA)
    assert gradient.__dlpack_device__() == GPU and not gradient.read_only
    before = in_host(gpu, name)
    trainer.apply().close()
    assert not numpy.array_equal(in_host(gpu, name), before)
