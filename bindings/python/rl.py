"""librl by ctypes: errors, calls, and the structs that 4_grpo.py reads. Structs may end before
those of rl.h do, because struct_size tells librl how much the caller has; a test compares fields
and offsets with rl.h. The dynamic linker finds the library: installed where it looks, or in a
directory of LD_LIBRARY_PATH."""
import ctypes
from ctypes import (POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)

lib = ctypes.CDLL("librl.so.1")
lib.rl_error_text.restype = lib.rl_status_name.restype = lib.rl_bytes_data.restype = c_char_p
lib.rl_abi_version.restype = c_uint32
HEADER_ABI = 2  # RL_ABI_VERSION of the rl.h that this file was written by: 0 << 16 | 2


def constant(name):
    """The value of a constant of rl.h, which has no other way into Python."""
    value = c_int64()
    if lib.rl_constant(name.encode(), c_size_t(len(name)), byref(value), None) != 0:
        raise KeyError(name)
    return value.value


OK, TIMEOUT, DONE, INTERRUPTED = (constant("RL_" + name)
                                  for name in ("OK", "TIMEOUT", "DONE", "INTERRUPTED"))


class Error(Exception):
    """A failure: its status, the option or parameter concerned, and as text all that librl says of
    it."""

    def __init__(self, status, record):
        self.status = status
        self.key = lib.rl_error_text(record, constant("RL_ERROR_KEY"), None).decode()
        summary = lib.rl_error_text(record, constant("RL_ERROR_SUMMARY"), None).decode()
        super().__init__(f"{lib.rl_status_name(status).decode()}: {summary}")
        lib.rl_error_release(record)


def words(value):
    """A Python value as C arguments: text is a pointer and a length, a struct its address. Integers
    of 32 bits are read from a register of 64, so all go as 64."""
    if isinstance(value, str):
        value = value.encode()
        return c_char_p(value), c_size_t(len(value))
    if isinstance(value, ctypes.Structure):
        return (byref(value),)
    if isinstance(value, int):
        return (c_int64(value),)
    return (c_double(value) if isinstance(value, float) else value,)


def call(name, *arguments):
    """Calls a function whose last parameter is rl_error** and returns its status; a failure is an
    Error."""
    record = c_void_p()
    status = getattr(lib, name)(*(word for value in arguments for word in words(value)),
                                byref(record))
    if status not in (OK, TIMEOUT, DONE, INTERRUPTED):
        raise Error(status, record)
    return status


def get(name, *arguments, kind=c_void_p):
    """Calls a function with one result parameter of this kind, and returns the result; a handle
    stays a c_void_p."""
    out = kind()
    call(name, *arguments, byref(out))
    return out if kind is c_void_p else out.value


class Struct(ctypes.Structure):
    def __init__(self):
        super().__init__(struct_size=ctypes.sizeof(self))


def fields(**kinds):
    return [("struct_size", c_size_t)] + [(name, kind) for name, kind in kinds.items()]


class SampleView(Struct):
    c_name = "rl_sample_view"
    _fields_ = fields(
        sample_id=c_uint64, ordinal=c_uint64, slot=c_uint32, attempt=c_uint32, data_row=c_int64,
        purpose=c_int32, finish=c_int32, ids=POINTER(c_int32), num_ids=c_size_t,
        num_prompt=c_size_t, logprobs=POINTER(c_float), logprobs_sampled=POINTER(c_float),
        versions=POINTER(c_uint64), loss_mask=c_void_p, reward=c_double, temperature=c_float,
        scored=c_uint32, tag=c_char_p, tag_len=c_size_t, prompt_text=c_char_p,
        prompt_text_len=c_size_t, text=c_char_p, text_len=c_size_t, submitted_ns=c_int64,
        first_token_ns=c_int64, finished_ns=c_int64)


class EventView(Struct):
    c_name = "rl_event_view"
    _fields_ = fields(kind=c_int32, reason=c_int32, step=c_uint64, version=c_uint64,
                      ordinal=c_uint64, data_row=c_int64, value=c_double, count=c_uint64,
                      num_metrics=c_size_t, text=c_char_p, text_len=c_size_t)


class PipelineStats(Struct):
    c_name = "rl_pipeline_stats"
    _fields_ = fields(state=c_int32, reserved=c_int32, step=c_uint64, version=c_uint64,
                      unscored=c_uint64) + [
        (f"{noun}_{what}", c_uint64) for noun, ends in (
            ("attempts", ("started", "trained", "discarded", "in_flight")),
            ("tokens", ("generated", "trained", "discarded", "in_flight")),
            ("prompts", ("drawn", "trained", "dropped", "open"))) for what in ends] + [
        (f"{kind}_scores", c_uint64) for kind in ("late", "duplicate", "unknown", "nonfinite")]


class PlanInfo(Struct):
    c_name = "rl_plan_info"
    _fields_ = fields(total_bytes=c_uint64, arena_bytes=c_uint64, baseline_bytes=c_uint64,
                      budget_bytes=c_uint64, max_model_len=c_int64, max_tokens=c_int64,
                      kv_blocks=c_int64, threads=c_int64, dtype=c_int32, reserved=c_int32)
