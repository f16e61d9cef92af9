"""What goes wrong is an exception with all that librl says of it."""
import pickle

import pytest

import rl


def test_an_error_has_code_key_message_and_nearest_names():
    with pytest.raises(rl.Error) as raised:
        rl.Options({"engine.blok_size": 64})
    error = raised.value
    assert error.code is rl.Code.UNKNOWN_OPTION and error.key == "engine.blok_size"
    assert "engine.blok_size" in error.message and error.nearest[0] == "engine.block_size"
    assert str(error).startswith("RL_UNKNOWN_OPTION: ") and error.message in str(error)


def test_an_error_names_what_would_be_valid():
    with pytest.raises(rl.Error) as raised:
        rl.Options({"engine.block_size": 65})
    assert raised.value.code == rl.Code.OUT_OF_RANGE and raised.value.expected
    with pytest.raises(rl.Error) as raised:
        rl.Options({"engine.block_size": [1, 2]})
    assert raised.value.code == rl.Code.WRONG_TYPE


def test_several_failures_are_parts_of_one_error():
    options = rl.Options()
    document = '{"library_version": "0.1.0", "options": {"engine.blok_size": 1, "runtime.sed": 2}}'
    with pytest.raises(rl.Error) as raised:
        options.import_json(document)
    assert [part.code for part in raised.value.parts] == [rl.Code.UNKNOWN_OPTION] * 2
    assert all(part.location for part in raised.value.parts)


def test_a_cause_is_the_cause_of_the_exception(open_host):
    host = open_host(rl.Use.PIPELINE)
    with rl.Pipeline(host.model) as pipeline, pytest.raises(rl.Error) as raised:
        pipeline.feed({"messages": [{"role": "user", "content": "2?"}]})  # there is no template
    assert isinstance(raised.value.__cause__, rl.Error) and raised.value.__cause__.message


def test_a_missing_model_is_not_found_with_the_system_code():
    options = rl.Options({"model.path": "/nowhere/at/all"})
    with rl.Runtime(options) as runtime, pytest.raises(rl.Error) as raised:
        rl.Model(runtime, options)
    assert raised.value.code == rl.Code.NOT_FOUND and "/nowhere/at/all" in str(raised.value)


def test_results_that_are_no_failures_have_exceptions_of_their_own(open_host):
    pipeline = open_host(rl.Use.PIPELINE).pipeline(1)
    with pytest.raises(rl.Timeout) as raised:
        pipeline.next(timeout=0)
    assert isinstance(raised.value, TimeoutError) and raised.value.code == rl.Code.TIMEOUT
    pipeline.interrupt()
    with pytest.raises(rl.Interrupted):
        pipeline.next()
    assert not issubclass(rl.Timeout, rl.Error)


def test_exceptions_go_to_other_processes():
    with pytest.raises(rl.Error) as raised:
        rl.Options({"engine.blok_size": 64, "runtime.sed": 1})
    error = pickle.loads(pickle.dumps(raised.value))
    assert type(error) is type(raised.value) and str(error) == str(raised.value)
    assert (error.code, error.key, error.nearest) == (
        raised.value.code, raised.value.key, raised.value.nearest)
    assert [part.key for part in error.parts] == [part.key for part in raised.value.parts]
    closed = pickle.loads(pickle.dumps(rl.ClosedError("engine")))
    assert closed.code is rl.Code.STALE_HANDLE and str(closed) == str(rl.ClosedError("engine"))
    assert pickle.loads(pickle.dumps(rl.Timeout(rl.Code.TIMEOUT))).code is rl.Code.TIMEOUT


def test_arrays_of_a_wrong_length_never_reach_librl(host):
    with pytest.raises(rl.Error) as raised:
        rl.Buffer(host.options, 8).put(rl.Sample(ids=[1, 2, 3], num_prompt=1, logprobs=[0.0]))
    assert raised.value.key == "sample.logprobs" and "expected 2" in raised.value.message
    with pytest.raises(rl.Error) as raised:
        rl.algo.advantages(rl.Tokens(lengths=[2, 1], rewards=[1.0]))
    assert raised.value.key == "tokens.rewards"


def test_a_number_that_does_not_fit_is_refused(host):
    engine = rl.Engine(host.model)
    with pytest.raises(OverflowError):
        engine.submit([1 << 40])
    with pytest.raises(TypeError):
        engine.submit([1.5])
    with pytest.raises(OverflowError):
        host.options["runtime.seed"] = 1 << 64


def test_an_unknown_code_has_a_name_and_a_number():
    assert rl.Code(77) == 77 and rl.Code(77).name == "UNKNOWN_77" and rl.Code(77) is rl.Code(77)


def test_every_result_is_an_exception_of_its_own_and_no_failure(open_host):
    host = open_host(engine__stats_interval_ns="1h")
    engine, trainer = rl.Engine(host.model), rl.Trainer(host.model)
    assert engine.take() is None and not engine.step()
    batch = host.group(engine)
    engine.submit([1, 2, 3])
    assert engine.take() is None
    with pytest.raises(rl.WouldBlock) as raised:
        engine.interval()
    assert raised.value.code == rl.Code.WOULD_BLOCK
    engine.pause()
    with pytest.raises(rl.Paused):
        engine.run()
    engine.unpause()
    with pytest.raises(rl.Error) as raised:  # requests of the model run
        trainer.step(batch)
    assert raised.value.code == rl.Code.BUSY
    assert not isinstance(raised.value, (rl.Outcome, TimeoutError))
    assert engine.step()
    with pytest.raises(rl.Timeout):
        engine.drain(timeout=0)
    engine.drain()
    engine.unpause()
    assert engine.take() is not None
