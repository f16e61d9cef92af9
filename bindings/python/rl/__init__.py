"""librl for Python: reinforcement-learning post-training of language models.

The package covers include/rl.h with Python's means and adds nothing to it; the reference text of a
method is the one there, rl_engine_submit for Engine.submit and so on. It needs an installed librl
of its own version, and nothing else. Objects end with close() or at the end of a `with` block, in
any order; failures are Error with a code, a key and a message. Calls release the interpreter's
lock, and waits end on Ctrl-C. Arrays come as memoryviews of librl's own memory, which
numpy.asarray makes arrays of without a copy; Tensor has DLPack too.
"""
from . import algo
from ._hooks import LogLine
from ._library import LibraryError
from ._scores import Reply, Score
from .algo import Tokens
from .batch import Batch
from .buffer import Buffer, buffer_file_info
from .constants import (RESULTS, Code, Device, DropReason, DType, EventKind, FieldKind, FileKind,
                        Finish, KnobEffect, LogLevel, OptionFlags, OptionType, Output, PlanKind,
                        Purpose, SampleArray, State, Use, When)
from .engine import Conversation, Engine
from .errors import (CallbackError, ClosedError, Done, Error, Idle, Interrupted, Outcome, Paused,
                     Timeout, WouldBlock)
from .event import Event, EventQueue
from .files import FileSystem
from .library import (Feature, abi_version, build_info, constant, devices, feature, features,
                      version)
from .model import Model
from .options import Options, find_option, option_choices, option_infos, presets
from .pipeline import Pipeline
from .records import (AlgoLoss, BufferFileInfo, BufferStats, Clock, ConversationInfo, DeviceInfo,
                      EngineStats, EventView, Knob, Machine, ModelInfo, OptionInfo, PipelineStats,
                      PlanInfo, PlanItem, StepTime)
from .runtime import Plan, Profiler, ProfilerCount, Runtime
from .sample import Sample, SampleView
from .store import Store
from .tensor import Tensor
from .trainer import Trainer
from .transport import LostRank, Message, Transport

__all__ = [
    "AlgoLoss", "Batch", "Buffer", "BufferFileInfo", "BufferStats", "CallbackError", "Clock",
    "ClosedError", "Code", "Conversation", "ConversationInfo", "DType", "Device", "DeviceInfo",
    "Done", "DropReason", "Engine", "EngineStats", "Error", "Event", "EventKind", "EventQueue",
    "EventView", "Feature", "FieldKind", "FileKind", "FileSystem", "Finish", "Idle", "Interrupted",
    "Knob", "KnobEffect", "LibraryError", "LogLevel", "LogLine", "LostRank", "Machine", "Message",
    "Model", "ModelInfo", "OptionFlags", "OptionInfo", "OptionType", "Options", "Outcome", "Output",
    "Paused", "Pipeline", "PipelineStats", "Plan", "PlanInfo", "PlanItem", "PlanKind", "Profiler",
    "ProfilerCount", "Purpose", "RESULTS", "Reply", "Runtime", "Sample", "SampleArray",
    "SampleView", "Score", "State", "StepTime", "Store", "Tensor", "Timeout", "Tokens", "Trainer",
    "Transport", "Use", "When", "WouldBlock", "abi_version", "algo", "buffer_file_info",
    "build_info", "constant", "devices", "feature", "features", "find_option", "option_choices",
    "option_infos", "presets", "version",
]
