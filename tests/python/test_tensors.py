"""Arrays cross the border without a copy, and what keeps them alive is what shows them."""
import array
import ctypes
import gc
import sys
import weakref

import pytest

import rl
from rl._arrays import Pinned

numpy = pytest.importorskip("numpy", reason="numpy is not installed")


def address_of(values):
    return values.__array_interface__["data"][0]


def test_arrays_of_a_sample_are_numpy_arrays_without_a_copy(host):
    batch = host.group()
    sample = batch[0]
    tensor = sample.tensor(rl.SampleArray.IDS)
    ids, same = numpy.asarray(sample.ids), tensor.numpy()
    assert ids.dtype == numpy.int32 and address_of(ids) == address_of(same)
    assert not ids.flags.writeable and not ids.flags.owndata
    expected = ids.tolist()
    tensor.close()
    batch.close()
    del batch, sample, tensor
    gc.collect()
    host.group()
    assert ids.tolist() == same.tolist() == expected


def test_a_weight_is_shown_live_and_read_only(host):
    name = host.model.weight_names[0]
    weight = host.model.weight(name)
    values = numpy.asarray(weight)
    assert values.shape == weight.shape == (256, 64) and values.dtype == numpy.float32
    assert weight.read_only and not values.flags.writeable
    before = values.copy()
    rl.Trainer(host.model).step(host.group(), [1.0, -1.0])
    assert not numpy.array_equal(values, before)
    with pytest.raises(BufferError, match="read-only"):
        weight.__dlpack__()


def test_a_copied_weight_may_be_written_and_set(host):
    name = host.model.weight_names[0]
    copy = host.model.weight(name, copy=True)
    numpy.asarray(copy)[:] += 0.5
    assert host.model.set_weights({name: copy}) == 1
    assert numpy.array_equal(numpy.asarray(host.model.weight(name)), numpy.asarray(copy))
    values = numpy.zeros((256, 64), numpy.float32)
    assert host.model.set_weights({name: values}) == 2
    assert not numpy.asarray(host.model.weight(name)).any()
    with pytest.raises(rl.Error) as raised:
        host.model.set_weights({name: values[:5]})
    assert raised.value.code == rl.Code.INCOMPATIBLE and raised.value.key == name


def test_tensors_share_the_memory_of_numpy_arrays_and_let_go_of_it(host):
    values = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    references = sys.getrefcount(values)
    tensor = rl.Tensor(host.runtime, values.T)
    assert tensor.shape == (3, 2) and tensor.strides == (1, 3) and not tensor.read_only
    with pytest.raises(BufferError, match="row-major"):
        tensor.memoryview()
    tensor = rl.Tensor(host.runtime, values)
    values[0, 0] = 7
    assert tensor.memoryview()[0, 0] == 7
    tensor = rl.Tensor(host.runtime, values, copy=True)
    values[0, 0] = 8
    assert tensor.numpy()[0, 0] == 7
    gc.collect()
    assert sys.getrefcount(values) == references


def test_dlpack_goes_both_ways(open_host):
    host = open_host(model__dtype="fp32")  # hidden states in a type that numpy knows
    states = rl.Trainer(host.model).hidden([1, 2, 3])
    theirs = numpy.from_dlpack(states)
    assert address_of(theirs) == address_of(states.numpy())
    expected = theirs.tolist()
    back = rl.Tensor(host.runtime, theirs)
    states.close()
    del theirs
    gc.collect()
    assert back.numpy().tolist() == expected
    assert states.closed and not back.closed


class Versioned:
    """A producer of DLPack 1.0, as numpy 2 and torch are."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.tensor.__dlpack__(**asked)


def test_dlpack_1_says_that_a_tensor_is_read_only(host):
    name = host.model.weight_names[0]
    weight = host.model.weight(name)
    source = Versioned(weight)
    again = rl.Tensor(host.runtime, source)
    assert source.asked == [{"max_version": (1, 0)}] and again.read_only
    assert address_of(again.numpy()) == address_of(weight.numpy())


def test_a_capsule_that_nobody_takes_is_ended_once_and_one_is_taken_once(host):
    before = host.runtime.reserved_bytes
    copy = host.model.weight(host.model.weight_names[0], copy=True)
    for version in (None, (1, 0)):
        capsule = copy.__dlpack__(max_version=version)
        del capsule
    capsule = copy.__dlpack__(max_version=(1, 0))
    taken = [type("Source", (), {"__dlpack_device__": lambda self: (1, 0),
                                 "__dlpack__": lambda self, **asked: capsule})() for _ in "ab"]
    assert rl.Tensor(host.runtime, taken[0]).shape == (256, 64)
    with pytest.raises(TypeError, match="taken before"):
        rl.Tensor(host.runtime, taken[1])
    assert copy.memoryview()[0, 0] == copy.memoryview()[0, 0]
    assert host.runtime.reserved_bytes == before


def test_what_cannot_be_shared_is_refused_and_let_go(host):
    with pytest.raises(TypeError, match="format 'd'"):
        rl.Tensor(host.runtime, array.array("d", [1.0]))
    with pytest.raises(rl.Error) as raised:
        rl.Tensor(host.runtime, numpy.zeros(3))
    assert raised.value.code == rl.Code.UNSUPPORTED
    values = numpy.zeros(3, numpy.float32)
    references = sys.getrefcount(values)
    host.runtime.close()
    with pytest.raises(rl.ClosedError):
        rl.Tensor(host.runtime, values)
    gc.collect()
    assert sys.getrefcount(values) == references


def test_arrays_are_taken_from_whatever_holds_them(host):
    engine = rl.Engine(host.model)
    found = []
    for prompt in ([1, 2, 3], (1, 2, 3), array.array("i", [1, 2, 3]), iter([1, 2, 3]),
                   numpy.array([1, 2, 3], numpy.int32), numpy.array([1, 2, 3]),
                   numpy.array([1, 0, 2, 0, 3], numpy.int32)[::2], (ctypes.c_int32 * 3)(1, 2, 3)):
        conversation = rl.Conversation(engine, prompt)
        found.append(conversation.sample()[0].ids.tolist())
    assert found == [[1, 2, 3]] * 8


def test_algorithms_work_on_numpy_arrays():
    logprobs = numpy.array([-1.0, -2.0, -0.5], numpy.float32)
    tokens = rl.Tokens(lengths=[2, 1], rewards=numpy.array([1.0, 0.0]), logprobs=logprobs)
    tokens.advantages = numpy.asarray(rl.algo.advantages(tokens)).astype(numpy.float32)
    assert tokens.advantages[0] == tokens.advantages[1] == -tokens.advantages[2] > 0
    loss, gradient = rl.algo.policy_loss(tokens)
    weights = numpy.asarray(rl.algo.weights(tokens))
    assert numpy.allclose(gradient, -weights * tokens.advantages) and loss.num_tokens == 3
    factors, keep = rl.algo.corrections(tokens)
    assert factors.tolist() == [1.0] * 3 and keep.tolist() == [1] * 3
    tokens.ref_logprobs = logprobs - 1
    values, derivative = rl.algo.kl(tokens)
    assert all(value > 0 for value in values) and len(derivative) == 3


def test_items_without_bytes_are_refused_like_those_of_another_type(host):
    class Nothing(ctypes.Structure):
        pass

    memory = (Nothing * 2)()
    assert Pinned(memory).strides == (0,) and Pinned(memory).shape == (2,)
    alive = weakref.ref(memory)
    for source in (memory, numpy.zeros(3, "V0")):
        with pytest.raises(TypeError, match="can be shared"):
            rl.Tensor(host.runtime, source)
    for array_of in (rl.algo.pack, lambda mask: rl.algo.weights(rl.Tokens([2], mask=mask))):
        with pytest.raises(TypeError):  # its format alone is that of bytes
            array_of(memory)
    del memory, source
    gc.collect()
    assert alive() is None
