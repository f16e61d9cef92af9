/* rl.h: the C interface of librl, reinforcement-learning post-training of language models.
 *
 * Everything librl offers is declared here; there is no other header. The file compiles on its own
 * as C99 and as C++11. Version 0: until 1.0 each minor version is an interface of its own, with a
 * soname of its own (see RL_ABI_VERSION).
 *
 * Reading order: conventions (below), status codes, errors and bytes, options, runtime, plan,
 * model, samples, events, pipeline, then the parts (batch, engine, buffer, trainer), algorithms,
 * tensors, profiler and host services. A host that lets librl drive the loop needs none of the
 * parts; one with a loop of its own needs no pipeline:
 *
 *   options -> runtime -> model -> pipeline                      librl's loop, the host scores
 *   options -> runtime -> model -> engine -> buffer -> trainer   the host's own loop
 *
 * CONVENTIONS
 *
 * Handles. Every rl_xxx* is a token, not an address: never dereference it or order by it. NULL, a
 * handle that was destroyed, and a handle of another kind are errors (RL_INVALID_ARGUMENT,
 * RL_STALE_HANDLE, RL_WRONG_HANDLE), never undefined behaviour. xxx_destroy ends an exclusive
 * object, xxx_release drops one reference to a shared one; both accept NULL and stale handles
 * without effect and never fail. Objects keep alive what they were made from, so handles may end in
 * any order.
 *
 * Status. Functions that can fail return rl_status and take `rl_error **err` last. err may be NULL.
 * Otherwise every call writes *err: NULL unless the function failed, else a record that the caller
 * releases with rl_error_release. Codes below RL_INVALID_ARGUMENT are results, not failures: they
 * leave *err NULL. Treat a code unknown to you as a failure.
 *
 * Outs. Result parameters come before err and may not be NULL, unless their comment says so.
 * Whenever the status is not RL_OK they are zero or NULL; a result struct is zeroed except for its
 * struct_size. A handle returned in a result parameter belongs to the caller, who ends it.
 *
 * Text. Strings are UTF-8, passed as pointer and length, and copied. The length RL_NUL_TERMINATED
 * means that the text ends with NUL. A NULL pointer is valid with length 0. In a struct rl_xxx_init
 * sets the length of every text that a call reads to RL_NUL_TERMINATED, so that a text that ends
 * with NUL needs no length; there NULL is no text with this length too. Text that librl returns
 * is NUL-terminated as well as counted; its comment names the owner, and the text lives as long as
 * that owner.
 *
 * Numbers. Sizes are bytes, times are nanoseconds. Truth values are uint32_t 0 or 1; any other
 * value is an error, as are flag bits that a function does not know. A timeout of 0 polls, a
 * negative one waits without limit.
 *
 * Pointers. A pointer parameter may be NULL where its comment says so, and user_data always;
 * otherwise NULL is RL_INVALID_ARGUMENT naming the parameter. Functions without a status have a
 * neutral result.
 *
 * Structs. Each begins with struct_size. rl_xxx_init fills one with its defaults; pass it sizeof
 * your struct. A struct smaller than in the first release with this soname is
 * RL_INVALID_ARGUMENT. Of a result struct librl fills the fields that the caller's struct has, and
 * zeroes those that librl does not know; in an input struct those must be zero, else
 * RL_UNSUPPORTED. No byte beyond struct_size is read or written. Reserved fields are zero. All
 * structs of an array have the struct_size of the first, which is also the distance from one to the
 * next.
 *
 * Threads. Each function states who may call it. "any": every thread, also several at once on one
 * handle; calls that change the same object are serialised. Destroying or releasing a handle during
 * another thread's call is safe: that call either completes as if it had come first, or is
 * RL_STALE_HANDLE; pointers into the object become invalid with the handle. "callback-safe": also
 * from inside the log callback, functions of type rl_advantage_fn and rl_loss_fn, and host
 * services. There every other function is RL_WRONG_THREAD, and destroying has no effect. librl
 * blocks every signal in its own threads and installs no handler. Calls compute in the default
 * floating-point mode (round to nearest, subnormal numbers kept), whatever mode the calling thread
 * has set, and restore that mode.
 *
 * Callbacks. (fn, user_data, destroy): destroy, which may be NULL, is called exactly once with
 * user_data, also when the call that took it failed. It may call every function. A callback must
 * return; no exception and no longjmp may leave it.
 *
 * Fork. In a child of a process that has used librl every call that can fail is RL_FORKED,
 * destroying has no effect, and functions without a status return what they return for a dead
 * handle. The parent is not affected. The child is recognised by a page that the kernel wipes on
 * fork; before Linux 4.14 by its process id, which costs one system call per call. Start processes
 * with spawn, or fork before the first call.
 *
 * Side effects. librl never prints, aborts, exits, reads the environment or changes the locale. It
 * opens only the files named by options and arguments, and no network connections, apart from those
 * to the other processes of a run with comm.backend = gloo or nccl. NCCL reads variables of its own
 * from the environment, and prints if they say so.
 *
 * Numerics. A token's log-prob does not depend on batch, packing, prefill chunks or the number of
 * threads, and the one stored at sampling equals the trainer's bit for bit while the weights are
 * the same. */
#ifndef RL_H
#define RL_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RL_API __attribute__((visibility("default")))
#else
#define RL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants and types ---- */

/* Version of this header: major << 16 | minor. A library of version 0 serves a header of its own
 * version; from 1.0 on, a header of its own major version and the same or a smaller minor
 * version. */
#define RL_ABI_MAJOR 0
#define RL_ABI_MINOR 3
#define RL_ABI_VERSION (((uint32_t)RL_ABI_MAJOR << 16) | (uint32_t)RL_ABI_MINOR)

/* As a length argument: the text ends with NUL. */
#define RL_NUL_TERMINATED SIZE_MAX

/* Every RL_ integer constant of this header except RL_NUL_TERMINATED can also be looked up by name
 * with rl_constant, for hosts that cannot read headers. Numbers are never reused. */

typedef int32_t rl_status;
enum {
  /* Results. */
  RL_OK = 0,          /* done */
  RL_TIMEOUT = 1,     /* what the call waits for did not come within its timeout */
  RL_DONE = 2,        /* nothing more will come; sticky */
  RL_INTERRUPTED = 3, /* rl_pipeline_interrupt or rl_event_queue_interrupt ended the call */
  RL_WOULD_BLOCK = 4, /* there is nothing yet: call again later. The call itself never waits */
  RL_IDLE = 5,        /* there is nothing to do until new work is given */
  RL_PAUSED = 6,      /* the engine is paused */
  /* Failures. */
  RL_INVALID_ARGUMENT = 16,    /* NULL, malformed text, a struct too small, unknown flags */
  RL_OUT_OF_RANGE = 17,        /* a value outside its range; nothing is ever clamped */
  RL_NOT_FOUND = 18,           /* no such file, sample or name */
  RL_ALREADY_EXISTS = 19,      /* a file or directory exists and replacing it was not requested */
  RL_FAILED_PRECONDITION = 20, /* the state of the object does not allow this */
  RL_RESOURCE_EXHAUSTED = 21,  /* a budget or a limit of librl is exceeded */
  RL_OUT_OF_MEMORY = 22,       /* the system had no memory left */
  RL_UNSUPPORTED = 23,         /* known, but librl does not support it */
  RL_BUSY = 24,                /* another call is using what this one needs; try again later */
  RL_CANCELLED = 25,           /* ended at the host's request */
  RL_INTERNAL = 26,            /* a bug in librl; the handle can only be destroyed from now on */
  RL_DATA_LOSS = 27,           /* a file is damaged, truncated or does not match its header */
  RL_IO = 28,                  /* the system failed to read or write; see rl_error_system_code */
  RL_STALE_HANDLE = 29,        /* the handle was destroyed or never issued */
  RL_WRONG_HANDLE = 30,        /* a handle of another kind */
  RL_WRONG_THREAD = 31,        /* not allowed on this thread or inside a callback */
  RL_INCOMPATIBLE = 32,   /* header and library, or checkpoint and configuration, do not match */
  RL_FORKED = 33,         /* the handle belongs to the parent process */
  RL_UNKNOWN_OPTION = 40, /* no option has this key; see rl_error_nearest */
  RL_WRONG_TYPE = 41,     /* the option has another type; nothing is converted */
  RL_NOT_IN_BUILD = 42,   /* not in this build of the library */
  RL_NOT_CHANGEABLE = 43, /* the option cannot be changed now */
  RL_CONFLICT = 44,       /* options contradict one another */
  RL_LATE = 50,           /* the sample's group was dropped before its reward came */
  RL_DUPLICATE = 51,      /* the sample was scored or put before */
  RL_NON_FINITE = 52,     /* NaN or an infinity where a number is needed */
  RL_DEVICE_LOST = 60,    /* a fault ended the GPU for this process; only destroying works */
  RL_RANK_LOST = 61       /* a rank failed, left or came too late; the ranks cannot go on */
};

/* Handles. */
typedef struct rl_error rl_error;       /* what went wrong; rl_error_release */
typedef struct rl_bytes rl_bytes;       /* bytes made by librl; rl_bytes_release */
typedef struct rl_options rl_options;   /* one value for every option; rl_options_destroy */
typedef struct rl_runtime rl_runtime;   /* threads, budget, log; rl_runtime_destroy */
typedef struct rl_plan rl_plan;         /* memory of a run, planned in advance; rl_plan_release */
typedef struct rl_model rl_model;       /* weights and tokenizer; rl_model_destroy */
typedef struct rl_pipeline rl_pipeline; /* the training loop; rl_pipeline_destroy */
typedef struct rl_event rl_event;       /* a report of a pipeline or trainer; rl_event_release */
typedef struct rl_event_queue rl_event_queue; /* events not yet taken; rl_event_queue_release */
typedef struct rl_batch rl_batch;             /* a list of samples; rl_batch_release */
typedef struct rl_engine rl_engine;           /* generates samples; rl_engine_destroy */
typedef struct rl_buffer rl_buffer;     /* collects scored samples into groups; rl_buffer_destroy */
typedef struct rl_trainer rl_trainer;   /* optimizer steps; rl_trainer_destroy */
typedef struct rl_profiler rl_profiler; /* records a trace; rl_profiler_destroy */
typedef struct rl_conversation rl_conversation; /* multi-turn sample; rl_conversation_destroy */
typedef struct rl_tensor rl_tensor;             /* an array with a shape; rl_tensor_release */

/* A tensor in the memory layout of DLPack 1.x; defined by that project's dlpack.h or by the
 * host. */
struct DLManagedTensorVersioned;

/* ---- library ---- */

/* The library's version, packed as RL_ABI_VERSION. Thread: any; callback-safe. */
RL_API uint32_t rl_abi_version(void);

/* The library's release, such as "0.2.0". Owner: the library. Thread: any; callback-safe. */
RL_API const char* rl_version_string(void);

/* How the library was built, as lines "name=value": version, abi, compiler, language,
 * build_type, sanitized. Thread: any. */
RL_API rl_status rl_build_info(rl_bytes** out, rl_error** err);

/* Whether a feature works in this build on this machine. *available is 1 or 0. *reason says why not
 * and is empty when the feature works; owner: the library. An unknown name is RL_NOT_FOUND.
 * rl_feature_name lists the names. Thread: any. */
RL_API rl_status rl_feature(const char* name, size_t name_len, uint32_t* available,
                            const char** reason, rl_error** err);

/* The name of feature `index`, counted from 0; NULL beyond the last. Owner: the library. Thread:
 * any; callback-safe. */
RL_API const char* rl_feature_name(size_t index);

/* A GPU of this machine. */
typedef struct rl_device_info {
  size_t struct_size;
  const char* name; /* owner: the library */
  uint64_t memory_bytes;
  int32_t architecture_major; /* the compute capability, such as 9.0 */
  int32_t architecture_minor;
} rl_device_info;

/* Initialises an rl_device_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_device_info_init(rl_device_info* info, size_t size);

/* Writes to *count how many GPUs the library sees: 0 if the GPU plugin, the driver or a device is
 * absent, of which rl_feature("cuda") says more. What the first call finds stays. Thread: any. */
RL_API rl_status rl_device_count(size_t* count, rl_error** err);

/* GPU `index`, counted from 0, as runtime.device_index counts them; RL_OUT_OF_RANGE beyond the
 * last. Thread: any. */
RL_API rl_status rl_device_get(size_t index, rl_device_info* info, rl_error** err);

/* The name of a status, such as "RL_OUT_OF_RANGE"; "RL_UNKNOWN_CODE" for any other number. Owner:
 * the library. Thread: any; callback-safe. */
RL_API const char* rl_status_name(rl_status status);

/* The value of an integer constant by name, such as "RL_EVENT_SCORE"; flags are never negative.
 * RL_NOT_FOUND when there is no such constant. The values are those of the library: the
 * RL_ABI_VERSION of a header cannot be looked up here. Thread: any. */
RL_API rl_status rl_constant(const char* name, size_t name_len, int64_t* value, rl_error** err);

/* ---- bytes ---- */

/* The first byte; NULL for a handle that is not live. A NUL byte follows the last byte. The address
 * is aligned for any element type. Owner: the handle. Thread: any; callback-safe. */
RL_API const void* rl_bytes_data(const rl_bytes* bytes);

/* Number of bytes, without the final NUL; 0 for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API size_t rl_bytes_size(const rl_bytes* bytes);

/* Ends the handle and the memory that rl_bytes_data returned. Thread: any; callback-safe. */
RL_API void rl_bytes_release(rl_bytes* bytes);

/* ---- errors ---- */

/* The texts of an error. All except the message may be empty. */
enum {
  RL_ERROR_MESSAGE = 1,  /* one sentence: what failed, the limit and the value seen */
  RL_ERROR_KEY = 2,      /* the option key, parameter or tensor concerned */
  RL_ERROR_EXPECTED = 3, /* the valid type, range or choices */
  RL_ERROR_LOCATION = 4, /* file and byte offset, line and column, or JSON pointer */
  RL_ERROR_SUMMARY = 5,  /* all of these with status name, nearest names and causes, for a log */
  RL_ERROR_OTHER_KEY = 6 /* the second option of a conflict */
};

/* The failure's status; RL_OK for NULL, RL_STALE_HANDLE for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API rl_status rl_error_code(const rl_error* error);

/* A text of an error and, in *len, its length; len may be NULL. field is RL_ERROR_MESSAGE or
 * another of its enum. The text is empty for a NULL error, a handle that is not live and an unknown
 * field; never NULL. Owner: the error. Thread: any; callback-safe. */
RL_API const char* rl_error_text(const rl_error* error, int32_t field, size_t* len);

/* Valid names similar to an unknown one, nearest first: `index` counts from 0, NULL beyond the
 * last. Owner: the error. Thread: any; callback-safe. */
RL_API const char* rl_error_nearest(const rl_error* error, size_t index);

/* errno or the code of a backend; 0 when neither is involved. Thread: any; callback-safe. */
RL_API int32_t rl_error_system_code(const rl_error* error);

/* The error that caused this one, as a handle of its own that the caller releases; NULL when there
 * is none. Thread: any; callback-safe. */
RL_API rl_error* rl_error_cause(const rl_error* error);

/* Part `index` of an error that reports several failures at once, as option checks and
 * rl_pipeline_score do: a handle of its own that the caller releases. `index` counts from 0;
 * NULL beyond the last, and for an error that reports a single failure. Thread: any;
 * callback-safe. */
RL_API rl_error* rl_error_part(const rl_error* error, size_t index);

/* Ends the handle and its texts. Thread: any; callback-safe. */
RL_API void rl_error_release(rl_error* error);

/* ---- options ---- */

/* librl is configured through options alone: a set holds one value for each option that the library
 * knows, "engine.block_size" and so on; docs/options.md lists them and rl_option_at enumerates
 * them. Setters check key, type and range at once: an unknown key is RL_UNKNOWN_OPTION with the
 * nearest keys, a value of another type RL_WRONG_TYPE, one outside the range RL_OUT_OF_RANGE with
 * the range.
 *
 * Objects copy the set they are created with, and return it by functions such as
 * rl_engine_options. Models, engines, trainers and pipelines have a parent, whose options hold if
 * none are given. Options that have shaped the parent must have its value, else the call is
 * RL_CONFLICT naming each of them:
 *   runtime.busy_timeout_ns, cpus, device, host_memory_budget_bytes, instance, memory_budget_bytes,
 *     memory_margin_bytes, seed and threads, and model.dtype: of the runtime
 *   model.path, chat_template_path and compute_copies, engine.block_size, kv_dtype and
 *     max_model_len, and whether algo.objective is reward_model: of the model */

/* Types of options. */
enum {
  RL_OPTION_BOOL = 1,
  RL_OPTION_I64 = 2,
  RL_OPTION_U64 = 3,
  RL_OPTION_F64 = 4,
  RL_OPTION_STRING = 5,
  RL_OPTION_ENUM = 6,        /* a string, one of the option's choices */
  RL_OPTION_DURATION_NS = 7, /* an i64 */
  RL_OPTION_BYTES = 8,       /* a u64 */
  RL_OPTION_STRING_LIST = 9,
  RL_OPTION_I64_LIST = 10
};

/* When the value of an option may change. */
enum {
  RL_WHEN_CREATE = 1,        /* fixed when the object is created */
  RL_WHEN_BETWEEN_STEPS = 2, /* between steps: rl_pipeline_set_options */
  RL_WHEN_ANY_TIME = 3
};

/* Flags of rl_option_info, in its field flags. */
#define RL_OPTION_HAS_MIN UINT64_C(1)  /* min_* of the option's type applies */
#define RL_OPTION_MIN_OPEN UINT64_C(2) /* the bound itself is excluded */
#define RL_OPTION_HAS_MAX UINT64_C(4)
#define RL_OPTION_MAX_OPEN UINT64_C(8)
#define RL_OPTION_POWER_OF_TWO UINT64_C(16) /* only powers of two are valid */
#define RL_OPTION_DETERMINISM UINT64_C(32)  /* the bits of a run depend on the option */
#define RL_OPTION_NEEDS_GPU UINT64_C(64)
#define RL_OPTION_NOT_EMPTY UINT64_C(128) /* an empty text is not valid */

/* A row of the option table. Owner of all texts: the library. */
typedef struct rl_option_info {
  size_t struct_size;
  const char* key;
  const char* default_text; /* the default, in the form of rl_options_set_text */
  const char* unit;         /* unit of a number; empty when it has none */
  const char* doc;
  const char* since;              /* release that introduced the option */
  const char* source;             /* where the option's meaning comes from */
  const char* unsupported_reason; /* if not empty, only the default is accepted, for this reason */
  int32_t type;                   /* RL_OPTION_BOOL ... */
  int32_t when;                   /* RL_WHEN_CREATE ... */
  uint64_t flags;                 /* RL_OPTION_HAS_MIN ... */
  int64_t min_i64, max_i64;  /* bounds of I64 and DURATION_NS, and of each element of I64_LIST */
  uint64_t min_u64, max_u64; /* bounds of U64 and BYTES */
  double min_f64, max_f64;   /* bounds of F64 */
  size_t num_choices;        /* number of choices of an ENUM; rl_option_choice names them */
} rl_option_info;

/* Initialises an rl_option_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_option_info_init(rl_option_info* info, size_t size);

/* Number of options in the option table. Thread: any; callback-safe. */
RL_API size_t rl_option_count(void);

/* Option `index` in key order, counted from 0; RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_option_at(size_t index, rl_option_info* info, rl_error** err);

/* The option with this key, else RL_UNKNOWN_OPTION with the nearest keys. Thread: any. */
RL_API rl_status rl_option_find(const char* key, size_t key_len, rl_option_info* info,
                                rl_error** err);

/* Choice `index` of an enum option, counted from 0: the value and what it means. RL_UNKNOWN_OPTION
 * as rl_option_find, RL_OUT_OF_RANGE beyond num_choices. Owner of both texts: the library. Thread:
 * any. */
RL_API rl_status rl_option_choice(const char* key, size_t key_len, size_t index, const char** name,
                                  const char** doc, rl_error** err);

/* Creates a set with every option at its default. Thread: any. */
RL_API rl_status rl_options_create(rl_options** out, rl_error** err);

/* Creates an independent copy of a set. Thread: any. */
RL_API rl_status rl_options_clone(const rl_options* options, rl_options** out, rl_error** err);

/* Ends the set. Objects made from it are not affected: they hold a copy. Thread: any. */
RL_API void rl_options_destroy(rl_options* options);

/* Typed setters of an option. Integer options (I64, U64, DURATION_NS, BYTES) take either integer
 * setter if the value fits; set_string also takes ENUM. Nothing else is converted: RL_WRONG_TYPE.
 * Also RL_UNKNOWN_OPTION (key), RL_OUT_OF_RANGE (value) and RL_NOT_IN_BUILD (this build
 * accepts only the default, see rl_option_info.unsupported_reason). Thread: any. */
RL_API rl_status rl_options_set_bool(rl_options* options, const char* key, size_t key_len,
                                     uint32_t value, rl_error** err);
RL_API rl_status rl_options_set_i64(rl_options* options, const char* key, size_t key_len,
                                    int64_t value, rl_error** err);
RL_API rl_status rl_options_set_u64(rl_options* options, const char* key, size_t key_len,
                                    uint64_t value, rl_error** err);
RL_API rl_status rl_options_set_f64(rl_options* options, const char* key, size_t key_len,
                                    double value, rl_error** err);
RL_API rl_status rl_options_set_string(rl_options* options, const char* key, size_t key_len,
                                       const char* value, size_t value_len, rl_error** err);
/* lens may be NULL: then every value ends with NUL. */
RL_API rl_status rl_options_set_string_list(rl_options* options, const char* key, size_t key_len,
                                            const char* const* values, const size_t* lens,
                                            size_t count, rl_error** err);
RL_API rl_status rl_options_set_i64_list(rl_options* options, const char* key, size_t key_len,
                                         const int64_t* values, size_t count, rl_error** err);

/* Sets an option of any type from text, for command lines and files: "true", "12", "3e-6", "30s",
 * "2GiB", "a,b,c" (list elements are separated by commas; "\," is a comma inside one).
 * RL_WRONG_TYPE for a text that is no value of the option's type; other codes are those of the
 * typed setters. Thread: any. */
RL_API rl_status rl_options_set_text(rl_options* options, const char* key, size_t key_len,
                                     const char* text, size_t text_len, rl_error** err);

/* The value of an option, from rl_options_get. */
typedef struct rl_option_value {
  size_t struct_size;
  int32_t type;        /* RL_OPTION_BOOL ... */
  uint32_t is_default; /* 1: equal to the option's default */
  int64_t i64;  /* of an integer option (I64, U64, DURATION_NS, BYTES), 0 where it does not fit;
                   of BOOL 0 or 1; else 0 */
  uint64_t u64; /* as i64 */
  double f64;   /* of F64, else 0 */
  uint64_t num_items; /* number of elements of a list, else 0 */
} rl_option_value;

/* Initialises an rl_option_value: zeroes the `size` bytes of *value and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_option_value_init(rl_option_value* value, size_t size);

/* The value of an option of any type: its type and number in *value, and in *text the text that
 * rl_options_set_text reads back to the same value. A STRING and an ENUM are their own text; the
 * elements of a list are separated by commas, and "\,", "\\", "\n" and "\t" stand for a comma, a
 * backslash, a newline and a tab inside one. text may be NULL. Thread: any. */
RL_API rl_status rl_options_get(const rl_options* options, const char* key, size_t key_len,
                                rl_option_value* value, rl_bytes** text, rl_error** err);

/* Sets an option back to its default. Thread: any. */
RL_API rl_status rl_options_unset(rl_options* options, const char* key, size_t key_len,
                                  rl_error** err);

/* Sets all values of a preset, or none; those that docs/options.md lists as "at most" only if they
 * are lower. An unknown name is RL_NOT_FOUND with the nearest names.
 * Thread: any. */
RL_API rl_status rl_options_apply_preset(rl_options* options, const char* name, size_t name_len,
                                         rl_error** err);

/* Number of presets. Thread: any; callback-safe. */
RL_API size_t rl_preset_count(void);

/* Preset `index` in name order: its name and its purpose; RL_OUT_OF_RANGE beyond the last. What it
 * sets, a set of its own shows: rl_options_apply_preset, then rl_options_export. Owner of the
 * texts: the library. Thread: any. */
RL_API rl_status rl_preset_at(size_t index, const char** name, const char** doc, rl_error** err);

/* Checks combinations of options, which setters cannot see. RL_CONFLICT names both options of each;
 * several violations are the parts of one error (rl_error_part). Creating an object makes the same
 * checks and those that depend on runtime, model and plan, and reports all violations at once.
 * Thread: any. */
RL_API rl_status rl_options_validate(const rl_options* options, rl_error** err);

/* Forms of a set as a whole. */
enum {
  RL_FORMAT_TEXT = 1,      /* lines "key=value" in key order, with the texts of rl_options_get */
  RL_FORMAT_JSON = 2,      /* {"library_version": "...", "options": {KEY: VALUE, ...}} */
  RL_FORMAT_FLATBUFFER = 3 /* abi/schemas/options.fbs */
};

/* Writes a set in a format, RL_FORMAT_TEXT ...: all options, or with only_changed 1 those that
 * differ from their default. In the two documents durations are in nanoseconds, sizes in bytes,
 * enums are texts, lists are arrays. Equal sets give equal bytes. Thread: any. */
RL_API rl_status rl_options_export(const rl_options* options, int32_t format, uint32_t only_changed,
                                   rl_bytes** out, rl_error** err);

/* Sets options from a document that rl_options_export wrote as RL_FORMAT_JSON or
 * RL_FORMAT_FLATBUFFER; RL_FORMAT_TEXT, which is for people, is RL_UNSUPPORTED. Options that it
 * does not name keep their values. All or nothing: every violation (unknown key with the nearest,
 * type, range, key given twice) is a part of the error, located by JSON pointer or as
 * options[INDEX], and the set is unchanged. Anything that is not such a document is RL_DATA_LOSS,
 * as are more than 1,024 options in a FlatBuffers document; more than 1,024 options in a JSON
 * document and more than 16 MiB in either form are RL_RESOURCE_EXHAUSTED. Combinations are checked
 * when an object is created. Thread: any. */
RL_API rl_status rl_options_import(rl_options* options, int32_t format, const void* data,
                                   size_t size, rl_error** err);

/* A hash of the options that the bits of a run depend on: equal sets give equal runs on one build
 * and machine. Thread: any. */
RL_API rl_status rl_options_identity(const rl_options* options, uint64_t* out, rl_error** err);

/* ---- runtime ---- */

/* A runtime owns the compute threads, the memory budget and the log of all objects made from it.
 *
 * One object computes at a time. A call that would compute at the same time as another waits behind
 * it, and behind all that came earlier, for runtime.busy_timeout_ns; then it is RL_BUSY and names
 * both. If its own timeout ends earlier, it is RL_TIMEOUT. A pipeline computes from its start to
 * its end. Calls that read weights in training, or submit requests that need them, wait likewise,
 * and so do calls that change weights while a save or a digest reads them. Where a comment says
 * RL_BUSY while something computes, trains or reads, it means: after that wait. Other states that
 * are RL_BUSY, such as requests that run or a pipeline on the model, are not waited for. Every
 * function works on an object of which a call waits to compute, unless it computes itself; pausing
 * or destroying an engine and stopping or destroying a pipeline end the wait.
 *
 * Engine steps and training steps of models with model.compute_copies 2 always wait for each other:
 * they compute in turn, first come, first served, and a training step gives up its turn after each
 * micro-batch, except to another one on its model. A callback must not wait for a call that
 * computes. */

/* Levels of the log, least important last. */
enum { RL_LOG_OFF = 0, RL_LOG_ERROR = 1, RL_LOG_WARN = 2, RL_LOG_INFO = 3, RL_LOG_DEBUG = 4 };

/* What the value of a field of the log is. */
enum {
  RL_FIELD_TEXT = 1,  /* a text */
  RL_FIELD_NUMBER = 2 /* an integer, in decimal */
};

/* A line of the log. Its message is for people; its fields have the same facts for programs, such
 * as "step" and "path". A line about an error has its "code", and "key", "location" and
 * "system_code" if the error has them. The texts are valid during the call only. */
typedef struct rl_log_record {
  size_t struct_size; /* of the library: a newer header's fields beyond it are not there */
  int32_t level;      /* RL_LOG_ERROR ... */
  uint32_t reserved;
  int64_t time_ns;       /* when, by the clock of all times of librl (rl_runtime_get_clock) */
  int64_t unix_ns;       /* the same moment since 1970-01-01 00:00 UTC */
  const char* component; /* the part of librl that logs, such as "engine" */
  size_t component_len;
  const char* message;
  size_t message_len;
  size_t num_fields;
  const char* const* field_names;  /* [num_fields] */
  const char* const* field_values; /* [num_fields], as texts */
  const int32_t* field_kinds;      /* [num_fields], RL_FIELD_TEXT or RL_FIELD_NUMBER */
} rl_log_record;

/* Initialises an rl_log_record: zeroes the `size` bytes of *record and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_log_record_init(rl_log_record* record, size_t size);

/* Receives a line of the log. Called on any thread, including librl's own, but never on two at
 * once. */
typedef void (*rl_log_fn)(void* user_data, const rl_log_record* record);

/* Frees what user_data refers to. Called exactly once, on the thread that drops the callback. */
typedef void (*rl_destroy_fn)(void* user_data);

/* Creates a runtime. header_abi is the RL_ABI_VERSION of the header that the caller was written
 * for; a library that cannot serve it is RL_INCOMPATIBLE with both numbers. Reads runtime.*,
 * parallel.*, comm.* and model.dtype and checks the whole set: RL_CONFLICT names options that
 * contradict one another, RL_OUT_OF_RANGE more runtime.threads than the process may use.
 * runtime.device = cuda is RL_NOT_IN_BUILD without the GPU plugin librl_cuda.so.N beside
 * librl.so.N, RL_INCOMPATIBLE with that of another version, and RL_UNSUPPORTED without a driver, a
 * device of runtime.device_index or code for its architecture. RL_FAILED_PRECONDITION with
 * comm.backend = host, which needs rl_runtime_create_hosted. options may be NULL: then all options
 * have their defaults. Starts threads; reads no files but those of comm.rendezvous. Thread: any. */
RL_API rl_status rl_runtime_create(uint32_t header_abi, const rl_options* options, rl_runtime** out,
                                   rl_error** err);

/* Ends the handle. The runtime itself lives until the last object made from it ends. Thread:
 * any. */
RL_API void rl_runtime_destroy(rl_runtime* runtime);

/* The options that the runtime was created with, every one with its value, as a set of its own:
 * changing it changes nothing else, and another object can be created with it. Every object that
 * takes options has such a function. Thread: any. */
RL_API rl_status rl_runtime_options(const rl_runtime* runtime, rl_options** out, rl_error** err);

/* Sets the runtime's log sink; there is at most one. fn may be NULL: then nothing is logged, as in
 * a new runtime. runtime.log_level sets the least important level that is passed on. user_data is
 * consumed, also on failure. Once this returns, the previous sink is not called any more. Thread:
 * any. */
RL_API rl_status rl_runtime_set_log(rl_runtime* runtime, rl_log_fn fn, void* user_data,
                                    rl_destroy_fn destroy, rl_error** err);

typedef struct rl_runtime_info {
  size_t struct_size;
  uint64_t reserved_bytes; /* held now, in the memory of whichever device, by the arenas of all
                              objects made from the runtime; rl_plan_info calls them arena_bytes.
                              Other runtimes of the process are not counted */
  int64_t threads;         /* compute threads, the calling thread included */
  uint32_t rank;           /* which rank of its run it is, from 0; see rl_runtime_create_rank */
  uint32_t num_ranks;      /* of the run */
} rl_runtime_info;

/* Initialises an rl_runtime_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_runtime_info_init(rl_runtime_info* info, size_t size);

/* What a runtime has and holds. Thread: any. */
RL_API rl_status rl_runtime_get_info(const rl_runtime* runtime, rl_runtime_info* info,
                                     rl_error** err);

/* ---- ranks ---- */

/* A run of parallel.data, parallel.context, parallel.tensor or parallel.pipeline > 1 has as many
 * ranks as their product in one process, numbered from 0. Each rank is a runtime with threads,
 * arenas and a memory budget of its own, and has its own model, engines, trainer and pipeline.
 * Ranks of parallel.data share the work of a training step: each is given the same whole batch,
 * trains on its part of every minibatch, and afterwards has the same weights as the others, bit for
 * bit.
 *
 * rl_trainer_step, rl_trainer_backward and their variants are calls that the ranks make together:
 * all of them, in the same order, with trainers of the same options, each rank on a thread of its
 * own, since a call waits for the others. So do the loops of pipelines, of which each rank runs
 * one, with the same options; each generates a part of the prompts and trains on all of them. All
 * other calls are a rank's own.
 *
 * One rule says which rank does what exists once: a sample belongs to the rank whose engine
 * generates it, which sends its events and is given its scores and replies; of ranks that divide a
 * model, and generate it together, to the first. Everything else is rank 0's: it evaluates, writes
 * the files of a run, saves models and checkpoints, and has the metrics in its RL_EVENT_STEP, which
 * on other ranks has none. rl_pipeline_checkpoint and rl_pipeline_evaluate are
 * RL_FAILED_PRECONDITION there. A checkpoint is the same for any number of ranks, and every rank
 * loads it.
 *
 * With parallel.tensor = T, ranks T * i to T * i + T - 1 divide one model. They make all calls that
 * compute with it together, with the same arguments: also rl_engine_step,
 * rl_model_forward, publications, rl_model_save, rl_trainer_save and what sets weights. Their
 * engines are given the same requests and have the same samples, and none has a thread of its own
 * (engine.thread). The first of them writes what they save. A weight that is divided has its pieces
 * by name, as "model.layers.0.mlp.up_proj.weight.part1".
 *
 * Pipelines of ranks T * i to T * i + T - 1 generate the same samples. What the host of the first
 * one gives it, and when it misses a deadline, the others learn in the order of its loop, so that
 * they never part; rl_pipeline_score and rl_pipeline_reply are RL_FAILED_PRECONDITION on them, and
 * they have neither score nor turn events. Custom functions are called on every rank and must
 * return the same. rl_pipeline_checkpoint is RL_UNSUPPORTED while they run, and rl_model_save is
 * RL_BUSY. After the end of all, ranks 0 to T - 1 make both calls together.
 *
 * With engine.tensor_parallel_size = 1 ranks that divide a model have an engine each, with all
 * parts and stages of it. By the rule above samples are then a rank's own, as those of ranks are
 * that divide no model: its engine steps without the others, has requests of its own, and in
 * pipelines a part of the prompts, with their events, scores and replies. Rank 0 evaluates alone.
 * What computes with the trained model they still do together, and so what publishes a version,
 * when they give each other the weights: rl_trainer_load, and an rl_pipeline_create that resumes.
 *
 * The two halves of a run over a store (rl_pipeline_create_stored) have ranks of their own. Of each
 * half rank 0 alone has the store, and gives the others what it takes from it or reads there, so
 * that all run one loop: of pipeline.role = train every rank has all groups, of role rollout the
 * ranks divide one model. When the host of one rank stops its pipeline, those of all ranks stop; a
 * deadline of it does not end a step in training of parallel.data or parallel.context. What fails
 * in the store ends the run of all. rl_pipeline_checkpoint of role train is RL_UNSUPPORTED while
 * they run. With checkpoint.resume = auto rl_pipeline_create_stored of role train is a call that
 * the ranks make together, since rank 0 says from which checkpoint they go on.
 *
 * With parallel.context = C and parallel.tensor = T, ranks C * T * i to C * T * (i + 1) - 1 train
 * on the same part of a minibatch, and those with the same part of the model divide the rows of its
 * micro-batches. They make the calls together that ranks of parallel.data do, and share gradients,
 * checkpoints and prompts with them.
 *
 * With parallel.pipeline = S, parallel.data = D and C and T of these, rank r has stage
 * r / (D * C * T) of a model, and ranks of the same r / T % (D * C) have one model together. These
 * too make all calls that compute with it together, and what is said above of ranks that divide a
 * model, and of their pipelines, holds for them: the first is that of stage 0 with the first part.
 * A weight, or a piece of one, is on the stage that has its layer. rl_model_digest is of a rank's
 * weights.
 *
 * A batch that one rank refuses is refused by all, and nothing has changed. When the pipeline of a
 * rank is stopped, the others end before their next step. What fails on one rank later, such as a
 * step that rl_trainer_cancel ends, ends the run of all: calls that ranks make together are from
 * then on RL_RANK_LOST, or RL_INCOMPATIBLE if ranks made different calls, and name the same rank in
 * RL_ERROR_LOCATION, as "rank 1". So do a rank or a pipeline of it that is destroyed while others
 * wait for it, and one that does not come within comm.timeout_ns, evaluations and checkpoints of
 * rank 0 included. Ranks of such a run can only be destroyed; a run begins anew from a checkpoint.
 *
 * With parallel.zero_stage above 0 each rank has a part of the optimizer states, so rl_trainer_save
 * is a call that the ranks make together too: rank 0 writes, the others give it their parts, and
 * all return the same path. Pipelines do so for the checkpoints of checkpoint.every_steps;
 * rl_pipeline_checkpoint is RL_UNSUPPORTED then, and from stage 2 on so is rl_trainer_backward, as
 * no rank has all gradients. At stage 3 a rank has the fp32 weights of some matrices alone.
 * rl_model_save, what saves a critic, and rl_trainer_load are then calls that the ranks make
 * together too. Rank 0 writes what they save, which is RL_BUSY while a pipeline runs. A checkpoint
 * that one rank cannot load is RL_FAILED_PRECONDITION on the others, which name it, and another one
 * than that of rank 0 is RL_INCOMPATIBLE on all. rl_model_digest is of a rank's weights.
 * RL_UNSUPPORTED, with the key parallel.zero_stage, are rl_model_weight for a matrix of a layer,
 * rl_model_set_weights, and level 2 of rl_engine_sleep.
 *
 * With comm.backend = gloo or nccl each rank is a process: it creates its runtime with a comm.rank
 * of its own, which returns when all have met at comm.rendezvous, and there is no
 * rl_runtime_create_rank.
 * With comm.backend = host there is none either: each rank creates its runtime with a transport of
 * its own (rl_host), which says which rank it is.
 */

/* Creates another rank of the run of a runtime, with its options and its services of the host, and
 * with runtime.device = cuda on the GPU that runtime.device_index says. Each rank but 0, which is
 * the runtime that rl_runtime_create made, is created once. RL_FAILED_PRECONDITION if it was
 * created before, the run has one rank or comm.backend is not local; RL_OUT_OF_RANGE if the run has
 * no such rank. Other codes are those of rl_runtime_create. Thread: any. */
RL_API rl_status rl_runtime_create_rank(const rl_runtime* runtime, uint32_t rank, rl_runtime** out,
                                        rl_error** err);

/* ---- plan ---- */

/* A plan says how much memory a run takes before any of it is allocated. It is computed from
 * options and the header of model.path alone. */

/* What the planned memory is used for, and so what a model that is opened for it may have. Anything
 * else is RL_FAILED_PRECONDITION with the key "use" and the uses that allow it in
 * RL_ERROR_EXPECTED. */
enum {
  RL_USE_MODEL = 1,    /* a model, for its text functions */
  RL_USE_GENERATE = 2, /* a model and an engine */
  RL_USE_TRAIN = 3,    /* a model and a trainer */
  RL_USE_PIPELINE = 4, /* a pipeline: engine and trainer share their working memory. The host may
                          create engines and trainers beside it, which the plan does not count */
  RL_USE_PARTS = 5,    /* an engine and a trainer with working memory of their own */
  RL_USE_FORWARD = 6   /* a model and its forwards (rl_model_forward) */
};

/* Kinds of devices, each with memory of its own. The numbers are those of DLPack. */
enum { RL_DEVICE_CPU = 1, RL_DEVICE_CUDA = 2 };

/* Element types. */
enum { RL_DTYPE_F32 = 0, RL_DTYPE_BF16 = 1, RL_DTYPE_I32 = 2 };

/* The totals of a plan. A budget bounds the memory of the device that computes (runtime.device).
 * The CPU computes in the memory that the host has. A GPU has memory of its own: there total_bytes
 * counts the arenas that lie in it, and runtime.host_memory_budget_bytes bounds those in the memory
 * of the host together with baseline_bytes. rl_plan_item says where each arena lies. */
typedef struct rl_plan_info {
  size_t struct_size;
  uint64_t total_bytes;    /* what runtime.memory_budget_bytes bounds: on the CPU all arenas, but
                              those of activations that trainer.activation_offload moves, and
                              baseline_bytes; on a GPU the arenas in its memory */
  uint64_t arena_bytes;    /* sum of all arenas, exact */
  uint64_t baseline_bytes; /* estimate of memory of the host outside arenas */
  uint64_t budget_bytes;   /* the budget; 0: no limit */
  int64_t max_model_len;   /* longest sequence, in tokens */
  int64_t max_tokens;      /* rows of a training micro-batch, from which the size of forwards
                              follows; 0 without a trainer and forwards */
  int64_t kv_blocks;       /* blocks in the KV pool of each engine; 0 without an engine */
  int64_t threads;         /* compute threads, the calling thread included */
  int32_t dtype;           /* compute dtype, RL_DTYPE_F32 or RL_DTYPE_BF16 */
  int32_t reserved;
  uint64_t least_bytes; /* total_bytes of the smallest plan of these options, which a budget less
                           its margin must hold */
} rl_plan_info;

/* Initialises an rl_plan_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_plan_info_init(rl_plan_info* info, size_t size);

/* Kinds of plan items. */
enum {
  RL_PLAN_ARENA = 1,   /* an arena; all of them add up to arena_bytes */
  RL_PLAN_PART = 2,    /* a part of the working memory of rollout or training */
  RL_PLAN_OUTSIDE = 3, /* an estimate of memory outside arenas; these add up to baseline_bytes */
  RL_PLAN_PHASE = 4    /* what a phase uses of total_bytes: arenas held throughout, its working
                          memory, and on the CPU memory outside arenas. Phases exclude one another,
                          so none exceeds total_bytes */
};

typedef struct rl_plan_item {
  size_t struct_size;
  const char* name;  /* owner: the plan */
  const char* phase; /* phase that uses the bytes: "always", "shared" (by the phases of a pipeline),
                        "rollout", "log-prob", "train", "critic", "reward" or "teacher"; of
                        RL_PLAN_PHASE "start-up", "rollout", "log-prob", "train", "publish" or
                        "checkpoint"; owner: the plan */
  uint64_t bytes;    /* size of the item */
  int32_t kind;      /* RL_PLAN_ARENA, RL_PLAN_PART, RL_PLAN_OUTSIDE or RL_PLAN_PHASE */
  int32_t device;    /* whose memory it is: RL_DEVICE_CPU or RL_DEVICE_CUDA */
  int32_t device_index; /* number of the device among those of its kind; 0 for RL_DEVICE_CPU */
  int32_t reserved;
  const char* role; /* model that it is for: "policy", "reference", "critic", "reward", "teacher" or
                       "rollout"; empty: not for one of them alone; owner: the plan */
} rl_plan_item;

/* Initialises an rl_plan_item: zeroes the `size` bytes of *item and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_plan_item_init(rl_plan_item* item, size_t size);

/* Plans the memory for a use of model.path, as the options say. Training is planned for steps of
 * pipeline.prompts_per_step times pipeline.samples_per_prompt samples, also where the host makes
 * the samples; a step of rl_trainer_step may have fewer or more. A budget that even the smallest
 * plan exceeds is RL_RESOURCE_EXHAUSTED; its text names the phase, the bytes, and the options to
 * change with what each saves, which rl_error_knob_at has as data. RL_NOT_FOUND, RL_DATA_LOSS and
 * RL_UNSUPPORTED for model.path as rl_model_open; runtime.device as rl_runtime_create. Thread:
 * any. */
RL_API rl_status rl_plan_create(const rl_options* options, int32_t use, rl_plan** out,
                                rl_error** err);

/* Ends the handle and the texts of its items. Thread: any; callback-safe. */
RL_API void rl_plan_release(rl_plan* plan);

/* The options that the plan was made for, as rl_runtime_options returns those of a runtime. Thread:
 * any. */
RL_API rl_status rl_plan_options(const rl_plan* plan, rl_options** out, rl_error** err);

/* The totals of the plan and the sizes that it chose. Thread: any. */
RL_API rl_status rl_plan_get_info(const rl_plan* plan, rl_plan_info* info, rl_error** err);

/* Item `index` of the plan, counted from 0: arenas, parts, memory outside arenas, then phases;
 * RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_plan_at(const rl_plan* plan, size_t index, rl_plan_item* item, rl_error** err);

/* Number of items of the plan; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_plan_count(const rl_plan* plan);

/* The plan as a table for human readers. Thread: any. */
RL_API rl_status rl_plan_text(const rl_plan* plan, rl_bytes** out, rl_error** err);

/* What turning a knob changes. */
enum {
  RL_KNOB_SPEED = 1,    /* time alone: samples, log-probs and gradients have the same bits */
  RL_KNOB_ROUNDING = 2, /* how numbers are rounded, and so the bits of what is computed */
  RL_KNOB_RUN = 3       /* what is computed: shorter sequences, no KL, fewer evaluations */
};

/* A knob: an option that takes less memory with another value. Knobs are listed in the order to
 * turn them, those that change least first, unless one needs another; what each does is counted
 * after all before it. */
typedef struct rl_knob {
  size_t struct_size;
  const char* key;      /* the option; the owner of all texts is the plan or the error */
  const char* value;    /* its present value, as text */
  const char* proposed; /* the value to set, as text (rl_options_set_text) */
  uint64_t saved_bytes; /* by which the smallest plan shrinks; 0 for a knob that helps only together
                           with the next, or that gives the same bytes to another use */
  double time_ratio;    /* estimated time of a step with the knob turned, divided by that before;
                           1.1: 10 percent longer */
  int32_t effect;       /* RL_KNOB_SPEED, RL_KNOB_ROUNDING or RL_KNOB_RUN */
  int32_t reserved;
} rl_knob;

/* Initialises an rl_knob: zeroes the `size` bytes of *knob and sets struct_size. NULL or a size too
 * small has no effect. Thread: any; callback-safe. */
RL_API void rl_knob_init(rl_knob* knob, size_t size);

/* Knob `index` of a plan, counted from 0: of all that save memory; RL_OUT_OF_RANGE beyond the last.
 * Thread: any. */
RL_API rl_status rl_plan_knob_at(const rl_plan* plan, size_t index, rl_knob* knob, rl_error** err);

/* Number of knobs of the plan; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_plan_knob_count(const rl_plan* plan);

/* Knob `index`, counted from 0, of an error for which memory is short: the refusal of a plan, of an
 * object that needs more than the budget, or RL_OUT_OF_MEMORY for one of its arenas. Turning all of
 * a refused plan makes it fit, unless the error's text says that they do not suffice.
 * RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_error_knob_at(const rl_error* error, size_t index, rl_knob* knob,
                                  rl_error** err);

/* Number of knobs of an error; 0 for NULL and for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API size_t rl_error_knob_count(const rl_error* error);

/* What a machine can do, for estimates of time. All rates are above 0 and at most 1e18. */
typedef struct rl_machine {
  size_t struct_size;
  double f32_flops;        /* of matrix products in fp32, per second; a multiply-add is two */
  double bf16_flops;       /* of those in bf16 */
  double read_bytes_per_s; /* of memory, beyond the caches */
  double copy_bytes_per_s; /* of memory, by bytes written */
  int64_t threads;         /* that all rates are for; 1 to 65536 */
} rl_machine;

/* Initialises an rl_machine: zeroes the `size` bytes of *machine and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_machine_init(rl_machine* machine, size_t size);

/* Measures the machine with the threads of a runtime, in a fraction of a second and with 100 MiB of
 * memory that its budget does not count; once, and later calls have the same figures. RL_BUSY while
 * something computes. Thread: any. */
RL_API rl_status rl_runtime_probe(rl_runtime* runtime, rl_machine* machine, rl_error** err);

/* An estimate of the time of a step, in seconds; 0 for what a use does not have. It ranks settings:
 * a step takes longer or shorter, most of all where responses are shorter than
 * sampling.max_new_tokens. docs/plan.md has the formulas. */
typedef struct rl_step_time {
  size_t struct_size;
  double total_s;
  double rollout_s; /* prompts and decoding */
  double logprob_s; /* forwards of reference, critic, reward model and teacher */
  double train_s;   /* forwards and backwards, of the critic too */
  double update_s;  /* the optimizer */
  double publish_s; /* new weights to the engine */
} rl_step_time;

/* Initialises an rl_step_time: zeroes the `size` bytes of *time and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_step_time_init(rl_step_time* time, size_t size);

/* Plans with the fastest setting that fits runtime.memory_budget_bytes: the best of all values that
 * the knobs and their defaults offer, but for knobs whose effect is above `effect`, RL_KNOB_SPEED,
 * RL_KNOB_ROUNDING or RL_KNOB_RUN. rl_plan_options of the result has the setting. Other options
 * remain as they are. The bytes are those of the plan, exactly; the time, also in *time, is
 * estimated.
 *
 * options may be NULL: then those of the runtime hold, which also reads the model's header. machine
 * may be NULL: then it is measured, as by rl_runtime_probe. time may be NULL. If no setting fits,
 * the error is that of rl_plan_create, whose other codes are the same. Thread: any. */
RL_API rl_status rl_plan_fit(rl_runtime* runtime, const rl_options* options, int32_t use,
                             const rl_machine* machine, int32_t effect, rl_step_time* time,
                             rl_plan** out, rl_error** err);

/* ---- model ---- */

/* A model has weights, a tokenizer and a chat format. Engines, trainers and pipelines made from a
 * model share it. */

typedef struct rl_model_info {
  size_t struct_size;
  const char* family;     /* "llama", "qwen2", "qwen3", "mistral" or "gemma3"; owner: the library */
  int64_t vocab;          /* size of the vocabulary: rows of the embedding */
  int64_t hidden;         /* width of a hidden state, and of a row of the embedding */
  int64_t layers;         /* number of transformer blocks */
  int64_t heads;          /* number of query heads */
  int64_t kv_heads;       /* number of heads of keys and values */
  int64_t head_dim;       /* width of a head */
  int64_t ffn;            /* inner width of the feed-forward layers */
  int64_t max_position;   /* longest sequence by the model's configuration, in tokens */
  int64_t bos_id;         /* id of the token; -1 when there is none */
  int64_t pad_id;         /* id of the token; -1 when there is none */
  uint64_t num_eos_ids;   /* number of ids that rl_model_eos_ids returns */
  int32_t dtype;          /* compute dtype, RL_DTYPE_F32 or RL_DTYPE_BF16 */
  uint32_t has_tokenizer; /* 1: rl_model_encode and rl_model_decode work */
  uint32_t tied_head;     /* 1: the head shares the embedding's weights */
  uint32_t reserved;
} rl_model_info;

/* Initialises an rl_model_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_model_info_init(rl_model_info* info, size_t size);

/* Flags of the text functions. ADD_SPECIAL: encode adds what the tokenizer puts around a text, such
 * as bos. ALLOW_SPECIAL: special tokens spelled out in the text become their ids. SKIP_SPECIAL:
 * decode leaves special tokens out. GENERATION_PROMPT: a chat ends with the start of an assistant
 * turn. */
#define RL_TEXT_ADD_SPECIAL UINT64_C(1)
#define RL_TEXT_ALLOW_SPECIAL UINT64_C(2)
#define RL_TEXT_SKIP_SPECIAL UINT64_C(4)
#define RL_TEXT_GENERATION_PROMPT UINT64_C(8)

/* Flag of functions that write a model or a buffer file: an existing directory or file is
 * replaced. */
#define RL_SAVE_REPLACE UINT64_C(1)

/* Opens model.path: a Hugging Face directory of a family listed at rl_model_info (SmolLM2 is a
 * llama), or a GGUF file of a llama or qwen2. options may be NULL: then those of the runtime hold.
 * The plan of `use` is checked against the budget before weights are read; an engine and a trainer
 * on a model opened with RL_USE_PARTS take their sizes from one common plan. RL_NOT_FOUND names a
 * path without a model, RL_IO a file that cannot be read. A broken file is RL_DATA_LOSS with file,
 * offset and tensor; another family, or a setting of the model that librl does not implement, is
 * RL_UNSUPPORTED with what is supported. RL_CONFLICT names an option that differs from that of the
 * runtime, RL_RESOURCE_EXHAUSTED the budget. RL_BUSY while something computes. Thread: any. */
RL_API rl_status rl_model_open(rl_runtime* runtime, const rl_options* options, int32_t use,
                               rl_model** out, rl_error** err);

/* Ends the handle. The model itself lives until the last object made from it ends. Thread: any. */
RL_API void rl_model_destroy(rl_model* model);

/* The options that the model was opened with, as rl_runtime_options returns those of a runtime.
 * Thread: any. */
RL_API rl_status rl_model_options(const rl_model* model, rl_options** out, rl_error** err);

/* Saves the model as a Hugging Face directory that transformers can open: configuration, weights in
 * dtype (RL_DTYPE_F32 or RL_DTYPE_BF16), tokenizer if there is one. flags: 0 or RL_SAVE_REPLACE.
 * Directories above dir are made if needed. The directory appears complete by one rename or not at
 * all. An existing one is RL_ALREADY_EXISTS without RL_SAVE_REPLACE. RL_NOT_FOUND and RL_IO name a
 * path that cannot be written. RL_BUSY while the weights are being trained. Thread: any. */
RL_API rl_status rl_model_save(const rl_model* model, const char* dir, size_t dir_len,
                               int32_t dtype, uint64_t flags, rl_error** err);

/* Encodes text as token ids: *ids has rl_bytes_size / 4 values of int32_t. Flags, or 0 for none:
 * RL_TEXT_ADD_SPECIAL, RL_TEXT_ALLOW_SPECIAL. RL_FAILED_PRECONDITION when the model has no
 * tokenizer. Thread: any. */
RL_API rl_status rl_model_encode(const rl_model* model, const char* text, size_t text_len,
                                 uint64_t flags, rl_bytes** ids, rl_error** err);

/* Decodes token ids to text; invalid UTF-8 becomes U+FFFD. Flags: RL_TEXT_SKIP_SPECIAL.
 * RL_OUT_OF_RANGE names an id without a token; RL_FAILED_PRECONDITION when the model has no
 * tokenizer. Thread: any. */
RL_API rl_status rl_model_decode(const rl_model* model, const int32_t* ids, size_t num_ids,
                                 uint64_t flags, rl_bytes** text, rl_error** err);

/* Chat templates. A model's own chat template (Jinja text from its directory or file), or the one
 * at model.chat_template_path in its place, is rendered as transformers renders it, by an
 * interpreter that can access nothing but the chat and is bounded in steps, depth and size
 * (RL_RESOURCE_EXHAUSTED names the bound). A construct, filter, test or method that it does not
 * support is RL_UNSUPPORTED with its name, line and column; raise_exception in the template is
 * RL_INVALID_ARGUMENT with the template's text; a model without a template is
 * RL_FAILED_PRECONDITION.
 *
 * A special token becomes its id where the template wrote it. Where a message, a tool or a variable
 * spells one, it stays text, so a chat cannot forge a turn; transformers parses it there. For that
 * behaviour, render the chat and encode the text with RL_TEXT_ALLOW_SPECIAL. Without such input
 * both give the same ids. */

/* Encodes a chat, given as one JSON object like a row of a data file, as token ids in the model's
 * chat format:
 *   "messages"              list of {"role", "content", ...}; content is a text or a list of parts,
 *                           and null or absent with "tool_calls"; other members are passed on
 *   "tools"                 optional: list of tool descriptions
 *   "chat_template_kwargs"  optional: object of further variables, such as enable_thinking
 *   "chat_template"         optional: name of one of the model's templates; without it the one
 *                           named "tool_use" when there are tools, else "default"
 * Members keep their order where a template prints them. The variable strftime_now, a date
 * "YYYY-MM-DD" or "YYYY-MM-DDTHH:MM:SS", is the time that the template function of that name
 * returns; without it that function is undefined. Any other member or a wrong type is RL_DATA_LOSS
 * with its location. Flags: RL_TEXT_GENERATION_PROMPT. Thread: any. */
RL_API rl_status rl_model_encode_chat(const rl_model* model, const char* chat, size_t chat_len,
                                      uint64_t flags, rl_bytes** ids, rl_error** err);

/* Renders a chat, given as for rl_model_encode_chat, to text. It needs no tokenizer. Flags:
 * RL_TEXT_GENERATION_PROMPT. RL_NOT_FOUND when the model has no template of the chat's
 * "chat_template"; RL_FAILED_PRECONDITION and RL_DATA_LOSS as above. Thread: any. */
RL_API rl_status rl_model_render_chat(const rl_model* model, const char* chat, size_t chat_len,
                                      uint64_t flags, rl_bytes** text, rl_error** err);

/* The model's family, shape, compute dtype and special ids. Thread: any. */
RL_API rl_status rl_model_get_info(const rl_model* model, rl_model_info* info, rl_error** err);

/* Token ids that end a response, int32_t each: the model's own, then those that end an assistant
 * turn. Engines end at the model's own; sampling.stop_token_ids adds others. Thread: any. */
RL_API rl_status rl_model_eos_ids(const rl_model* model, rl_bytes** ids, rl_error** err);

/* The version of the model's weights: 0 as loaded, one more with each publication. Thread: any. */
RL_API rl_status rl_model_version(const rl_model* model, uint64_t* out, rl_error** err);

/* A hash of all fp32 parameters of the model: equal weights have equal digests. Texts and files of
 * librl have it as 16 hexadecimal digits. RL_BUSY while the weights are being trained. Thread:
 * any. */
RL_API rl_status rl_model_digest(const rl_model* model, uint64_t* out, rl_error** err);

/* ---- samples ---- */

/* What a sample is used for. */
enum {
  RL_PURPOSE_TRAIN = 0, /* a training step; also every sample of a host's own engine */
  RL_PURPOSE_EVAL = 1   /* an evaluation of a pipeline */
};

/* Why generation of a sample ended. */
enum {
  RL_FINISH_NONE = 0,        /* it has not ended, or it is not known */
  RL_FINISH_STOP_TOKEN = 1,  /* an end token of the model, or one of sampling.stop_token_ids */
  RL_FINISH_STOP_STRING = 2, /* a text of sampling.stop */
  RL_FINISH_LENGTH = 3,      /* sampling.max_new_tokens was reached */
  RL_FINISH_ABORTED = 4      /* rl_engine_abort, rl_engine_abort_request, or logits not finite */
};

/* A sample: a prompt and the tokens generated after it. With P = num_prompt and G = num_ids -
 * num_prompt, ids is [P + G] and every per-token array is [G]: entry i belongs to ids[P + i]. In a
 * result, all pointers are owned by the event or batch that the view was taken from. In an input
 * everything is copied, and arrays marked optional may be NULL. */
typedef struct rl_sample_view {
  size_t struct_size;
  uint64_t sample_id; /* unique in a pipeline, and among the engines of a runtime; from bit 48 on
                         it is runtime.instance, so those of other processes differ.
                         rl_pipeline_score takes it. In an input, where ordinal and slot say which
                         sample it is, librl only returns it and names it in errors: it may be 0,
                         and several samples may have the same; for rl_request.resume see
                         rl_engine_submit */
  uint64_t ordinal;   /* ordinal of the group: number of the prompt in the run, or of the request */
  uint32_t slot;      /* number of the sample within its group, from 0 */
  uint32_t attempt;
  int64_t data_row;      /* row of the data file or the feed; -1 for none */
  int32_t purpose;       /* RL_PURPOSE_TRAIN ... */
  int32_t finish;        /* RL_FINISH_STOP_TOKEN ... */
  const int32_t* ids;    /* the prompt, then the tokens after it: num_ids of them */
  size_t num_ids;        /* P + G */
  size_t num_prompt;     /* P; in an input at least 1 */
  const float* logprobs; /* log softmax(logits / temperature)[id], nats; importance ratios use
                            these; optional: a trainer that needs them computes them first */
  const float* logprobs_sampled; /* log-probs under the distribution that was sampled from, after
                                    all sampling options; optional */
  const uint64_t* versions; /* version of the weights that generated each token; optional: without
                               it the trainer compares no log-probs */
  const uint8_t* loss_mask; /* 1 where the token is trained on; optional: all are */
  double reward;            /* finite; valid if scored is 1, else 0 */
  float temperature;        /* temperature of logprobs; 1 for greedy samples */
  uint32_t scored;          /* 1: the sample has a reward */
  const char* tag; /* the tag that the host gave the data row or the request, returned unread */
  size_t tag_len;
  const char* prompt_text; /* in events of a model with a tokenizer, else empty; includes special
                              tokens */
  size_t prompt_text_len;
  const char* text; /* the response without special tokens, present like prompt_text */
  size_t text_len;
  int64_t submitted_ns;   /* when its request was submitted; this time and the next two are by
                             rl_clock.steady_ns, 0 if unknown */
  int64_t first_token_ns; /* when its first token was there */
  int64_t finished_ns;    /* when its last token was there */
  size_t num_top; /* number of most probable ids kept per token (sampling.logprobs); in an input 0
                     for none */
  const int32_t* top_ids;    /* [G * num_top], per token the most probable id first; -1 for a token
                                that was not generated */
  const float* top_logprobs; /* [G * num_top], log-probs under the same softmax as logprobs; 0 where
                                the id is -1 */
  uint32_t num_aborts;       /* how often the sample was aborted; it may have been resumed since */
  uint32_t preemptions;      /* how often the sample gave up its KV blocks and waited again */
  int64_t admitted_ns;       /* when its request first ran; all times belong to its last request */
  const uint8_t* mixed_kv;   /* 1 where the token was generated from keys and values older than its
                                version (engine.keep_kv_on_publish): no forward reproduces its
                                log-prob, and no log-prob is compared; NULL: none. Optional. */
  size_t num_reward_parts;   /* number of reward parts in addition to reward; 0 for none */
  const double* reward_parts;   /* [num_reward_parts], finite; always NULL in a score event */
  const double* token_rewards;  /* what each token earns in addition to reward, finite; NULL:
                                   nothing. Always NULL in an event. Optional: for estimators of
                                   token rewards (rl_score) */
  const float* prompt_logprobs; /* [num_prompt], like logprobs for the tokens of the prompt, each
                                   given those before it; the first is 0; NULL: not measured
                                   (sampling.prompt_logprobs). Optional; buffer files do not keep
                                   it */
} rl_sample_view;

/* Initialises an rl_sample_view: zeroes the `size` bytes of *view and sets struct_size, data_row
 * -1, temperature 1 and tag_len RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread:
 * any; callback-safe. */
RL_API void rl_sample_view_init(rl_sample_view* view, size_t size);

/* What a host says of a sample: its reward, or that it gets none. */
typedef struct rl_score {
  size_t struct_size;
  uint64_t sample_id;  /* of a sample of a pipeline; for rl_batch_score that of the entry's sample,
                          or 0 */
  double reward;       /* finite */
  const double* parts; /* [num_parts] reward parts in addition to reward, finite; optional: none */
  size_t num_parts;
  const char* failure; /* NULL: the sample gets a reward; else why it gets none: no reward is read
                          then */
  size_t failure_len;
  const double* token_rewards; /* [num_token_rewards], finite: what each token after the prompt
                                  earns in addition to reward; not read where loss_mask is 0;
                                  optional: nothing. Only with algo.advantage = gae, reinforce_pp,
                                  remax and custom */
  size_t num_token_rewards;    /* 0, or num_ids - num_prompt of the sample */
} rl_score;

/* Initialises an rl_score: zeroes the `size` bytes of *score and sets struct_size and failure_len
 * RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_score_init(rl_score* score, size_t size);

/* ---- events ---- */

/* Kinds of events, and the fields of rl_event_view and other getters that each kind uses. */
enum {
  RL_EVENT_SCORE = 1, /* a sample (rl_event_sample) waits for its reward: rl_pipeline_score */
  RL_EVENT_TURN = 2,  /* a sample (rl_event_sample) waits for a reply to the model's turn
                         (pipeline.turns): rl_pipeline_reply. count = number of the turn, from 1;
                         text = what the model generated in it */
  RL_EVENT_STEP = 3,  /* a training step ended: step, version, metrics, count */
  RL_EVENT_EVAL = 4,  /* an evaluation ended: step, version, value = mean reward, count = samples
                         scored, metrics */
  RL_EVENT_CHECKPOINT = 5,     /* a checkpoint is on disk: step, text = its path, count */
  RL_EVENT_GROUP_DROPPED = 6,  /* a group was dropped: ordinal, data_row, purpose, reason, text =
                                  why, count */
  RL_EVENT_ENGINE_STATS = 7,   /* an engine's interval of engine.stats_interval_ns ended: step,
                                  version, count = number of the engine, metrics */
  RL_EVENT_GROUP = 8,          /* all samples of a group wait for their rewards, for judges that
                                  compare them (pipeline.score_events): count = number of samples,
                                  rl_event_sample in the order of their slots */
  RL_EVENT_FINISHED = 9,       /* a sample (rl_event_sample) of an engine has finished
                                  (rl_engine_set_queue); rl_engine_take returns it too, unless it is
                                  a turn of a conversation */
  RL_EVENT_TOKENS = 10,        /* an engine has sampled tokens (engine.stream_tokens): the ids of
                                  rl_event_sample, whose num_prompt is 0, and its text; they come
                                  before the sample's RL_EVENT_FINISHED */
  RL_EVENT_ENGINE_FAILED = 11, /* a step on an engine's own thread (engine.thread) failed, and the
                                  engine is paused: text = why. rl_engine_unpause tries again */
  RL_EVENT_GROUPS = 12,        /* complete groups wait in a buffer (rl_buffer_set_queue): count =
                                  number of them as the event was taken from its queue */
  RL_EVENT_PUBLISHED = 13,     /* engines read the weights of a trainer from now on
                                  (rl_trainer_set_queue): step, version, count */
  RL_EVENT_CHECKPOINT_FAILED = 14 /* a checkpoint could not be written, and the run goes on
                                     (checkpoint.on_failure): step, text = why */
};

/* Why a group was dropped. */
enum {
  RL_DROP_NONE = 0,
  RL_DROP_STALE = 1,          /* older than buffer.max_staleness or pipeline.max_staleness allows */
  RL_DROP_ABORTED = 2,        /* the run failed */
  RL_DROP_REWARD_ERROR = 3,   /* the host scored a sample with a failure */
  RL_DROP_REWARD_TIMEOUT = 4, /* a reward did not come within pipeline.reward_timeout_ns, or a reply
                                 within pipeline.reply_timeout_ns */
  RL_DROP_NON_FINITE = 5,     /* logits, or the update of the whole step, were not finite */
  RL_DROP_FILTERED = 6,       /* by pipeline.filter or pipeline.discard_zero_advantage; or no token
                                 of the whole step carried loss, as with pipeline.overlong_filter */
  RL_DROP_OVERLONG = 7,       /* reserved */
  RL_DROP_POISONED = 8,       /* reserved */
  RL_DROP_ROLLBACK = 9,       /* reserved */
  RL_DROP_CANCELLED = 10,     /* rl_buffer_drop, or pipeline.max_off_policy_steps */
  RL_DROP_SHUTDOWN = 11       /* the run was stopped */
};

/* The fields of an event. Fields that its kind does not use are 0, empty or, for data_row, -1. */
typedef struct rl_event_view {
  size_t struct_size;
  int32_t kind;     /* RL_EVENT_SCORE ... */
  int32_t reason;   /* RL_DROP_ABORTED ... */
  uint64_t step;    /* training steps done, including this one even if it applied no optimizer step;
                       from rl_trainer_step, the steps of its trainer */
  uint64_t version; /* version of the weights after the step */
  uint64_t ordinal; /* ordinal of the group */
  int64_t data_row; /* row of the data file or the feed; -1 for none */
  double value;     /* of an evaluation */
  uint64_t count;   /* as its kind says; of a step, a checkpoint, a dropped group or a publication:
                       number of events that its sender left out before it (rl_trainer_set_queue) */
  size_t num_metrics; /* number of metrics; rl_event_metric reads them */
  const char* text;   /* owner: the event */
  size_t text_len;
  int32_t purpose; /* RL_PURPOSE_TRAIN ...; evaluations count their ordinals separately */
  int32_t reserved;
  uint64_t source; /* number of the engine, buffer or trainer that sent it (rl_engine_set_queue); 0
                      for pipelines, and in events that calls of a trainer return */
} rl_event_view;

/* Initialises an rl_event_view: zeroes the `size` bytes of *view and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_event_view_init(rl_event_view* view, size_t size);

/* The event's kind; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API int32_t rl_event_kind(const rl_event* event);

/* The event's fields, as rl_event_view. Thread: any; callback-safe. */
RL_API rl_status rl_event_get_view(const rl_event* event, rl_event_view* view, rl_error** err);

/* Sample `index` of the event, counted from 0: RL_EVENT_SCORE and RL_EVENT_TURN have one,
 * RL_EVENT_GROUP has `count`, events of engines have one; RL_OUT_OF_RANGE beyond the last.
 * RL_FAILED_PRECONDITION for other kinds of events. Thread: any; callback-safe. */
RL_API rl_status rl_event_sample(const rl_event* event, size_t index, rl_sample_view* view,
                                 rl_error** err);

/* Metric `index` of the event, counted from 0; RL_OUT_OF_RANGE beyond num_metrics. Owner of the
 * name: the event. Names under "timing_s/" (seconds), "timing_per_token_ms/" and "perf/" vary from
 * run to run, all others do not. A step has "critic/rewards/mean", "actor/loss", "actor/grad_norm",
 * "actor/entropy" (nats), "training/logprob_max_abs_diff" (nats, 0 while trainer and engine agree),
 * "timing_s/step", "perf/rollout_tokens_per_s", "perf/train_tokens_per_s" and more, an evaluation
 * "eval/rewards/mean" and "timing_s/eval".
 *
 * For its rollout, a step has "timing_s/request/queue" (submission to first run), "first_token"
 * (submission to first token), "prefill" (first run to first token) and "decode" (first token to
 * the end), each with "/mean", "/max" and "/min" over the samples trained on; so does
 * "perf/request/preemptions". It also has "perf/engine/kv_use_peak" (share of the KV blocks),
 * "perf/engine/preemptions", "perf/engine/prefix_hit_rate" (tokens found over tokens looked up),
 * "timing_s/engine/prefill" and "timing_s/engine/decode" (time of forwards). An interval of an
 * engine has these five, "timing_s/engine/interval" (its length without idle time),
 * "perf/engine/number", "running", "waiting", "kv_use" (at its end), "admitted", "finished",
 * "prefill_tokens", "decode_tokens", "mixed_kv_tokens" and "tokens_per_s" (generated), and "/mean"
 * and "/max" of "timing_s/request/queue" and "timing_s/request/first_token". Thread: any;
 * callback-safe. */
RL_API rl_status rl_event_metric(const rl_event* event, size_t index, const char** name,
                                 double* value, rl_error** err);

/* A metric of the event by name, such as "actor/pg_loss"; RL_NOT_FOUND when the event has none of
 * that name. Thread: any; callback-safe. */
RL_API rl_status rl_event_metric_named(const rl_event* event, const char* name, size_t name_len,
                                       double* value, rl_error** err);

/* Ends the handle and all views of the event. Events may be released in any order, also after their
 * pipeline. Thread: any; callback-safe. */
RL_API void rl_event_release(rl_event* event);

/* A queue holds events until a host takes them. A pipeline has one (rl_pipeline_queue), and
 * engines, buffers and trainers put their events into one that the host gives them
 * (rl_engine_set_queue, rl_buffer_set_queue, rl_trainer_set_queue): that of a pipeline or one of
 * its own. So a host can wait for all of them with one call or on one descriptor.
 *
 * A sender keeps its queue alive, and drops its events once the pipeline of the queue has ended. An
 * engine sends every event, read or not. A buffer has one RL_EVENT_GROUPS unread at most. Of the
 * other events of a buffer or a trainer 1,024 are unread at most: further ones are left out, and
 * the next one that is sent has their number in `count`. */

/* Creates a queue, for any number of senders. RL_RESOURCE_EXHAUSTED when no file descriptor is
 * left. Thread: any. */
RL_API rl_status rl_event_queue_create(rl_event_queue** out, rl_error** err);

/* The next event of the queue, which the caller releases; if the call fails no event is lost.
 * RL_TIMEOUT: none came in time. RL_INTERRUPTED: rl_event_queue_interrupt or rl_pipeline_interrupt
 * was called. RL_DONE: the pipeline of the queue has ended and every event was taken; whether it
 * failed says rl_pipeline_next. Thread: any. */
RL_API rl_status rl_event_queue_next(rl_event_queue* queue, int64_t timeout_ns, rl_event** out,
                                     rl_error** err);

/* Makes one rl_event_queue_next, the running or the next one, return RL_INTERRUPTED. Thread:
 * any. */
RL_API rl_status rl_event_queue_interrupt(rl_event_queue* queue, rl_error** err);

/* A file descriptor for poll and epoll. It is readable when rl_event_queue_next with timeout 0
 * would return something other than RL_TIMEOUT, hence permanently once that is RL_DONE. It is
 * written at every event, so edge-triggered waiting is safe. Never read or close it. It ends with
 * the last of the queue's handles, its pipeline and its senders. -1 for a handle that is not live.
 * Thread: any; callback-safe. */
RL_API int32_t rl_event_queue_fd(const rl_event_queue* queue);

/* Number of events in the queue now; 0 for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API size_t rl_event_queue_size(const rl_event_queue* queue);

/* Ends the handle of the queue. Thread: any; callback-safe. */
RL_API void rl_event_queue_release(rl_event_queue* queue);

/* ---- pipeline ---- */

/* A pipeline is the synchronous training loop on a thread of the library: prompts ->
 * pipeline.samples_per_prompt samples each -> rewards from the host -> advantages -> optimizer
 * steps -> weights one version higher. The host pulls events:
 *
 *   rl_pipeline_start(p, &err);
 *   for (;;) {
 *     rl_status st = rl_pipeline_next(p, timeout_ns, &ev, &err);
 *     if (st == RL_TIMEOUT) continue;
 *     if (st != RL_OK) break;
 *     if (rl_event_kind(ev) == RL_EVENT_TURN) ... rl_pipeline_reply(p, &reply, 1, NULL, &err);
 *     if (rl_event_kind(ev) == RL_EVENT_SCORE) ... rl_pipeline_score(p, &score, 1, NULL, &err);
 *     rl_event_release(ev);
 *   }
 *
 * Data. data.path is a JSONL file; a row is {"messages": [{"role": ..., "content": ...}, ...]},
 * {"prompt": "..."} or {"ids": [...]}, with an optional "tag", a text that is returned in every
 * sample of the row. Messages go through the model's chat template, with a generation prompt, and
 * the row may also have the other members of rl_model_encode_chat; a prompt is encoded with
 * RL_TEXT_ADD_SPECIAL; ids are used unchanged. With algo.objective = sft a row also has "response",
 * with dpo "chosen" and "rejected", each a text or a list of ids. Unknown keys are errors, as are
 * empty lines. rl_pipeline_create only splits the file into lines: an error within a row ends the
 * loop when the row is read, and rl_pipeline_next returns it. Rows are used repeatedly, with
 * data.shuffle in a new order in each pass. Without data.path the host feeds rows. The loop runs
 * until pipeline.total_steps, the end of the feed or rl_pipeline_stop.
 *
 * Turns. With pipeline.turns a sample may have several turns of the model, between which the host
 * replies, as a tool or another environment does. A step waits for all replies, or for
 * pipeline.reply_timeout_ns. A pause and a stop do not wait for them: a stop drops the groups, and
 * a run that resumes draws them again. Checkpoints are of whole steps, so no turn is open in them.
 */

/* States of a pipeline. */
enum {
  RL_STATE_IDLE = 0,
  RL_STATE_FETCHING = 1, /* takes prompts from the data or from the feed */
  RL_STATE_GENERATING = 2,
  RL_STATE_SCORING = 3,
  RL_STATE_TRAINING = 4,
  RL_STATE_PUBLISHING = 5,
  RL_STATE_EVALUATING = 6,
  RL_STATE_CHECKPOINTING = 7,
  RL_STATE_PAUSED = 8,
  RL_STATE_STOPPING = 9,
  RL_STATE_DONE = 10,
  RL_STATE_FAILED = 11
};

/* Accounting of a run; tokens are those of responses, replies to turns included. At any time
 *   attempts_started = attempts_trained + attempts_discarded + attempts_in_flight
 *   tokens_generated = tokens_trained + tokens_discarded + tokens_in_flight
 *   prompts_drawn    = prompts_trained + prompts_dropped + prompts_open */
typedef struct rl_pipeline_stats {
  size_t struct_size;
  int32_t state; /* RL_STATE_IDLE ... */
  int32_t reserved;
  uint64_t step;     /* training steps done */
  uint64_t version;  /* version of the weights */
  uint64_t unscored; /* samples that wait for a reward from the host */
  uint64_t attempts_started, attempts_trained, attempts_discarded, attempts_in_flight; /* samples */
  uint64_t tokens_generated, tokens_trained, tokens_discarded, tokens_in_flight;
  uint64_t prompts_drawn, prompts_trained, prompts_dropped, prompts_open;   /* groups */
  uint64_t late_scores, duplicate_scores, unknown_scores, nonfinite_scores; /* refused rewards */
  uint64_t feed_size, feed_capacity; /* rows in the feed now, and the most it can hold */
  uint64_t unreplied;                /* samples that wait for a reply from the host */
} rl_pipeline_stats;

/* Initialises an rl_pipeline_stats: zeroes the `size` bytes of *stats and sets struct_size. NULL or
 * a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_pipeline_stats_init(rl_pipeline_stats* stats, size_t size);

/* Creates a pipeline: checks the options against model and budget, reserves all memory, opens the
 * data files and resumes as checkpoint.resume says. The model must have been opened with
 * RL_USE_PIPELINE, else RL_FAILED_PRECONDITION. options may be NULL: then those of the model hold.
 * Nothing runs before rl_pipeline_start. RL_NOT_FOUND and RL_IO name a file of the options,
 * RL_DATA_LOSS one that is damaged or that a checkpoint lacks, RL_CONFLICT options that contradict
 * one another or those of runtime and model. RL_BUSY while something computes. After a failure the
 * model has the weights it had before or, when the failure came after a checkpoint's weights were
 * read, those of the checkpoint; RL_OUT_OF_MEMORY while they are packed leaves it half-trained
 * (rl_trainer_step). Thread: any. */
RL_API rl_status rl_pipeline_create(rl_model* model, const rl_options* options, rl_pipeline** out,
                                    rl_error** err);

/* Stops the loop and ends the handle; waits for a training step in progress. Unscored groups end as
 * RL_DROP_SHUTDOWN. A call that waits on another thread returns: rl_pipeline_next returns the
 * remaining events, then RL_DONE or, in a new call, RL_STALE_HANDLE. Thread: any. */
RL_API void rl_pipeline_destroy(rl_pipeline* pipeline);

/* Starts the loop. RL_FAILED_PRECONDITION when it was started before or the model is half-trained
 * (rl_trainer_step); RL_BUSY while something else computes. Thread: any. */
RL_API rl_status rl_pipeline_start(rl_pipeline* pipeline, rl_error** err);

/* The next event of the pipeline, which the caller releases; if the call fails no event is lost.
 * RL_TIMEOUT: none came in time. RL_INTERRUPTED: rl_pipeline_interrupt was called. RL_DONE: the
 * loop has ended and every event was taken; sticky. A failure of the loop is returned, by every
 * further call, once every event was taken; of several ranks RL_RANK_LOST, or RL_INCOMPATIBLE if
 * what they exchange does not fit. Thread: any. */
RL_API rl_status rl_pipeline_next(rl_pipeline* pipeline, int64_t timeout_ns, rl_event** out,
                                  rl_error** err);

/* Makes one rl_pipeline_next, the running or the next one, return RL_INTERRUPTED. Thread: any. */
RL_API rl_status rl_pipeline_interrupt(rl_pipeline* pipeline, rl_error** err);

/* The queue of the pipeline's events, for its file descriptor. Thread: any. */
RL_API rl_status rl_pipeline_queue(rl_pipeline* pipeline, rl_event_queue** out, rl_error** err);

/* Gives samples their rewards, or says that they get none, in any order until their deadline. With
 * failure set in an entry the group of its sample is dropped as RL_DROP_REWARD_ERROR with that
 * text, and the step goes on without it. All entries are tried. results may be NULL; otherwise it
 * has `count` entries and receives the code of each, also when the call fails. Refused and counted:
 * RL_NOT_FOUND (no such sample), RL_DUPLICATE (scored before), RL_LATE (its group was dropped),
 * RL_NON_FINITE. A sample of a step has as many reward parts as algo.gdpo_weights has entries, if
 * any, else it is RL_INVALID_ARGUMENT; algo.advantage = gdpo compares them one by one, and an
 * rl_advantage_fn sees them. Token rewards of another number than the sample has, or that
 * algo.advantage does not read, are RL_INVALID_ARGUMENT. The error has the code of the first
 * refusal, and RL_ERROR_KEY is "scores[i]"; several refusals are its parts (rl_error_part), in
 * order. With model.reward_path no sample waits for the host, and every entry is
 * RL_FAILED_PRECONDITION. After an RL_OUT_OF_MEMORY some entries may not have been processed: send
 * all of them again; those accepted before are RL_DUPLICATE then. Thread: any. */
RL_API rl_status rl_pipeline_score(rl_pipeline* pipeline, const rl_score* scores, size_t count,
                                   rl_status* results, rl_error** err);

/* What a host answers to a turn of the model: tokens, or that the sample has no further turn. */
typedef struct rl_reply {
  size_t struct_size;
  uint64_t sample_id; /* of the sample of the event */
  uint64_t turn;      /* the turn that it answers, `count` of its event; 0: the present one */
  const int32_t* ids; /* [num_ids] token ids, copied; optional: text, or finish */
  size_t num_ids;
  const char* text; /* encoded to ids as by rl_model_encode; NULL: ids */
  size_t text_len;
  uint64_t flags;  /* of the text: RL_TEXT_ADD_SPECIAL, RL_TEXT_ALLOW_SPECIAL */
  uint32_t finish; /* 1: no tokens, and the sample waits for its reward from now on */
  uint32_t reserved;
} rl_reply;

/* Initialises an rl_reply: zeroes the `size` bytes of *reply and sets struct_size and text_len
 * RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_reply_init(rl_reply* reply, size_t size);

/* Answers turns of the model (RL_EVENT_TURN), in any order until their deadline. The tokens follow
 * those of the sample, with loss_mask 0, log-probs 0 and the version 2^64 - 1, and the model
 * generates its next turn after them. All entries are tried. results may be NULL; it, the parts of
 * the error and RL_OUT_OF_MEMORY are as in rl_pipeline_score, and RL_ERROR_KEY is "replies[i]".
 * Refused: RL_NOT_FOUND (no such turn waits), RL_DUPLICATE (answered before), RL_LATE (its group
 * was dropped), RL_INVALID_ARGUMENT (neither tokens nor finish, or both), RL_OUT_OF_RANGE (an id
 * outside the vocabulary, or no room for the tokens and one of the model within
 * engine.max_model_len), RL_FAILED_PRECONDITION without pipeline.turns and, for text, without a
 * tokenizer. A sample that gets no reply is given up by an rl_score with failure. Thread: any. */
RL_API rl_status rl_pipeline_reply(rl_pipeline* pipeline, const rl_reply* replies, size_t count,
                                   rl_status* results, rl_error** err);

/* A row for the feed of a pipeline: either a line as in the data file, or a prompt of token ids. */
typedef struct rl_feed_row {
  size_t struct_size;
  const char* json; /* the line; NULL: the row has ids. With algo.objective sft, dpo and
                       reward_model it contains its responses too */
  size_t json_len;
  const int32_t* ids; /* [num_ids]; optional */
  size_t num_ids;
  const char* tag; /* of a row of ids: a text that is returned in its samples; optional */
  size_t tag_len;
} rl_feed_row;

/* Initialises an rl_feed_row: zeroes the `size` bytes of *row and sets struct_size, and json_len
 * and tag_len RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_feed_row_init(rl_feed_row* row, size_t size);

/* Adds one row to the feed; feed_capacity of rl_pipeline_stats is the most that it can hold. A full
 * feed makes the call wait: RL_TIMEOUT when it had no room in time. A row that cannot be used is
 * RL_INVALID_ARGUMENT or another failure that names its place, and is not added.
 * RL_FAILED_PRECONDITION with data.path, after rl_pipeline_finish_feed, or once the loop has ended.
 * Thread: any. */
RL_API rl_status rl_pipeline_feed(rl_pipeline* pipeline, const rl_feed_row* row, int64_t timeout_ns,
                                  rl_error** err);

/* Declares the feed complete: the loop ends after the last whole step. RL_FAILED_PRECONDITION
 * with data.path, and when the feed is complete already. Thread: any. */
RL_API rl_status rl_pipeline_finish_feed(rl_pipeline* pipeline, rl_error** err);

/* Pauses the loop before its next forward, wait or update. No effect when it is already paused.
 * Thread: any. */
RL_API rl_status rl_pipeline_pause(rl_pipeline* pipeline, rl_error** err);

/* Ends a pause of the loop. No effect when it is not paused. Thread: any. */
RL_API rl_status rl_pipeline_unpause(rl_pipeline* pipeline, rl_error** err);

/* Ends the loop: a step in training is finished, one in rollout or scoring is abandoned. RL_OK when
 * the loop ended in time, RL_TIMEOUT when it is still ending. A timeout_ns > 0 is also a deadline
 * for a step in training, which ends with its micro-batch then: without an optimizer step so far it
 * is undone, and a run that resumes repeats it; between two optimizer steps it leaves the model
 * half-trained (rl_trainer_step), and no checkpoint can be written; after the last one it is
 * finished. The earliest deadline of several calls holds. Events can still be taken. Thread:
 * any. */
RL_API rl_status rl_pipeline_stop(rl_pipeline* pipeline, int64_t timeout_ns, rl_error** err);

/* Requests a checkpoint at the next step boundary, or at once when the loop is not running; *path
 * is its directory in checkpoint.dir. RL_TIMEOUT when it was not written in time; it will still be
 * written. RL_FAILED_PRECONDITION without checkpoint.dir, after the run failed, or when a stop left
 * the model half-trained (rl_pipeline_stop). Thread: any. */
RL_API rl_status rl_pipeline_checkpoint(rl_pipeline* pipeline, int64_t timeout_ns, rl_bytes** path,
                                        rl_error** err);

/* Saves the critic of algo.advantage = gae like rl_model_save saves the policy: as a model for
 * sequence classification with one label, which model.critic_path and model.reward_path can open.
 * RL_FAILED_PRECONDITION without a critic, RL_BUSY while it or the policy is being trained. Thread:
 * any. */
RL_API rl_status rl_pipeline_save_critic(rl_pipeline* pipeline, const char* dir, size_t dir_len,
                                         int32_t dtype, uint64_t flags, rl_error** err);

/* Requests an evaluation of eval.path at the next step boundary. Its samples come as score events
 * of RL_PURPOSE_EVAL, its end is RL_EVENT_EVAL. With algo.objective = reward_model its rows are
 * pairs and there are no score events: the event's count is the number of pairs and its value is
 * the share of pairs whose chosen response has the larger score. RL_FAILED_PRECONDITION without
 * eval.path, and once the loop has ended. Thread: any. */
RL_API rl_status rl_pipeline_evaluate(rl_pipeline* pipeline, rl_error** err);

/* Applies option values that may change between steps, from the next step on; those of
 * RL_WHEN_ANY_TIME take effect at once. Another option that differs is RL_NOT_CHANGEABLE naming it;
 * all other violations are parts of the same error (rl_error_part), and then nothing changes.
 * Thread: any. */
RL_API rl_status rl_pipeline_set_options(rl_pipeline* pipeline, const rl_options* options,
                                         rl_error** err);

/* The options of the pipeline, as rl_runtime_options returns those of a runtime, with the values
 * that rl_pipeline_set_options has changed, also those that hold from the next step on. Thread:
 * any. */
RL_API rl_status rl_pipeline_options(const rl_pipeline* pipeline, rl_options** out, rl_error** err);

/* State and accounting of the run. Thread: any. */
RL_API rl_status rl_pipeline_get_stats(const rl_pipeline* pipeline, rl_pipeline_stats* stats,
                                       rl_error** err);

/* The memory plan of the pipeline. Thread: any. */
RL_API rl_status rl_pipeline_plan(const rl_pipeline* pipeline, rl_plan** out, rl_error** err);

/* Whether the metrics file and the trace were written completely; this happens after the loop and
 * does not affect its success. RL_OK: they were, or there are none. Otherwise the first failure,
 * such as RL_IO, returned by every call; its message names the file. RL_FAILED_PRECONDITION before
 * the loop has ended: call it after RL_DONE. Thread: any. */
RL_API rl_status rl_pipeline_close_result(const rl_pipeline* pipeline, rl_error** err);

/* The path of the checkpoint that the run was resumed from; empty for a fresh run. Thread: any. */
RL_API rl_status rl_pipeline_resumed_from(const rl_pipeline* pipeline, rl_bytes** path,
                                          rl_error** err);

/* Writes a report of a pipeline as one HTML file that loads nothing and runs no script: curves of
 * its steps from metrics.jsonl, evaluations from metrics.eval_jsonl, responses from
 * metrics.samples, memory as planned and as held, settings, and where the time went. Those files
 * are read in their present state on disk; the page names what is missing and what it could not
 * read. profiler may be NULL: the times then come from profiler.timeline.enable, if set. Paths in
 * options are cut to their last component. A report of a running pipeline shows the steps so far,
 * and nothing waits for it. The file appears by one rename. Thread: any. */
RL_API rl_status rl_pipeline_write_report(const rl_pipeline* pipeline, const rl_profiler* profiler,
                                          const char* path, size_t path_len, rl_error** err);

/* ---- batch ---- */

/* A batch is a list of samples, from an engine, a buffer or a conversation, of a host's own making,
 * or from another process. The samples never change; their rewards do (rl_batch_score). */

/* Makes a batch of samples of the host, which are copied. Every array of every sample is checked,
 * and nothing is made if one is refused. The key of the error is "samples[i].field":
 * RL_OUT_OF_RANGE (num_prompt, temperature), RL_NON_FINITE (a reward or a log-prob),
 * RL_INVALID_ARGUMENT (values that no buffer file may hold: an id or a time below 0, a data_row
 * below -1, a reward of a sample that is not scored). Thread: any. */
RL_API rl_status rl_batch_create(const rl_sample_view* samples, size_t num_samples, rl_batch** out,
                                 rl_error** err);

/* Samples of a batch. */
typedef struct rl_batch_part {
  size_t struct_size;
  const rl_batch* batch;
  const size_t* indices; /* [num_indices] samples of batch, in any order, also repeated; NULL: all
                            of them in their order */
  size_t num_indices;
} rl_batch_part;

/* Initialises an rl_batch_part: zeroes the `size` bytes of *part and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_batch_part_init(rl_batch_part* part, size_t size);

/* Makes a batch of the samples of other batches, one part after the other: selects, repeats,
 * reorders and concatenates. Samples are shared; rewards are copied as they are now, and change in
 * each batch by itself from here on. RL_OUT_OF_RANGE names the index beyond the samples of its
 * batch. Thread: any. */
RL_API rl_status rl_batch_select(const rl_batch_part* parts, size_t num_parts, rl_batch** out,
                                 rl_error** err);

/* The samples of a batch with their present rewards as bytes, for another process: the content of a
 * buffer file (docs/buffer_format.md), with magic, version and checksums. Written to a file they
 * can be loaded by rl_buffer_load without a model. RL_INVALID_ARGUMENT and RL_RESOURCE_EXHAUSTED
 * as for rl_buffer_save. Thread: any. */
RL_API rl_status rl_batch_export(const rl_batch* batch, rl_bytes** out, rl_error** err);

/* Makes a batch of bytes that rl_batch_export or a buffer file has, in their order. Bytes may come
 * from anywhere: RL_DATA_LOSS says at which offset they are damaged, truncated or violate a rule of
 * the format, RL_INCOMPATIBLE names another version of it; RL_ERROR_LOCATION is "data offset N".
 * Thread: any. */
RL_API rl_status rl_batch_import(const void* data, size_t size, rl_batch** out, rl_error** err);

/* Number of samples in the batch; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_batch_count(const rl_batch* batch);

/* Sample `index` of the batch, counted from 0; RL_OUT_OF_RANGE beyond the last. Its texts are
 * empty: use rl_model_decode. Owner of all pointers: the batch. Thread: any. */
RL_API rl_status rl_batch_sample(const rl_batch* batch, size_t index, rl_sample_view* view,
                                 rl_error** err);

/* Sets the rewards of `count` samples of the batch, from sample `first` on, with their parts,
 * replacing earlier ones: all of them or, after a failure, none. sample_id of an entry is 0 or that
 * of its sample, and its failure is NULL, else RL_INVALID_ARGUMENT. RL_OUT_OF_RANGE when first +
 * count is beyond the last sample; RL_NON_FINITE names a value.
 * In earlier views of these samples reward_parts and token_rewards become invalid, and reward and
 * scored are those from before; every other array stays valid until the batch ends. A training step
 * in progress uses the rewards that it started with. Thread: any. */
RL_API rl_status rl_batch_score(rl_batch* batch, size_t first, const rl_score* scores, size_t count,
                                rl_error** err);

/* Ends the handle and all views of the batch. Thread: any; callback-safe. */
RL_API void rl_batch_release(rl_batch* batch);

/* ---- engine ---- */

/* An engine generates samples by continuous batching on the caller's thread, or with engine.thread
 * on one of its own: submit requests, step until idle, take what has finished. Logits are changed
 * by, in this order, sampling.allowed_token_ids, min_new_tokens, logit_bias, repetition_penalty,
 * frequency_penalty and presence_penalty. A token is sampled from softmax(logits / temperature)
 * truncated by top-k, then top-p, then min-p, with one Philox number per token; temperature 0 takes
 * the largest logit, on ties the lowest id. A sample ends with a stop token, which it keeps, a text
 * of sampling.stop, or sampling.max_new_tokens.
 *
 * Versions. Each token names the version of the weights that generated it. With
 * model.compute_copies 1 weights cannot be trained while requests are running. With 2 an engine
 * goes on with the published weights while another thread is inside rl_trainer_step, and
 * rl_trainer_publish may be called at any time: an engine step uses the weights that it started
 * with throughout, and unfinished samples continue under the new ones from their next token. */

typedef struct rl_request {
  size_t struct_size;
  const int32_t* prompt; /* [num_prompt] token ids of the vocabulary, copied; NULL with resume */
  size_t num_prompt;     /* at least 1; 0 with resume */
  uint64_t num_samples;  /* number of samples of this prompt, which share its KV; 1 .. 65536; 1 with
                            resume */
  const rl_options* sampling; /* a set whose sampling.* hold for this request, all of them, in
                                 place of the engine's; its other options are not read. NULL:
                                 those of the engine */
  int64_t priority; /* -2^20 .. 2^20 with engine.scheduling_policy = priority, else 0; higher runs
                       first. Each step of priority overtakes at most 4,096 earlier requests */
  const rl_sample_view* resume; /* NULL, or the sample to continue, copied; see rl_engine_submit */
  const char* tag; /* text of the host for every sample of the request, returned unread; empty with
                      resume */
  size_t tag_len;
  uint64_t ordinal; /* ordinal of the samples, which their random numbers are keyed by; UINT64_MAX:
                       the number of requests that the engine numbered before. UINT64_MAX with
                       resume */
  uint64_t sample_id; /* sample_id of the first sample, below 2^63; 0: the library chooses. 0 with
                         resume */
  uint32_t slot;      /* slot of the first sample, so that a group may come from several requests;
                         0 with resume */
  uint32_t reserved;
} rl_request;

/* Initialises an rl_request: zeroes the `size` bytes of *request and sets struct_size, num_samples
 * 1, tag_len RL_NUL_TERMINATED and ordinal UINT64_MAX. NULL or a size too small has no effect.
 * Thread: any; callback-safe. */
RL_API void rl_request_init(rl_request* request, size_t size);

/* State of an engine at the end of a period, and counts over that period. */
typedef struct rl_engine_stats {
  size_t struct_size;
  uint64_t running, waiting;              /* samples now */
  uint64_t blocks_in_use, blocks_total;   /* KV blocks now */
  uint64_t prefill_tokens, decode_tokens; /* rows computed */
  uint64_t forwards;                      /* forwards computed */
  uint64_t nonfinite;                     /* samples that ended because logits were not finite */
  int64_t prefill_ns, decode_ns;          /* time of forwards with prefill, and of pure decoding */
  uint64_t started; /* samples now that run, or ran before a preemption; a drain waits for these */
  uint64_t blocks_peak; /* most KV blocks in use at once; over replicas, the sum of their peaks */
  int64_t busy_ns;      /* time with work to do, up to the last forward */
  uint64_t generated_tokens;          /* tokens generated */
  uint64_t admitted;                  /* samples that started to run for the first time */
  uint64_t finished, aborted;         /* samples that ended; those of them that were aborted */
  int64_t queue_ns, longest_queue_ns; /* submission to first run: sum and maximum over `admitted` */
  uint64_t first_tokens;              /* samples that got their first token */
  int64_t first_token_ns, longest_first_token_ns; /* submission to first token: sum and maximum */
  uint64_t preemptions, swapped_blocks; /* preemptions of samples; KV blocks copied to swap space */
  uint64_t looked_up_tokens, cached_tokens; /* tokens of samples that started to run; those of them
                                               whose KV was found in the prefix cache */
  uint64_t mixed_kv_tokens; /* those of generated_tokens that were generated from keys and values of
                               older weights */
} rl_engine_stats;

/* Initialises an rl_engine_stats: zeroes the `size` bytes of *stats and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_engine_stats_init(rl_engine_stats* stats, size_t size);

/* Creates an engine and reserves its KV pool and workspace. The model must have been opened with
 * RL_USE_GENERATE, with RL_USE_PARTS if the host also creates a trainer, or with RL_USE_PIPELINE,
 * else RL_FAILED_PRECONDITION. options may be NULL: then those of the model hold. An option that
 * only a pipeline reads, as docs/options.md says, or that differs from that of runtime or model, is
 * RL_CONFLICT. Thread: any. */
RL_API rl_status rl_engine_create(rl_model* model, const rl_options* options, rl_engine** out,
                                  rl_error** err);

/* Ends the engine with all its requests; rl_engine_run on another thread returns. Thread: any. */
RL_API void rl_engine_destroy(rl_engine* engine);

/* Queues a request; *first_sample_id is the sample_id of its first sample, and each further one has
 * one more. Random numbers are keyed by (runtime.seed, ordinal, slot, position), or by
 * (sampling.seed, slot, position) when that is set, so scheduling changes no sample.
 * RL_OUT_OF_RANGE names an id outside the vocabulary (key "request.prompt") and a prompt that
 * leaves no room for sampling.max_new_tokens within engine.max_model_len (key
 * "sampling.max_new_tokens"); RL_CONFLICT a priority without engine.scheduling_policy = priority. A
 * refused request leaves the engine as it was. RL_BUSY with model.compute_copies 1 while the model
 * is being trained or a pipeline runs on it; RL_FAILED_PRECONDITION while it is half-trained
 * (rl_trainer_step).
 *
 * Identity. The library chooses a sample_id that is new among the engines of the runtime, above
 * those with the same high 16 bits that a host has given. A host that gives ordinals gives all of
 * them: engines of several processes then generate what one engine would, each a part of the
 * groups. RL_OUT_OF_RANGE names a slot beyond 65535 or a sample_id of 2^63 or more,
 * RL_FAILED_PRECONDITION a sample_id that an unfinished sample of the engine has.
 * RL_RESOURCE_EXHAUSTED: a host has given the last sample_id of runtime.instance, so that the
 * library has none to choose.
 *
 * A request with resume continues a sample that was aborted, or one that ended and had tokens of an
 * environment appended (loss_mask 0, log-probs 0); it may have no generated token yet. Its ids,
 * log-probs and versions are kept as given, as are its sample_id, ordinal and slot; a reward is
 * not. sampling.max_new_tokens counts from here on, and sampling.temperature must be that of the
 * sample. With the sampling of its first request an aborted sample ends as it would have ended
 * without the abort, provided the weights are the same. RL_FAILED_PRECONDITION while a sample with
 * its id is unfinished in the engine; defects of the sample are reported as by rl_buffer_put.
 *
 * The key of an error is "request.field", "request.resume.field", or the option "sampling.name".
 * Thread: any. */
RL_API rl_status rl_engine_submit(rl_engine* engine, const rl_request* request,
                                  uint64_t* first_sample_id, rl_error** err);

/* Computes one forward of the engine. RL_OK when it did, RL_IDLE when there is nothing to do,
 * RL_PAUSED while the engine is paused. RL_FAILED_PRECONDITION with engine.thread, while the engine
 * sleeps or its model is half-trained (rl_trainer_step); RL_BUSY while something else computes.
 * Thread: any. */
RL_API rl_status rl_engine_step(rl_engine* engine, rl_error** err);

/* Steps the engine until nothing is left to do, or with engine.thread waits until its thread has.
 * RL_OK then, also if there was nothing; RL_PAUSED when it is paused before that. Failures are
 * those of rl_engine_step, except for engine.thread. Thread: any. */
RL_API rl_status rl_engine_run(rl_engine* engine, rl_error** err);

/* Pauses the engine: once a step in progress has ended nothing is computed until rl_engine_unpause;
 * every other call works. No effect when it is already paused. Thread: any. */
RL_API rl_status rl_engine_pause(rl_engine* engine, rl_error** err);

/* Ends a pause and a drain of the engine, if any. RL_BUSY, without effect, while the weights that
 * waiting requests need are being trained. Thread: any. */
RL_API rl_status rl_engine_unpause(rl_engine* engine, rl_error** err);

/* Drains the engine: from now on no sample starts; steps on this thread until those that have
 * started are finished. RL_OK when they are, RL_TIMEOUT when they did not finish in time (started
 * of rl_engine_stats counts them), RL_PAUSED when the engine is paused; the drain stays in force
 * until rl_engine_unpause. A step that has begun is finished, and so are the turns before it of
 * objects that compute in turn, also if that takes longer than the timeout. Samples that have not
 * started do not count as running: weights can be trained. Failures are those of rl_engine_run.
 * Thread: any. */
RL_API rl_status rl_engine_drain(rl_engine* engine, int64_t timeout_ns, rl_error** err);

/* Sends the engine's events to a queue from now on: RL_EVENT_FINISHED, RL_EVENT_TOKENS and
 * RL_EVENT_ENGINE_FAILED. source is the number of the engine in them. queue may be NULL: then there
 * are none, as before the first call. Samples that are unfinished now send no RL_EVENT_TOKENS.
 * Finished samples stay in the engine until rl_engine_take, with a queue as well: a host that only
 * reads events keeps all of them in memory. Thread: any. */
RL_API rl_status rl_engine_set_queue(rl_engine* engine, rl_event_queue* queue, uint64_t source,
                                     rl_error** err);

/* The options of the engine, as rl_runtime_options returns those of a runtime. Thread: any. */
RL_API rl_status rl_engine_options(const rl_engine* engine, rl_options** out, rl_error** err);

/* Takes the samples that finished since the last call, in order of completion; if the call fails
 * they are still there. RL_WOULD_BLOCK when none has finished but some requests are unfinished,
 * RL_IDLE when none has finished and no request is unfinished. Thread: any. */
RL_API rl_status rl_engine_take(rl_engine* engine, rl_batch** out, rl_error** err);

/* Flag of rl_engine_abort: requests with a sample that has been aborted
 * pipeline.partial_rollout_max_aborts times are spared. */
#define RL_ABORT_SPARE UINT64_C(1)

/* Aborts all requests; rl_engine_take returns their samples as RL_FINISH_ABORTED, with the ids,
 * log-probs and versions they have so far. Flags: RL_ABORT_SPARE; then *num_spared samples
 * continue. num_spared may be NULL. Thread: any. */
RL_API rl_status rl_engine_abort(rl_engine* engine, uint64_t flags, uint64_t* num_spared,
                                 rl_error** err);

/* Aborts the one request that sample_id belongs to, as rl_engine_abort does: every unfinished
 * sample of it ends. RL_NOT_FOUND when no unfinished sample of the engine has this id. Thread:
 * any. */
RL_API rl_status rl_engine_abort_request(rl_engine* engine, uint64_t sample_id, rl_error** err);

/* Releases memory to the system until rl_engine_wake; addresses and plan stay. Level 1 releases the
 * engine's KV pool and workspace, level 2 also the packed weights of the model. Those are rebuilt
 * from its master weights by the wake, or as soon as another engine, a trainer or a pipeline
 * computes with the model. Unfinished samples wait and count as running requests of the model;
 * their KV is recomputed after the wake, which changes no sample. Requests are queued, but calls
 * that would compute are RL_FAILED_PRECONDITION. A level not above the present one has no effect.
 * RL_OUT_OF_RANGE for other levels, RL_BUSY while something computes; at level 2 also while other
 * engines have requests on the model or a pipeline runs on it, and RL_UNSUPPORTED where ranks have
 * parts of the master weights (parallel.zero_stage 3). Thread: any. */
RL_API rl_status rl_engine_sleep(rl_engine* engine, int32_t level, rl_error** err);

/* Wakes the engine: reserves its memory again, weights first. No effect when it is awake. RL_BUSY
 * while something computes; RL_OUT_OF_MEMORY, with knobs, if a GPU has not the memory: the engine
 * stays asleep, and another call tries again. Thread: any. */
RL_API rl_status rl_engine_wake(rl_engine* engine, rl_error** err);

/* The periods of rl_engine_get_stats. */
enum {
  RL_PERIOD_TOTAL = 1,   /* from the creation of the engine to now */
  RL_PERIOD_INTERVAL = 2 /* the last interval of engine.stats_interval_ns, a stretch of busy time
                            that ends with the first forward after which it is long enough; busy_ns
                            is its length */
};

/* The state of an engine at the end of a period, RL_PERIOD_TOTAL ..., and its counts over that
 * period. replica counts the engine.num_engines replicas from 0; -1 is all of them together, with
 * the longest times of the slowest, and an interval has none. RL_OUT_OF_RANGE names another
 * replica. Before the first interval has ended the call is RL_WOULD_BLOCK, and without
 * engine.stats_interval_ns RL_FAILED_PRECONDITION. Thread: any. */
RL_API rl_status rl_engine_get_stats(const rl_engine* engine, int64_t replica, int32_t period,
                                     rl_engine_stats* stats, rl_error** err);

/* ---- conversation ---- */

/* A conversation is a sample whose tokens come alternately from the model and from an environment:
 *
 *   rl_conversation_create(engine, &prompt, &c, &err);
 *   for (;;) {
 *     rl_conversation_generate(c, NULL, &err);              the model's turn is a request
 *     rl_engine_run(engine, &err);
 *     rl_conversation_sample(c, &batch, &err);              ... look at what it wrote
 *     rl_conversation_append(c, &answer, &err);             what the environment answers
 *   }
 *
 * Ids are stored exactly as generated and given; nothing is tokenised again. Tokens of the
 * environment have loss_mask 0, log-probs 0 and the version 2^64 - 1, so only what the model
 * generated is trained on. A turn can be aborted and interrupted by its sample_id, but is not
 * returned by rl_engine_take. While it is being generated, calls that need the tokens are
 * RL_FAILED_PRECONDITION. Between turns keys and values stay cached until other requests need their
 * blocks, least recently used blocks going first; a turn reuses what is left of them and recomputes
 * the rest. */

typedef struct rl_conversation_info {
  size_t struct_size;
  uint64_t sample_id;  /* id of the sample, the same in all turns */
  uint64_t ordinal;    /* ordinal of its group: the conversations forked from one another */
  uint32_t slot;       /* number of the conversation within its group, from 0 */
  uint32_t generating; /* 1: a turn is being generated, and the fields below are as before it */
  uint64_t num_ids;    /* tokens so far, the prompt included */
  uint64_t num_turns;  /* turns of the model that ended */
  int32_t finish;      /* why the last of these turns ended, RL_FINISH_STOP_TOKEN ... */
  int32_t reserved;
} rl_conversation_info;

/* Initialises an rl_conversation_info: zeroes the `size` bytes of *info and sets struct_size. NULL
 * or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_conversation_info_init(rl_conversation_info* info, size_t size);

/* What a host adds to a conversation: a prompt, or what the environment answers. */
typedef struct rl_content {
  size_t struct_size;
  const int32_t* ids; /* [num_ids] token ids, copied */
  size_t num_ids;     /* at least 1 */
  const char* tag;    /* of a prompt: as in rl_request, for the conversation and its forks */
  size_t tag_len;
  uint64_t ordinal;   /* of a prompt: as in rl_request; else UINT64_MAX */
  uint64_t sample_id; /* of a prompt: as in rl_request; else 0 */
} rl_content;

/* Initialises an rl_content: zeroes the `size` bytes of *content and sets struct_size, tag_len
 * RL_NUL_TERMINATED and ordinal UINT64_MAX. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_content_init(rl_content* content, size_t size);

/* How the model generates a turn. */
typedef struct rl_turn {
  size_t struct_size;
  const rl_options* sampling; /* as in rl_request */
  int64_t priority;           /* as in rl_request */
} rl_turn;

/* Initialises an rl_turn: zeroes the `size` bytes of *turn and sets struct_size. NULL or a size too
 * small has no effect. Thread: any; callback-safe. */
RL_API void rl_turn_init(rl_turn* turn, size_t size);

/* Starts a conversation with a prompt. It takes the number of a request and a sample_id, unless the
 * prompt gives them. RL_OUT_OF_RANGE names an id outside the vocabulary, or engine.max_model_len;
 * identities are refused as by rl_engine_submit. Thread: any. */
RL_API rl_status rl_conversation_create(rl_engine* engine, const rl_content* prompt,
                                        rl_conversation** out, rl_error** err);

/* Creates another conversation with the tokens so far, in the next slot of the group; from here on
 * it generates its own turns. A group for training is one conversation and its forks.
 * RL_FAILED_PRECONDITION during a turn of the model. Thread: any. */
RL_API rl_status rl_conversation_fork(const rl_conversation* conversation, rl_conversation** out,
                                      rl_error** err);

/* Ends the handle; an unfinished turn is aborted, and its sample is returned to nobody. Thread:
 * any. */
RL_API void rl_conversation_destroy(rl_conversation* conversation);

/* Appends what the environment answers. RL_OUT_OF_RANGE as for the prompt in
 * rl_conversation_create; RL_INVALID_ARGUMENT for a tag, an ordinal or a sample_id, which the
 * conversation has already. Thread: any. */
RL_API rl_status rl_conversation_append(rl_conversation* conversation, const rl_content* content,
                                        rl_error** err);

/* Queues a turn of the model, as rl_engine_submit does with resume: at most sampling.max_new_tokens
 * more tokens, for which there must be room within engine.max_model_len, else it is
 * RL_OUT_OF_RANGE. turn may be NULL: the defaults. All turns must have the same
 * sampling.temperature and sampling.logprobs. RL_FAILED_PRECONDITION during a turn of the model.
 * Other codes are those of rl_engine_submit. Thread: any. */
RL_API rl_status rl_conversation_generate(rl_conversation* conversation, const rl_turn* turn,
                                          rl_error** err);

/* The present state of the conversation. Thread: any. */
RL_API rl_status rl_conversation_get_info(const rl_conversation* conversation,
                                          rl_conversation_info* info, rl_error** err);

/* A copy of the conversation's sample so far, as a batch of one, which can be scored and trained
 * on. RL_FAILED_PRECONDITION during a turn of the model. Thread: any. */
RL_API rl_status rl_conversation_sample(const rl_conversation* conversation, rl_batch** out,
                                        rl_error** err);

/* ---- buffer ---- */

/* A buffer holds scored samples on their way to a trainer, from an engine of this process or from
 * elsewhere. Samples are grouped by ordinal; a group is complete when it has
 * pipeline.samples_per_prompt samples, slots 0 .. n - 1. The version of a group is the oldest
 * version of its trained tokens; a group with no known version has none, and is never stale. With
 * buffer.store_path complete groups wait in a directory that processes share, see
 * rl_buffer_create_stored. With buffer.spill_path they wait in files of this buffer, and a buffer
 * that is created there later has them: RL_INCOMPATIBLE when they have another size,
 * RL_RESOURCE_EXHAUSTED when not all fit, RL_DATA_LOSS for a file that is damaged, which was
 * renamed to NAME.damaged. Such a file is found when it is read, by rl_buffer_take or
 * rl_buffer_save too, and the samples of its group are counted as dropped. */

/* Creates a buffer for at most max_samples samples, which are at least one group, else
 * RL_OUT_OF_RANGE. Reads pipeline.samples_per_prompt, the size of a group, buffer.* and
 * algo.objective. options may be NULL: then all have their defaults. Thread: any. */
RL_API rl_status rl_buffer_create(const rl_options* options, uint64_t max_samples, rl_buffer** out,
                                  rl_error** err);

/* Ends the buffer with its samples; rl_buffer_take on another thread returns RL_DONE. Thread:
 * any. */
RL_API void rl_buffer_destroy(rl_buffer* buffer);

/* Copies a sample into the buffer. RL_FAILED_PRECONDITION (no reward; with algo.objective sft, dpo
 * and reward_model none is needed), RL_NON_FINITE (reward or log-prob), RL_DUPLICATE (the buffer
 * has this ordinal and slot), RL_OUT_OF_RANGE (slot, num_prompt, temperature), RL_INVALID_ARGUMENT
 * (values that no buffer file may hold: an id or a time below 0, a data_row below -1),
 * RL_RESOURCE_EXHAUSTED (full). Thread: any. */
RL_API rl_status rl_buffer_put(rl_buffer* buffer, const rl_sample_view* sample, rl_error** err);

/* Copies every sample of a batch into the buffer, or none if it fails: RL_ERROR_KEY is "batch[i]"
 * for the first one that is refused, with the codes of rl_buffer_put, such as RL_DUPLICATE, or
 * RL_RESOURCE_EXHAUSTED when not all fit. The batch stays the caller's. Thread: any. */
RL_API rl_status rl_buffer_put_batch(rl_buffer* buffer, const rl_batch* batch, rl_error** err);

/* Which complete groups to take. */
typedef struct rl_take {
  size_t struct_size;
  uint64_t min_groups; /* wait for so many; at least 1, and no more than the buffer has room for */
  uint64_t max_groups; /* at least min_groups */
  uint64_t version; /* version of the weights that are to be trained, for buffer.max_staleness; 0:
                       no group is stale */
  uint64_t step;    /* with a store: number of the training step, from 1, that the groups are for,
                       above the acknowledged one; not read without */
} rl_take;

/* Initialises an rl_take: zeroes the `size` bytes of *take and sets struct_size, min_groups 1 and
 * max_groups UINT64_MAX. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_take_init(rl_take* take, size_t size);

/* Removes complete groups from the buffer and returns their samples ordered by (ordinal, slot); if
 * the call fails they are still there. take may be NULL: the defaults. Which groups go first is
 * said by buffer.policy. Complete groups whose version is more than buffer.max_staleness below
 * take.version are removed instead, and counted as stale. Waits until min_groups are there:
 * RL_TIMEOUT when they did not come in time, RL_DONE when the buffer was destroyed meanwhile.
 * RL_OUT_OF_RANGE names min_groups, max_groups or step. With a store: RL_FAILED_PRECONDITION until
 * rl_buffer_resume has said which steps of an earlier process are kept, and when another process
 * takes; RL_IO when the store fails; RL_DATA_LOSS names a group that is damaged, and the offset: it
 * was set aside, and the next call goes on without it. Thread: any. */
RL_API rl_status rl_buffer_take(rl_buffer* buffer, const rl_take* take, int64_t timeout_ns,
                                rl_batch** out, rl_error** err);

/* Says that the weights of a training step are durable: the groups that were taken for it and for
 * earlier steps are trained, and leave the store. A step that was acknowledged cannot be undone.
 * RL_UNSUPPORTED without a store; RL_FAILED_PRECONDITION and RL_IO as for rl_buffer_take. After
 * RL_IO the next call that takes or acknowledges goes on. Thread: any. */
RL_API rl_status rl_buffer_acknowledge(rl_buffer* buffer, uint64_t step, rl_error** err);

/* Says that training goes on after a step, that of a checkpoint or 0: groups that were taken for it
 * and for earlier steps are trained, as rl_buffer_acknowledge says, and those taken for later steps
 * come again, whichever process took them. RL_FAILED_PRECONDITION if a later step was acknowledged;
 * RL_UNSUPPORTED without a store; RL_IO as for rl_buffer_take. Thread: any. */
RL_API rl_status rl_buffer_resume(rl_buffer* buffer, uint64_t step, rl_error** err);

/* Which groups to drop, complete or not: those that every field admits. */
typedef struct rl_drop {
  size_t struct_size;
  const uint64_t* ordinals; /* [num_ordinals], in any order, also of no group; NULL: all groups */
  size_t num_ordinals;
  uint64_t below_version;   /* groups of an older version; 0: of every version, or of none */
  uint32_t incomplete_only; /* 1: only groups that are not complete */
  uint32_t reserved;
} rl_drop;

/* Initialises an rl_drop: zeroes the `size` bytes of *drop and sets struct_size. NULL or a size too
 * small has no effect. Thread: any; callback-safe. */
RL_API void rl_drop_init(rl_drop* drop, size_t size);

/* Removes groups from the buffer, and sets *num_samples, which may be NULL, to the number of their
 * samples. drop may be NULL: all groups. Groups that wait in a store stay there; those that were
 * claimed leave it. Thread: any. */
RL_API rl_status rl_buffer_drop(rl_buffer* buffer, const rl_drop* drop, uint64_t* num_samples,
                                rl_error** err);

/* Sends the buffer's events to a queue from now on, so that nobody has to wait in rl_buffer_take:
 * RL_EVENT_GROUPS when groups become complete, at once if some are, and RL_EVENT_GROUP_DROPPED for
 * each group that is removed and not taken. Take with a timeout of 0 after an RL_EVENT_GROUPS: with
 * another reader there may be fewer groups than it says, and those that buffer.max_staleness does
 * not allow are removed only then. The next group that becomes complete after the event was taken
 * from the queue sends another one. source is the number of the buffer in its events. queue may be
 * NULL: then there are none, as before the first call. Thread: any. */
RL_API rl_status rl_buffer_set_queue(rl_buffer* buffer, rl_event_queue* queue, uint64_t source,
                                     rl_error** err);

/* The options of the buffer, as rl_runtime_options returns those of a runtime. Thread: any. */
RL_API rl_status rl_buffer_options(const rl_buffer* buffer, rl_options** out, rl_error** err);

/* What a buffer holds, and counts of samples since it was created: put = taken + dropped + stale +
 * stored + samples. */
typedef struct rl_buffer_stats {
  size_t struct_size;
  uint64_t samples, groups, whole_groups; /* now; groups includes incomplete ones */
  uint64_t put;                           /* samples put, loaded or claimed from a store */
  uint64_t taken;                         /* by rl_buffer_take */
  uint64_t dropped;                       /* by rl_buffer_drop */
  uint64_t stale;               /* removed by rl_buffer_take because of buffer.max_staleness */
  uint64_t stored;              /* given to a store */
  uint64_t acknowledged_groups; /* trained by steps that are durable; this and the next two are
                                   groups of a store */
  uint64_t duplicate_groups;    /* delivered again, and dropped */
  uint64_t damaged_groups;      /* set aside because they could not be read */
  uint64_t spilled_groups;      /* now, those that wait in files of buffer.spill_path */
} rl_buffer_stats;

/* Initialises an rl_buffer_stats: zeroes the `size` bytes of *stats and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_buffer_stats_init(rl_buffer_stats* stats, size_t size);

/* What the buffer holds, and its counts. Thread: any. */
RL_API rl_status rl_buffer_get_stats(const rl_buffer* buffer, rl_buffer_stats* stats,
                                     rl_error** err);

/* Writes every sample of the buffer, including those of incomplete groups, to a buffer file
 * (docs/buffer_format.md), group by group; the buffer keeps them, and other calls on it wait. The
 * file is written as PATH.tmp and appears by one rename, complete and synced; only one save to a
 * path may run at a time. model, which may be NULL, is the one that training on the samples starts
 * from: the file names its digest. An existing file of that name is RL_ALREADY_EXISTS unless flags
 * have RL_SAVE_REPLACE. The zstd level is buffer.compression_level of the buffer's options. RL_BUSY
 * while the model is being trained; RL_INVALID_ARGUMENT names a sample with an id beyond the
 * model's vocabulary; RL_RESOURCE_EXHAUSTED names a group of more than 1 GiB; RL_NOT_FOUND and
 * RL_IO name a path that cannot be written. Thread: any. */
RL_API rl_status rl_buffer_save(const rl_buffer* buffer, const char* path, size_t path_len,
                                const rl_model* model, uint64_t flags, rl_error** err);

/* Adds every sample of a buffer file to the buffer, and sets *num_samples to their number; after a
 * failure the buffer is unchanged. RL_NOT_FOUND without such a file; RL_DATA_LOSS names file and
 * offset of what is damaged, truncated or violates a rule of the format. model may be NULL; with
 * one the file must say that training starts from its weights: otherwise RL_INCOMPATIBLE names both
 * digests, or the compute dtypes. Also RL_INCOMPATIBLE when groups have another size than
 * pipeline.samples_per_prompt, RL_DUPLICATE when the buffer has an ordinal and slot of the file,
 * RL_RESOURCE_EXHAUSTED when not all fit, RL_BUSY while the model is being trained,
 * RL_FAILED_PRECONDITION and RL_INVALID_ARGUMENT for samples that are not scored or belong to an
 * evaluation.
 *
 * A run with buffer.record_dir writes the batch of step n to step_00000n.rlbuf there. Start from
 * the run's initial model with its options, but with trainer.max_tokens_per_device as returned by
 * rl_buffer_get_file_info; then the following calls for all steps from 1 on, in order, end with the
 * weights of the run bit for bit (docs/buffer_format.md, Replay):
 *
 *   rl_buffer_load(buffer, path, RL_NUL_TERMINATED, model, &count, &err);
 *   if (rl_buffer_take(buffer, NULL, 0, &batch, &err) == RL_OK)     else all were dropped
 *     rl_trainer_step(trainer, &step, &event, &err);
 *
 * Thread: any. */
RL_API rl_status rl_buffer_load(rl_buffer* buffer, const char* path, size_t path_len,
                                const rl_model* model, uint64_t* num_samples, rl_error** err);

/* Description of a buffer file, from its beginning. A field is 0 if the writer did not know it. */
typedef struct rl_buffer_file_info {
  size_t struct_size;
  uint64_t step; /* number of the training step, from 1, whose batch the file holds; 0: none */
  uint64_t group_size;            /* samples of a complete group */
  uint64_t max_tokens_per_device; /* token budget of a micro-batch in its run, planned or given; a
                                     replay's trainer must use it */
  uint64_t options_identity;      /* rl_options_identity of its run */
  uint64_t weight_version;        /* version of the weights that training on it starts from */
  uint64_t weight_digest;         /* rl_model_digest of these weights */
  uint64_t vocab;                 /* vocabulary of the model; all ids are below it */
  uint32_t has_model;             /* 1: weight_version, weight_digest and vocab are valid */
  uint32_t reserved;
} rl_buffer_file_info;

/* Initialises an rl_buffer_file_info: zeroes the `size` bytes of *info and sets struct_size. NULL
 * or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_buffer_file_info_init(rl_buffer_file_info* info, size_t size);

/* Reads the description at the beginning of a buffer file. RL_NOT_FOUND without such a file,
 * RL_DATA_LOSS when that part is damaged or the file is not a buffer file. Thread: any. */
RL_API rl_status rl_buffer_get_file_info(const char* path, size_t path_len,
                                         rl_buffer_file_info* info, rl_error** err);

/* ---- trainer ---- */

/* A trainer applies optimizer steps to the model's fp32 weights. The trained weights are one
 * version higher; samples generated afterwards name it.
 *
 * By default the loss of a minibatch is its mean over trained tokens (algo.loss_agg) of
 *
 *   max(-A r, -A min(max(r, 1 - algo.clip_low), 1 + algo.clip_high))   algo.policy_loss = ppo_clip
 *   + algo.kl.coef (exp(d) - d - 1)                                    with algo.kl.where = loss
 *   - algo.entropy_coef H
 *
 * with r = exp(log-prob - stored log-prob), d = reference log-prob - log-prob, H the entropy of the
 * token's distribution in nats (arXiv 1707.06347; k3 estimator). A is the advantage of the sample,
 * (reward - mean) / (std + algo.adv_eps) over its group, std with n - 1; the division is made only
 * with algo.adv_norm_std (arXiv 2402.03300). docs/algorithms.md describes other estimators, losses,
 * corrections and filters. With algo.advantage = remax the sample of slot
 * pipeline.samples_per_prompt is the greedy response of its group and is not trained on. Samples
 * without log-probs are forwarded before the step, so that r is 1 in its first optimizer step
 * (training/samples_without_logprobs).
 *
 * With algo.objective = sft the loss is -log-prob of the trained tokens. With dpo it is a loss on
 * pairs, the samples of slot 0 (chosen) and slot 1 (rejected) of an ordinal. With reward_model it
 * is -log sigmoid(chosen - rejected) of their scores, the values at their last tokens (arXiv
 * 2203.02155); the model must have been opened with this objective and has a scalar head in place
 * of logits. Rewards, advantages and stored log-probs are not read then; a sample without the other
 * half of its pair is RL_FAILED_PRECONDITION, and given advantages are RL_CONFLICT. Pairs have the
 * metrics "rewards/chosen", "rewards/rejected", "rewards/margins" and "rewards/accuracies", dpo
 * also "logps/chosen", "logps/rejected" and "nll_loss".
 *
 * With algo.objective = distill the policy also learns from a teacher, a frozen model of the same
 * vocabulary (model.teacher_path) that is forwarded over the samples at their temperatures. Let p
 * be the policy's distribution of a token and q the teacher's: algo.distill.kl = sampled subtracts
 * algo.distill.coef (log p - log q) of the sampled id from A; forward, reverse and mixed add
 * algo.distill.coef times KL(q, p), KL(p, q) or a mean of divergences from their mixture to the
 * loss. "actor/distill_kl" (nats) is the mean over trained tokens. With algo.distill.rewards =
 * false A is 0 before that, and given advantages are RL_CONFLICT.
 *
 * Gradients are clipped to the global norm optimizer.grad_clip and go to AdamW with decoupled
 * weight decay (arXiv 1711.05101). An optimizer step whose loss or norm is not finite leaves the
 * weights unchanged and is counted in training/skipped_steps. */

/* Creates a trainer and reserves gradients, optimizer states and workspace. The model must have
 * been opened with RL_USE_TRAIN, with RL_USE_PARTS if the host also creates an engine, or with
 * RL_USE_PIPELINE, else RL_FAILED_PRECONDITION. options may be NULL: then those of the model hold.
 * An option that only a pipeline reads, as docs/options.md says, or that differs from that of
 * runtime or model, is RL_CONFLICT. RL_BUSY while something computes. Thread: any. */
RL_API rl_status rl_trainer_create(rl_model* model, const rl_options* options, rl_trainer** out,
                                   rl_error** err);

/* Ends the trainer. Thread: any. */
RL_API void rl_trainer_destroy(rl_trainer* trainer);

/* What a training step trains on. */
typedef struct rl_step {
  size_t struct_size;
  const rl_batch* batch;    /* the samples */
  const double* advantages; /* [num_advantages], one for each sample in the batch's order; NULL:
                               they are computed from the rewards as algo.advantage says, samples of
                               one ordinal being a group */
  size_t num_advantages;
  uint64_t total_tokens; /* for rl_trainer_backward: tokens that carry loss in the whole batch that
                            these samples are a part of, the denominator of means over tokens; 0:
                            these samples are all of it */
  uint64_t total_sequences; /* samples with such tokens, likewise */
} rl_step;

/* Initialises an rl_step: zeroes the `size` bytes of *step and sets struct_size. NULL or a size too
 * small has no effect. Thread: any; callback-safe. */
RL_API void rl_step_init(rl_step* step, size_t size);

/* One training step: trainer.epochs passes of trainer.num_minibatches optimizer steps over the
 * batch. *out is an event of RL_EVENT_STEP with the step's metrics. The samples are trained on in
 * the order of (ordinal, slot), whatever their order in the batch, which is only read: the caller
 * may release it afterwards, or train on it again. total_tokens and total_sequences of the step are
 * 0.
 *
 * A step of which no token carries loss, or whose optimizer steps are all skipped, counts as a step
 * and makes no version: rl_event_view.version of its event is that of the step before. With
 * model.compute_copies 1 the step publishes, and is RL_BUSY while requests of the model run; with 2
 * rl_trainer_publish does, and engine steps of other threads come between its micro-batches, which
 * changes no result. RL_BUSY also while something else computes; RL_CANCELLED by rl_trainer_cancel.
 *
 * Errors about a sample have the key "step.batch[i].field" and a text that names the place and the
 * sample_id: RL_FAILED_PRECONDITION (no reward), RL_OUT_OF_RANGE (an id outside the vocabulary),
 * RL_NON_FINITE (an advantage or a log-prob). RL_OUT_OF_RANGE for a sequence that is too long has
 * the option that limits it as its key. A batch without samples is RL_INVALID_ARGUMENT.
 *
 * Given advantages are RL_FAILED_PRECONDITION with algo.advantage = gae, whose critic learns from
 * rewards. They are RL_CONFLICT if an option was set that only affects how advantages are computed
 * from rewards (algo.advantage, algo.adv_*, algo.gamma, algo.gdpo_weights, algo.reward.*,
 * algo.whiten, algo.kl.where = reward).
 *
 * The log-probs of samples that were generated by the present version of the weights must equal
 * those that the trainer computes, bit for bit: the first difference is RL_FAILED_PRECONDITION
 * naming the sample, before any weight changes. If another engine generated samples with these
 * weights, set trainer.check_logprobs to false.
 *
 * A step that fails before its first optimizer step leaves the weights unchanged. One that fails
 * after its last one, while its metrics are computed, has trained and, with one compute copy,
 * published: rl_model_version is one higher, and the batch must not be repeated. One that fails in
 * between leaves the model half-trained: the weights have changed, and no version names them. Then
 * whatever computes with them is RL_FAILED_PRECONDITION, whose text says after how many optimizer
 * steps the step failed: engines of the model with model.compute_copies 1, all of its trainers,
 * rl_pipeline_start and rl_model_set_weights. rl_model_save and rl_model_digest work.
 * rl_trainer_publish, with any trainer of the model, makes these weights the next version;
 * rl_trainer_load and a pipeline that resumes from a checkpoint replace all of them. The same holds
 * after a pipeline failed within a step. Thread: any. */
RL_API rl_status rl_trainer_step(rl_trainer* trainer, const rl_step* step, rl_event** out,
                                 rl_error** err);

/* Computes the gradients of one optimizer step, and leaves the weights as they are: the first half
 * of a step whose second half is rl_trainer_apply. In between the host may change the gradients
 * (rl_trainer_gradient), for example add those of other processes, and forwards may run; a step,
 * another backward, rl_trainer_set_options and rl_trainer_load discard them.
 *
 * Processes that share a batch each pass their samples with the counts of the whole batch in
 * total_tokens and total_sequences; the sum of their gradients is then that of the whole batch. A
 * group must not be split unless advantages are given. A process without samples passes an empty
 * batch. If the loss of a part is not finite, one of its gradients is NaN, so that every process
 * that adds it skips the step. The metrics "actor/loss" and others of the loss are those of the
 * part, and add up.
 *
 * The samples are one minibatch of one epoch: RL_CONFLICT names trainer.epochs or another option
 * that asks for more. RL_OUT_OF_RANGE when this part has more tokens or samples than the whole
 * batch. RL_UNSUPPORTED names what cannot be computed from a part: a critic (algo.advantage = gae,
 * with or without counts), algo.advantage = gpg or flash_reinforce, algo.adv_std_scope = batch,
 * algo.whiten, algo.reward.normalize, algo.kl.controller = adaptive, losses of pairs,
 * algo.correction.batch_normalize and an algo.policy_loss that selects tokens of the batch.
 * RL_INVALID_ARGUMENT when one count is given, but not the one that algo.loss_agg divides by.
 * RL_BUSY while the weights are being trained. Other errors, such as RL_FAILED_PRECONDITION,
 * RL_NON_FINITE and RL_CANCELLED, are those of rl_trainer_step. Thread: any. */
RL_API rl_status rl_trainer_backward(rl_trainer* trainer, const rl_step* step, rl_error** err);

/* The second half of a step: clips the gradients as they are now by their global norm, makes the
 * optimizer step with the present learning rate, and publishes as rl_trainer_step does. *out is an
 * event of RL_EVENT_STEP with the metrics of both halves. An optimizer step whose gradients are not
 * finite leaves the weights unchanged and is counted in training/skipped_steps. Without a token
 * that carries loss, and without counts of a larger batch, there is no optimizer step.
 * RL_FAILED_PRECONDITION without gradients, and when the weights have changed since they were
 * computed. RL_BUSY as for rl_trainer_step; the gradients stay. Thread: any. */
RL_API rl_status rl_trainer_apply(rl_trainer* trainer, rl_event** out, rl_error** err);

/* Ends the step or backward that another thread runs now, with its micro-batch or while it waits to
 * compute: that call is RL_CANCELLED. Without an optimizer step so far nothing has changed; between
 * two of them it leaves the model half-trained (rl_trainer_step); after the last one the step is
 * finished. No effect while the trainer runs neither. Thread: any. */
RL_API rl_status rl_trainer_cancel(rl_trainer* trainer, rl_error** err);

/* Sends the trainer's events to a queue from now on, for whoever does not call it: RL_EVENT_STEP,
 * with its metrics, for each step and each rl_trainer_apply; RL_EVENT_PUBLISHED for weights that a
 * step, an apply, rl_trainer_publish or rl_trainer_load has published, after the event of the step;
 * RL_EVENT_CHECKPOINT for each rl_trainer_save. They come before the call returns; failures are
 * told to its caller alone. source is the number of the trainer in its events. queue may be NULL:
 * then there are none, as before the first call. It does not wait for a step. Thread: any. */
RL_API rl_status rl_trainer_set_queue(rl_trainer* trainer, rl_event_queue* queue, uint64_t source,
                                      rl_error** err);

/* The options of the trainer, as rl_runtime_options returns those of a runtime, with the values
 * that rl_trainer_set_options has changed. It does not wait for a step. Thread: any. */
RL_API rl_status rl_trainer_options(const rl_trainer* trainer, rl_options** out, rl_error** err);

/* Applies option values that may change between steps to a trainer, from its next step on. Another
 * option that differs is RL_NOT_CHANGEABLE naming it; all other violations are parts of the same
 * error (rl_error_part), and then nothing changes. Thread: any. */
RL_API rl_status rl_trainer_set_options(rl_trainer* trainer, const rl_options* options,
                                        rl_error** err);

/* Where a trainer is saved, and with what. */
typedef struct rl_checkpoint {
  size_t struct_size;
  const char* dir; /* the directory that holds the checkpoints, made if needed with those above it;
                      the checkpoint of step n is its directory step_00000n, of six digits or more.
                      The same name with a further ending, such as ".partial", is what a
                      process left that was killed; the next save clears it up */
  size_t dir_len;
  const char* state; /* a text of the host, such as its place in the data, which rl_trainer_load
                        returns; optional */
  size_t state_len;
  uint64_t keep_last; /* this many newest checkpoints are kept, the new one included; 0: all */
  uint64_t flags;     /* 0 or RL_SAVE_REPLACE */
} rl_checkpoint;

/* Initialises an rl_checkpoint: zeroes the `size` bytes of *checkpoint and sets struct_size, and
 * dir_len and state_len RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_checkpoint_init(rl_checkpoint* checkpoint, size_t size);

/* Saves the trained weights, the optimizer with its schedule and counters, and the critic of a
 * trainer; *path is the directory of the new checkpoint. It appears by one rename after every file
 * is on disk, so a process that ends meanwhile leaves the earlier ones whole. RL_ALREADY_EXISTS
 * names a checkpoint of this number of steps or a later one; with RL_SAVE_REPLACE that of the same
 * number is replaced and later ones are set aside. RL_OUT_OF_RANGE names a state that is too long
 * to be loaded again: more than 64 MiB as JSON. RL_FAILED_PRECONDITION while the weights of the
 * last step are not published or the model is half-trained, RL_BUSY while they are being trained.
 * It waits for calls of the trainer that compute. Thread: any. */
RL_API rl_status rl_trainer_save(rl_trainer* trainer, const rl_checkpoint* checkpoint,
                                 rl_bytes** path, rl_error** err);

/* Loads a checkpoint that rl_trainer_save wrote: path is a checkpoint, or a directory of them, of
 * which the newest is loaded. The trainer's model has the same configuration, and its files may be
 * elsewhere now; the options are those that the saved trainer had. The load publishes the weights
 * under the version that they had (rl_model_version), and the trainer goes on with the same bits
 * and counts steps from there. *state is the text of the host, empty if it gave none.
 *
 * Everything is checked first. RL_NOT_FOUND: path does not exist, or has no checkpoint; a host that
 * begins a new run then should be sure of its path. RL_DATA_LOSS names a file of the checkpoint
 * that is missing, damaged or truncated; an earlier checkpoint can be loaded by its own path. RL_IO
 * names a file that cannot be read. RL_BUSY while something computes or requests of the model run.
 *
 * RL_INCOMPATIBLE names each option that differs, with its value now and in the saved trainer;
 * several are the parts of the error. Compared are the options of rl_options_identity that a
 * trainer reads, as last changed by rl_trainer_set_options; trainer.max_tokens_per_device,
 * engine.max_model_len and model.dtype as planned; model.path if the model has another
 * configuration; and the paths of a reference and of a teacher where they are used, since their
 * weights are not in the checkpoint. It is also the code when frozen weights differ or the
 * checkpoint is a pipeline's.
 *
 * A failure leaves the weights unchanged. If reading failed half-way, the optimizer is lost: steps
 * and saves are RL_FAILED_PRECONDITION until a load succeeds. Thread: any. */
RL_API rl_status rl_trainer_load(rl_trainer* trainer, const char* path, size_t path_len,
                                 rl_bytes** state, rl_error** err);

/* What a forward computes. Tokens are those after the prompt, samples of a batch one after the
 * other; rows are ids of the input, of a batch likewise one sample after the other. */
enum {
  RL_OUTPUT_LOGPROBS = 1,  /* [tokens], RL_DTYPE_F32, nats: log softmax(logits / temperature)[id] of
                              every token, given the ids before it */
  RL_OUTPUT_HIDDEN = 2,    /* [rows, hidden] in the model's compute dtype: the output of the last
                              norm for the id, from which the head computes the log-probs of the
                              next one */
  RL_OUTPUT_SCORES = 3,    /* [samples], RL_DTYPE_F32, with a scalar head: the value at the last
                              token of each; a model that rl_model_save writes scores the same
                              through model.reward_path */
  RL_OUTPUT_ENTROPIES = 4, /* [tokens], RL_DTYPE_F32, nats: of the distributions that
                              RL_OUTPUT_LOGPROBS is of */
  RL_OUTPUT_VALUES = 5,    /* [tokens], RL_DTYPE_F32: the value of the ids before each token, by the
                              critic of a trainer with algo.advantage = gae, or by a scalar head */
  RL_OUTPUT_LOGITS = 6     /* [rows, vocab], RL_DTYPE_F32: of the id after the row, before
                              temperature */
};

/* The input of a forward: the samples of a batch, or one sequence of ids. */
typedef struct rl_forward {
  size_t struct_size;
  int32_t output; /* RL_OUTPUT_LOGPROBS ... */
  int32_t reserved;
  const rl_batch* batch; /* samples, each at its own temperature; NULL: the sequence below */
  const int32_t* ids;    /* [num_ids] */
  size_t num_ids;
  size_t num_prompt; /* 1 .. num_ids - 1 for outputs per token; not read for others */
  float temperature; /* above 0 */
  uint32_t reserved2;
  const uint64_t* rows; /* [num_rows], for hidden states and logits: the rows that are wanted, in
                           this order; NULL: all of them */
  size_t num_rows;
} rl_forward;

/* Initialises an rl_forward: zeroes the `size` bytes of *forward and sets struct_size, output
 * RL_OUTPUT_LOGPROBS and temperature 1. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_forward_init(rl_forward* forward, size_t size);

/* Computes an output of a forward with the trainer's model under the weights of the last step, by
 * the code that training uses. The tensor has memory of its own, which may be written to and which
 * runtime.memory_budget_bytes does not count. RL_FAILED_PRECONDITION for an output that the model's
 * head does not have, RL_INVALID_ARGUMENT for a batch beside ids and for rows of another output
 * than hidden states and logits. RL_OUT_OF_RANGE names an id outside the vocabulary, a row,
 * num_prompt, the temperature, or the option whose limit the length of a sequence exceeds. The
 * error about a sample of a batch has the key "forward.batch[i].field", and its message names the
 * place and the sample_id. RL_BUSY while something else computes. Thread: any. */
RL_API rl_status rl_trainer_forward(rl_trainer* trainer, const rl_forward* forward, rl_tensor** out,
                                    rl_error** err);

/* Computes an output of a forward as rl_trainer_forward does, without a trainer: with a model that
 * was opened with RL_USE_FORWARD, which has neither gradients nor optimizer states; with another
 * one the call is RL_FAILED_PRECONDITION. Its micro-batches are as large as those of the forwards
 * of a trainer with these options (trainer.logprob_max_tokens_per_device). A reward model is opened
 * with algo.objective = reward_model. Calls of several threads wait for each other. RL_OUT_OF_RANGE
 * and RL_BUSY as for rl_trainer_forward. Thread: any. */
RL_API rl_status rl_model_forward(rl_model* model, const rl_forward* forward, rl_tensor** out,
                                  rl_error** err);

/* Saves the critic of a trainer, as rl_pipeline_save_critic does for a pipeline, with the same
 * codes. Thread: any. */
RL_API rl_status rl_trainer_save_critic(rl_trainer* trainer, const char* dir, size_t dir_len,
                                        int32_t dtype, uint64_t flags, rl_error** err);

/* Publishes the weights of the last step: engines read them from their next step on. *version is
 * that of these weights, one higher than before however many steps there were. With
 * model.compute_copies 1 a step has published its weights already, and this call only returns their
 * version; so does a call without a step since the last one. The weights of a half-trained model
 * (rl_trainer_step) are packed here, and engines drop what they cached under older ones: RL_BUSY
 * while anything computes, and with model.compute_copies 1 while requests of the model run. RL_BUSY
 * also while another thread trains the model or sets its weights. Thread: any. */
RL_API rl_status rl_trainer_publish(rl_trainer* trainer, uint64_t* version, rl_error** err);

/* Gives the memory of a trainer back between steps, until rl_trainer_wake: optimizer states,
 * averages and the gradients of rl_trainer_backward, of the critic too, move to an arena of the
 * host's memory, which takes their place in the ledger's "optimizer states, asleep"; working memory
 * is released. Addresses and plan stay, and so do the master weights, which engines read. On the
 * CPU device both memories are the machine's, so that nothing is saved. What needs the trainer is
 * RL_FAILED_PRECONDITION meanwhile: steps, gradients, forwards, rl_trainer_save and
 * rl_trainer_load. No effect when it is asleep. RL_BUSY while something computes, RL_OUT_OF_MEMORY
 * when the host has no room; then nothing has changed. Thread: any. */
RL_API rl_status rl_trainer_sleep(rl_trainer* trainer, rl_error** err);

/* Wakes the trainer: its memory is as it was, bit for bit. No effect when it is awake. RL_BUSY
 * while something computes; when the device has no room, RL_OUT_OF_MEMORY, and it stays asleep.
 * Thread: any. */
RL_API rl_status rl_trainer_wake(rl_trainer* trainer, rl_error** err);

/* ---- algorithms ---- */

/* Input of rl_algo_advantages and the functions after it, which compute what a training step does
 * with samples, on arrays of the host and without a model. They run the same code, with all given
 * tokens as one minibatch. The options algo.* select the algorithm (docs/algorithms.md); options
 * may be NULL: the defaults. Sequences are packed: per-token arrays have the tokens of sequence 0,
 * then of sequence 1, and so on, num_tokens in all. Log-probs are in nats. Errors name the field as
 * tokens.FIELD. RL_CONFLICT when options contradict each other. */
typedef struct rl_algo_tokens {
  size_t struct_size;
  const int32_t* lengths; /* [num_sequences], each at least 0; their sum is num_tokens */
  size_t num_sequences;   /* number of samples, without their prompts */
  size_t num_tokens;      /* number of tokens of all of them, one sequence after the other */
  const uint64_t* groups; /* [num_sequences], equal for the samples of one prompt, in any order;
                             optional: all belong to one prompt */
  const uint8_t* mask;    /* [num_tokens], 1 where a token carries loss, else 0; optional: all do */
  const uint8_t* truncated;  /* [num_sequences], 1 where the length limit cut it; optional: none */
  const float* logprobs;     /* [num_tokens], under the current policy */
  const float* old_logprobs; /* [num_tokens], the denominator of ratios; optional: logprobs */
  const float* rollout_logprobs; /* [num_tokens], of the sampler; optional: old_logprobs */
  const float* ref_logprobs;     /* [num_tokens], under the reference; needed for a KL */
  const float* advantages;       /* [num_tokens] */
  const double* rewards;         /* [num_sequences] */
  const double* baselines;     /* [num_sequences], rewards of greedy responses; needed for remax */
  const uint64_t* sample_ids;  /* [num_sequences]; for a host's own functions, not read */
  size_t num_reward_parts;     /* number of reward parts; 0 for none */
  const double* reward_parts;  /* [num_sequences * num_reward_parts], those of sequence 0 first;
                                  needed for gdpo */
  const double* token_rewards; /* [num_tokens], added to what each token earns; for estimators of
                                  token rewards (gae, reinforce_pp, remax); optional */
  const float* values;         /* [num_tokens], of a critic now; for a value loss */
  const float* old_values;     /* [num_tokens], of the critic at sampling; needed for gae; optional
                                  elsewhere: values */
  const float* returns;        /* [num_tokens], what values are to predict; for a value loss */
  const float* entropies;      /* [num_tokens], nats; for an entropy loss */
  const double* weights;       /* [num_tokens], in place of those of algo.loss_agg; optional */
  uint64_t total_tokens; /* tokens that carry loss in the whole batch that these are a part of, the
                            denominator of means over tokens; 0: those given here */
  uint64_t total_sequences; /* sequences with such tokens, likewise */
} rl_algo_tokens;

/* Initialises an rl_algo_tokens: zeroes the `size` bytes of *tokens and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_algo_tokens_init(rl_algo_tokens* tokens, size_t size);

/* The loss of a minibatch, from rl_algo_policy_loss. Means are over the tokens that carry loss. */
typedef struct rl_algo_loss {
  size_t struct_size;
  double loss;          /* policy_loss + kl_loss, without the entropy bonus */
  double policy_loss;   /* aggregated as algo.loss_agg says */
  double kl_loss;       /* algo.kl.coef times the KL, likewise; 0 unless algo.kl.where = loss */
  double kl;            /* mean of algo.kl.estimator */
  double ppo_kl;        /* mean of old - current log-prob, nats */
  double ppo_kl_k3;     /* mean of r - 1 - log r */
  double clip_fraction; /* 0..1 */
  double dual_clip_fraction; /* 0..1 */
  double ratio_max;          /* the largest ratio */
  uint64_t num_tokens;       /* tokens that carry loss */
  uint64_t num_rejected;     /* tokens that algo.correction.* rejected */
} rl_algo_loss;

/* Initialises an rl_algo_loss: zeroes the `size` bytes of *loss and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_algo_loss_init(rl_algo_loss* loss, size_t size);

/* The advantage of every token from tokens->rewards and token_rewards, by algo.advantage with
 * shaping, KL in the reward and whitening; 0 where there is no loss. returns may be NULL; otherwise
 * it receives the reward to go of every token, for gae what the critic is to predict, and for
 * estimators that compare samples the advantage before whitening. num_advantages is num_tokens, and
 * so is num_returns unless returns is NULL. RL_NON_FINITE names a reward, a baseline, a value or a
 * penalty that is not finite. RL_INVALID_ARGUMENT for token_rewards with an estimator that has
 * none, RL_FAILED_PRECONDITION for algo.advantage = custom. options may be NULL: the defaults.
 * Thread: any; callback-safe. */
RL_API rl_status rl_algo_advantages(const rl_options* options, const rl_algo_tokens* tokens,
                                    double* advantages, size_t num_advantages, double* returns,
                                    size_t num_returns, rl_error** err);

/* The loss by algo.policy_loss with algo.correction.* and algo.loss_agg, with algo.kl.where = loss
 * the KL term too, and its derivative in the log-prob of each token; num_gradient is num_tokens.
 * Reads logprobs, advantages and, for a KL, ref_logprobs. If a log-prob is not finite, neither is
 * the loss. RL_INVALID_ARGUMENT for an algo.objective that has no policy loss,
 * RL_FAILED_PRECONDITION for algo.policy_loss = custom, RL_CONFLICT for options that contradict one
 * another, RL_OUT_OF_RANGE for a sequence length below 0. options may be NULL: the
 * defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_policy_loss(const rl_options* options, const rl_algo_tokens* tokens,
                                     double* gradient, size_t num_gradient, rl_algo_loss* out,
                                     rl_error** err);

/* The loss of a critic by algo.value_clip, weighted as by rl_algo_weights, and its derivative in
 * the value of each token; num_gradient is num_tokens. Reads values, old_values and returns. In
 * *out loss, clip_fraction and num_tokens are set. options may be NULL: the defaults. Thread: any;
 * callback-safe. */
RL_API rl_status rl_algo_value_loss(const rl_options* options, const rl_algo_tokens* tokens,
                                    double* gradient, size_t num_gradient, rl_algo_loss* out,
                                    rl_error** err);

/* The entropy bonus as a loss, -algo.entropy_coef times the weighted sum of entropies, and its
 * derivative in the entropy of each token; num_gradient is num_tokens. Weights and rejections are
 * those of rl_algo_policy_loss, which reads logprobs too. In *out loss and num_tokens are set.
 * options may be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_entropy_loss(const rl_options* options, const rl_algo_tokens* tokens,
                                      double* gradient, size_t num_gradient, rl_algo_loss* out,
                                      rl_error** err);

/* How sequences are distributed over bins: micro-batches within a budget, or ranks. */
typedef struct rl_algo_packing {
  size_t struct_size;
  uint64_t max_tokens;     /* budget of a bin; 0: none, and there are min_bins bins of equal cost */
  uint64_t min_bins;       /* least number of bins, if there are as many units */
  uint64_t divisor;        /* the number of bins is a multiple of it; 1 without a budget */
  uint64_t group_size;     /* so many neighbours are a unit, which stays together */
  uint64_t hidden;         /* of the model (rl_model_info), for trainer.balance = flops */
  uint32_t oversize_alone; /* 1: a unit above the budget has a bin of its own; 0: it is
                              RL_OUT_OF_RANGE */
  uint32_t reserved;
} rl_algo_packing;

/* Initialises an rl_algo_packing: zeroes the `size` bytes of *packing and sets struct_size, and
 * min_bins, divisor and group_size 1. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_algo_packing_init(rl_algo_packing* packing, size_t size);

/* The bin of each sequence, from 0, with costs as equal as trainer.balance asks; a length is
 * never below 1. A training step packs its micro-batches by the same code. num_bins is num_lengths,
 * and *count the number of bins. RL_OUT_OF_RANGE names a field, a sequence with its tokens and the
 * budget, or the length at which the costs of all exceed 63 bits. RL_INVALID_ARGUMENT names
 * group_size, which does not divide the number of sequences; min_bins without a budget, for which
 * there are too few units, or which does not divide the number of groups of several; or max_tokens,
 * when no multiple of divisor bins holds the units. options may be NULL: the defaults. Thread: any;
 * callback-safe. */
RL_API rl_status rl_algo_pack(const rl_options* options, const int32_t* lengths, size_t num_lengths,
                              const rl_algo_packing* packing, int32_t* bins, size_t num_bins,
                              uint64_t* count, rl_error** err);

/* The correction weights of algo.correction.*, which multiply the token losses and are 0 for a
 * token that carries no loss. keep is 1 for a token that carries loss after all rejections, else 0.
 * num_weights and num_keep are num_tokens. Reads logprobs, and advantages for
 * algo.correction.opsm_delta. options may be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_corrections(const rl_options* options, const rl_algo_tokens* tokens,
                                     double* weights, size_t num_weights, uint8_t* keep,
                                     size_t num_keep, rl_error** err);

/* The weight of each token by algo.loss_agg: a loss is the sum of weights times token losses. With
 * total_tokens and total_sequences the losses of the parts of a batch add up to that of the whole.
 * num_weights is num_tokens. RL_NON_FINITE names a given weight. options may be NULL: the defaults.
 * Thread: any; callback-safe. */
RL_API rl_status rl_algo_weights(const rl_options* options, const rl_algo_tokens* tokens,
                                 double* weights, size_t num_weights, rl_error** err);

/* The KL of each token by algo.kl.estimator from logprobs and ref_logprobs, and its derivative in
 * the log-prob; 0 for tokens that carry no loss. num_values and num_gradient are num_tokens.
 * options may be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_kl(const rl_options* options, const rl_algo_tokens* tokens, double* values,
                            size_t num_values, double* gradient, size_t num_gradient,
                            rl_error** err);

/* Computes advantages in the host, for algo.advantage = custom: called once per batch, before
 * anything of its step has changed. tokens has lengths, groups, sample_ids, mask, truncated, the
 * stored log-probs as old_logprobs and rollout_logprobs, rewards after shaping and the KL,
 * token_rewards if any sample has them, and with algo.kl.where = reward ref_logprobs; all other
 * fields are NULL. advantages, [num_tokens], are 0
 * at first; values written for masked tokens are not read. The arrays are valid during the call
 * only. 0 is success; any other result fails the step as RL_CANCELLED, and an advantage that is not
 * finite as RL_NON_FINITE naming the sample. */
typedef int32_t (*rl_advantage_fn)(void* user_data, const rl_algo_tokens* tokens,
                                   double* advantages);

/* Computes the policy loss in the host, for algo.policy_loss = custom: called once per minibatch.
 * tokens has lengths, groups, sample_ids, mask, logprobs of the current policy, old_logprobs,
 * rollout_logprobs and advantages; all other fields are NULL. weights, [num_tokens], are those of
 * algo.loss_agg times the corrections of algo.correction.*: a loss that is the mean of token losses
 * is the sum of weights times token losses. The weight of a masked token is 0, and its gradient is
 * not read. gradient, [num_tokens], 0 at first, receives the derivative of *loss in each log-prob;
 * the KL term and the entropy bonus are added by librl. The arrays are valid during the call only.
 * 0 is success. With any other result, or a loss or gradient that is not finite, the optimizer step
 * of the minibatch is skipped and counted in training/skipped_steps. */
typedef int32_t (*rl_loss_fn)(void* user_data, const rl_algo_tokens* tokens, const double* weights,
                              double* loss, double* gradient);

/* Setters of the functions for algo.advantage = custom and algo.policy_loss = custom. user_data is
 * consumed, also on failure. Those of a pipeline must be set before rl_pipeline_start, later it is
 * RL_FAILED_PRECONDITION, and are called on the library's thread; starting without them is
 * RL_FAILED_PRECONDITION too. Those of a trainer take effect with its next step and are called on
 * the thread that calls rl_trainer_step, which without them is RL_FAILED_PRECONDITION. */

/* Sets the function that computes advantages for a pipeline, under algo.advantage = custom.
 * user_data is consumed, also on failure. fn may be NULL: that removes it. RL_FAILED_PRECONDITION
 * once the loop was started. Thread: any. */
RL_API rl_status rl_pipeline_set_advantage(rl_pipeline* pipeline, rl_advantage_fn fn,
                                           void* user_data, rl_destroy_fn destroy, rl_error** err);

/* Sets the function that computes the policy loss for a pipeline, under algo.policy_loss = custom.
 * user_data is consumed, also on failure. fn may be NULL: that removes it. RL_FAILED_PRECONDITION
 * once the loop was started. Thread: any. */
RL_API rl_status rl_pipeline_set_loss(rl_pipeline* pipeline, rl_loss_fn fn, void* user_data,
                                      rl_destroy_fn destroy, rl_error** err);

/* Sets the function that computes advantages for a trainer, under algo.advantage = custom.
 * user_data is consumed, also on failure. fn may be NULL: that removes it. Thread: any. */
RL_API rl_status rl_trainer_set_advantage(rl_trainer* trainer, rl_advantage_fn fn, void* user_data,
                                          rl_destroy_fn destroy, rl_error** err);

/* Sets the function that computes the policy loss for a trainer, under algo.policy_loss = custom.
 * user_data is consumed, also on failure. fn may be NULL: that removes it. Thread: any. */
RL_API rl_status rl_trainer_set_loss(rl_trainer* trainer, rl_loss_fn fn, void* user_data,
                                     rl_destroy_fn destroy, rl_error** err);

/* ---- tensors ---- */

/* A tensor gives a host access to arrays of librl, and librl access to arrays of a host, without a
 * copy: weights, arrays of samples, hidden states. Other libraries exchange them as DLPack tensors.
 *
 * Lifetime. A tensor keeps alive the object that owns its memory, and so does what was exported
 * from it: all of them may end in any order, also after their runtime, model or batch was
 * destroyed. The memory is freed with the last of them, on the thread that ends it.
 *
 * Contents. librl never writes to memory that it received, and a host may write to a tensor only
 * where read_only is 0. A tensor of weights is read_only and shows the live weights: a training
 * step, rl_model_set_weights and loading a checkpoint change its contents, so read it only while
 * none of these runs. RL_TENSOR_COPY takes a snapshot of the values instead. */

/* Flag of functions that return a tensor: the values are copied in row-major order to memory that
 * belongs to the tensor alone and may be written to. runtime.memory_budget_bytes does not count
 * it. */
#define RL_TENSOR_COPY UINT64_C(1)

typedef struct rl_tensor_info {
  size_t struct_size;
  void* data; /* address of the element with all indices 0, of any alignment; written to only where
                 read_only is 0 */
  const int64_t* shape;   /* [num_dims]; NULL if num_dims is 0; owner: the tensor */
  const int64_t* strides; /* [num_dims], in elements, of any sign; NULL and owner as shape */
  uint64_t num_dims;      /* at most 64 */
  uint64_t num_elements;  /* product of the shape; 1 without dimensions */
  int32_t dtype;          /* RL_DTYPE_F32 ... */
  int32_t device;         /* whose memory it is: RL_DEVICE_CPU or RL_DEVICE_CUDA */
  uint32_t read_only;     /* 1: the memory must not be written to */
  int32_t device_index;   /* number of the device among those of its kind; 0 for RL_DEVICE_CPU */
} rl_tensor_info;

/* Where the values of a tensor are wanted, and when. Weights and gradients of a runtime whose
 * device is a GPU are in its memory. There they are to be had in place, or with RL_TENSOR_COPY as a
 * copy on the GPU; in the memory of the host they are copies. Streams of a GPU are those of CUDA's
 * runtime, cudaStreamLegacy and cudaStreamPerThread (1 and 2) among them. CUDA reads what a handle
 * points to: a number that can be no address is refused, but a stream must not have ended. */
typedef struct rl_tensor_request {
  size_t struct_size;
  uint64_t flags;       /* RL_TENSOR_COPY */
  int32_t device;       /* RL_DEVICE_CPU, or for weights and gradients the runtime's device; another
                           one is RL_UNSUPPORTED */
  int32_t device_index; /* number of the device among those of its kind; 0 for RL_DEVICE_CPU */
  void* stream; /* of the device, behind whose work the values are there; NULL: they are there
                   when the call returns. The CPU has no streams: another value is
                   RL_UNSUPPORTED. RL_INVALID_ARGUMENT for what is no stream of the device */
} rl_tensor_request;

/* Initialises an rl_tensor_request: zeroes the `size` bytes of *request and sets struct_size and
 * device RL_DEVICE_CPU. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_tensor_request_init(rl_tensor_request* request, size_t size);

/* Initialises an rl_tensor_info: zeroes the `size` bytes of *info and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_tensor_info_init(rl_tensor_info* info, size_t size);

/* Shape, type and address of a tensor. Thread: any; callback-safe. */
RL_API rl_status rl_tensor_get_info(const rl_tensor* tensor, rl_tensor_info* info, rl_error** err);

/* Creates another handle of the same tensor. Thread: any; callback-safe. */
RL_API rl_status rl_tensor_retain(const rl_tensor* tensor, rl_tensor** out, rl_error** err);

/* Ends the handle of a tensor. Thread: any; callback-safe. */
RL_API void rl_tensor_release(rl_tensor* tensor);

/* Takes over a tensor of another library, without a copy unless flags have RL_TENSOR_COPY. managed
 * is consumed, also on failure: its deleter, which may be NULL, is called exactly once, when
 * nothing reads the memory any more, on whatever thread ends it; with RL_TENSOR_COPY and after a
 * failure that is before this call returns. The deleter may call every function, inside a callback
 * only callback-safe ones, and must not throw. producer_stream may be NULL: then the values must be
 * in memory when the call begins. For a tensor of a GPU it may be a stream, behind whose work the
 * values are read; for one of the CPU, which has no streams, that is RL_UNSUPPORTED.
 *
 * RL_INCOMPATIBLE when the major version of DLPack is not 1; then nothing but the deleter is read.
 * RL_UNSUPPORTED names a device other than the CPU (1, 0) and the runtime's, an element type other
 * than fp32, bf16 and int32 with one lane, flags other than read-only and is-copied, and of a GPU's
 * tensor strides that are not those of row-major order and an address that is no multiple of the
 * size of its elements. RL_OUT_OF_RANGE names more than 64
 * dimensions, an extent below 0, and sizes, strides or a byte_offset that overflow;
 * RL_INVALID_ARGUMENT a NULL shape or NULL data, data that is not memory of the device, and a
 * stream that is none of the device. NULL strides mean row-major order. Thread: any. */
RL_API rl_status rl_tensor_import_dlpack(rl_runtime* runtime,
                                         struct DLManagedTensorVersioned* managed,
                                         void* producer_stream, uint64_t flags, rl_tensor** out,
                                         rl_error** err);

/* Exports a tensor to another library as DLPack 1.0, without a copy; each call makes a new export.
 * Whoever owns *out must call its deleter once, on any thread, also after every handle ended; in a
 * forked child the deleter has no effect. Its strides are never NULL when it has dimensions, and it
 * is flagged read-only when the tensor is. consumer_stream may be NULL: then the values are there
 * when the call returns. For a tensor of a GPU it may be a stream, whose later work runs behind
 * what writes the values; for one of the CPU that is RL_UNSUPPORTED. Thread: any. */
RL_API rl_status rl_tensor_export_dlpack(const rl_tensor* tensor, void* consumer_stream,
                                         struct DLManagedTensorVersioned** out, rl_error** err);

/* Number of weight tensors of a model; 0 for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API size_t rl_model_weight_count(const rl_model* model);

/* The name of weight `index` of a model, as in a Hugging Face directory, counted from 0;
 * RL_OUT_OF_RANGE beyond the last. Owner: the model. Thread: any. */
RL_API rl_status rl_model_weight_name(const rl_model* model, size_t index, const char** name,
                                      rl_error** err);

/* A weight of a model by name: the live fp32 values that training changes, read_only. With
 * model.compute_copies 2 these may be ahead of what engines read. request may be NULL: no flags,
 * and the memory that the weight is in. With RL_TENSOR_COPY the call is RL_BUSY while the weights
 * are being trained. RL_NOT_FOUND names the nearest weights. A head that shares the embedding has
 * no name of its own. Thread: any. */
RL_API rl_status rl_model_weight(const rl_model* model, const char* name, size_t name_len,
                                 const rl_tensor_request* request, rl_tensor** out, rl_error** err);

/* The gradients of rl_trainer_backward, before clipping, in RL_DTYPE_F32: those of a weight by its
 * name (rl_model_weight_name), with its shape, or with an empty name all of them in one row, weight
 * after weight with zeros between some. They are where the trainer computes them, or with
 * trainer.grad_dtype = bf16 a copy that rl_trainer_apply rounds stochastically, and may be written
 * to until rl_trainer_apply is called; the tensor keeps the trainer's memory alive, but its
 * contents mean nothing once other calls use that memory. request may be NULL: no flags, and the
 * memory that they are in. RL_FAILED_PRECONDITION when there are no gradients of the present
 * weights and, with a GPU, when they are wanted without RL_TENSOR_COPY and were handed out so in
 * the other memory before; RL_NOT_FOUND for a weight that is not trained, with the nearest ones.
 * What streams of a GPU write into them must be complete when rl_trainer_apply is called. Thread:
 * any. */
RL_API rl_status rl_trainer_gradient(rl_trainer* trainer, const char* name, size_t name_len,
                                     const rl_tensor_request* request, rl_tensor** out,
                                     rl_error** err);

/* A weight to set. */
typedef struct rl_weight {
  size_t struct_size;
  const char* name; /* of the weight, as in a Hugging Face directory */
  size_t name_len;
  rl_tensor* tensor; /* RL_DTYPE_F32 or RL_DTYPE_BF16, with the shape of the weight; only read, and
                        the caller's */
} rl_weight;

/* Initialises an rl_weight: zeroes the `size` bytes of *weight and sets struct_size and name_len
 * RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_weight_init(rl_weight* weight, size_t size);

/* Sets weights of a model by name and publishes them. producer_stream may be NULL: then the values
 * are in memory. Where the runtime's device is a GPU it may be a stream of it, behind whose work
 * they are read; else that is RL_UNSUPPORTED. *version is the new version of the model's weights:
 * as_version, so that a host can give them the number that they have in another process, or with 0
 * the next one; RL_OUT_OF_RANGE unless it is above the present one. Gradients and optimizer states
 * of its trainers are unchanged. All is checked first, and after a failure no weight has changed,
 * except for RL_OUT_OF_MEMORY while they are packed, which leaves the model half-trained
 * (rl_trainer_step). The error's key is the weight: RL_NOT_FOUND, RL_DUPLICATE (given twice),
 * RL_WRONG_TYPE, RL_INCOMPATIBLE (another shape), RL_NON_FINITE, RL_UNSUPPORTED (the values are on
 * a device that is not the runtime's), RL_CONFLICT (the values overlap the model's own weights).
 * RL_BUSY while weights are trained or set, while something computes that is no engine step, and
 * while a pipeline runs on the model; with model.compute_copies 1 also while an engine computes or
 * has requests of the model. With 2 the call waits for its turn, and requests that are running
 * continue under the new version from their next token, as after rl_trainer_publish.
 * RL_FAILED_PRECONDITION while a training step is not published (rl_trainer_publish). A frozen
 * reference without a path of its own keeps the weights of model.path, and a sleeping engine holds
 * packed weights again. Thread: any. */
RL_API rl_status rl_model_set_weights(rl_model* model, const rl_weight* weights, size_t num_weights,
                                      void* producer_stream, uint64_t as_version, uint64_t* version,
                                      rl_error** err);

/* Arrays of a sample, for rl_batch_tensor and rl_event_tensor; see rl_sample_view. */
enum {
  RL_SAMPLE_IDS = 1,              /* [num_ids], RL_DTYPE_I32 */
  RL_SAMPLE_LOGPROBS = 2,         /* [num_ids - num_prompt], RL_DTYPE_F32 */
  RL_SAMPLE_LOGPROBS_SAMPLED = 3, /* as RL_SAMPLE_LOGPROBS */
  RL_SAMPLE_TOP_IDS = 4,          /* [num_ids - num_prompt, num_top], RL_DTYPE_I32 */
  RL_SAMPLE_TOP_LOGPROBS = 5      /* as RL_SAMPLE_TOP_IDS, RL_DTYPE_F32 */
};

/* A read_only tensor of an array of sample `index` of a batch, counted from 0, without a copy; its
 * contents never change and it outlives the batch. request may be NULL: no flags, and the memory
 * that the array is in. RL_OUT_OF_RANGE beyond the last sample, RL_NOT_FOUND when the sample has no
 * such array. Thread: any. */
RL_API rl_status rl_batch_tensor(const rl_batch* batch, size_t index, int32_t array,
                                 const rl_tensor_request* request, rl_tensor** out, rl_error** err);

/* A tensor of an array of sample `index` of an event, as rl_batch_tensor returns it; samples and
 * errors as in rl_event_sample. request may be NULL. Thread: any. */
RL_API rl_status rl_event_tensor(const rl_event* event, size_t index, int32_t array,
                                 const rl_tensor_request* request, rl_tensor** out, rl_error** err);

/* ---- profiler ---- */

/* A profiler records what the objects of a runtime do, as spans and counters on lanes, from its
 * creation to its end. */

/* Creates a profiler and starts recording. It replaces the runtime's earlier profiler, if any.
 * Thread: any. */
RL_API rl_status rl_profiler_create(rl_runtime* runtime, rl_profiler** out, rl_error** err);

/* Ends recording and frees the record. Thread: any. */
RL_API void rl_profiler_destroy(rl_profiler* profiler);

/* Writes the record so far as a Chrome trace, which Perfetto opens; the file appears by one rename.
 * Its times are microseconds from the first record, whose own time is in otherData: origin_ns by
 * rl_clock.steady_ns, origin_unix_ns since 1970. Thread: any. */
RL_API rl_status rl_profiler_write_trace(const rl_profiler* profiler, const char* path,
                                         size_t path_len, rl_error** err);

/* Number of spans and counters recorded so far, and of those dropped because the record was full.
 * Thread: any. */
RL_API rl_status rl_profiler_count(const rl_profiler* profiler, uint64_t* num_records,
                                   uint64_t* num_dropped, rl_error** err);

/* Time by span name, as lines "name count total_ns longest_ns" in name order. Thread: any. */
RL_API rl_status rl_profiler_summary(const rl_profiler* profiler, rl_bytes** out, rl_error** err);

/* ---- host services ---- */

/* A runtime takes files and memory from the operating system. A host may provide them instead: then
 * models, data and checkpoints can live in an object store, and arenas in memory of the host's own.
 * It may also provide the store of a buffer.
 *
 * A service is a struct of functions, which is copied. Its user_data is consumed, also on failure:
 * destroy, which may be NULL, is called once when the runtime or the buffer has ended. Only a
 * struct whose struct_size is refused is not read: its destroy is not called, nor are those of the
 * services that an rl_host of such a size names. A function that is missing is RL_INVALID_ARGUMENT,
 * whose RL_ERROR_KEY names service and function, such as "files.rename".
 *
 * The functions are callbacks: they may call functions that are callback-safe, and no others. They
 * are called on every thread, several at once, and those that can fail return 0, or a code other
 * than 0. */

/* What a path names. */
enum {
  RL_FILE_ABSENT = 0,   /* nothing */
  RL_FILE_REGULAR = 1,  /* a file */
  RL_FILE_DIRECTORY = 2 /* a directory */
};

/* Opens an existing file to read. *file is the host's token for it, and *size its length in bytes,
 * which does not change while it is open. */
typedef int32_t (*rl_file_open_fn)(void* user_data, const char* path, size_t path_len, void** file,
                                   uint64_t* size);

/* Opens a file to write at its end: append 0 creates it, or empties it if it exists; append 1
 * creates it, or keeps what it has. */
typedef int32_t (*rl_file_create_fn)(void* user_data, const char* path, size_t path_len,
                                     uint32_t append, void** file);

/* Reads size bytes at an offset, all of them or it has failed. librl reads no byte beyond the
 * file's length. Called on several threads at once, also for one file. */
typedef int32_t (*rl_file_read_fn)(void* user_data, void* file, uint64_t offset, void* data,
                                   uint64_t size);

/* Writes size bytes at the end of a file, all of them or it has failed. */
typedef int32_t (*rl_file_write_fn)(void* user_data, void* file, const void* data, uint64_t size);

/* Makes durable what was written to a file. */
typedef int32_t (*rl_file_sync_fn)(void* user_data, void* file);

/* Ends the token of a file, whatever it returns. discard is 1 when writing the file has failed or
 * was given up: its contents are not needed, and librl will remove it or write it again. It is 0
 * for files that were read or opened with append 1. */
typedef int32_t (*rl_file_close_fn)(void* user_data, void* file, uint32_t discard);

/* What a path names: *kind is RL_FILE_ABSENT ... */
typedef int32_t (*rl_file_kind_fn)(void* user_data, const char* path, size_t path_len,
                                   int32_t* kind);

/* Takes a name from an rl_file_list_fn, with the context that was given to it. The name is copied.
 * A result other than 0 means that listing ends, with this code. */
typedef int32_t (*rl_file_found_fn)(void* context, const char* name, size_t name_len);

/* Calls found for each entry of a directory, in any order, with its name in the directory. */
typedef int32_t (*rl_file_list_fn)(void* user_data, const char* path, size_t path_len,
                                   rl_file_found_fn found, void* context);

/* Does something with a path. */
typedef int32_t (*rl_file_path_fn)(void* user_data, const char* path, size_t path_len);

/* Gives the file or directory `from` the name `to`, in one go: whoever looks sees the old state or
 * the new one. A file of that name is replaced. */
typedef int32_t (*rl_file_rename_fn)(void* user_data, const char* from, size_t from_len,
                                     const char* to, size_t to_len);

/* Writes what a code of these functions means to text, at most text_size bytes with a final NUL. */
typedef void (*rl_file_describe_fn)(void* user_data, int32_t code, char* text, size_t text_size);

/* A file system of the host. Paths are those of options and arguments, or made from one by adding
 * "/" and names. Codes are the host's own; ENOENT means that there is no such file and becomes
 * RL_NOT_FOUND, every other RL_IO. The code is rl_error_system_code, and the error names operation
 * and path. librl writes important files under another name and renames them when they are complete
 * and synced. */
typedef struct rl_files {
  size_t struct_size;
  void* user_data;       /* what the functions below get */
  rl_destroy_fn destroy; /* ends user_data; may be NULL */
  const char* prefix;    /* paths that begin with it belong to these functions, all others to the
                            operating system; copied; NULL: all paths */
  size_t prefix_len;
  rl_file_open_fn open;
  rl_file_create_fn create;
  rl_file_read_fn read;
  rl_file_write_fn write;
  rl_file_sync_fn sync; /* may be NULL: then a file is durable once it is closed */
  rl_file_close_fn close;
  rl_file_kind_fn kind;
  rl_file_list_fn list;
  rl_file_path_fn make_directories; /* with those above it; no failure if it exists */
  rl_file_rename_fn rename;
  rl_file_path_fn remove;         /* with all that is in it; no failure if nothing is there */
  rl_file_path_fn sync_directory; /* makes durable which entries a directory has; may be NULL */
  rl_file_describe_fn describe;   /* may be NULL: codes are errno values */
} rl_files;

/* Initialises an rl_files: zeroes the `size` bytes of *files and sets struct_size and prefix_len
 * RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_files_init(rl_files* files, size_t size);

/* Allocates size bytes, a multiple of 4096, whose address is a multiple of alignment, a power of
 * two from 4096 to 2 MiB; memory at another address is released, and RL_INVALID_ARGUMENT. The
 * result is 0 or an errno value, such as ENOMEM; the call that needed the memory is then
 * RL_OUT_OF_MEMORY, names the arena in RL_ERROR_KEY ("tensor" for a tensor), and has released what
 * it had allocated before. The contents may be anything: librl writes zeros first. */
typedef int32_t (*rl_allocate_fn)(void* user_data, uint64_t size, uint64_t alignment,
                                  void** memory);

/* Does something with memory that an rl_allocate_fn gave, with the size that it was asked for. */
typedef void (*rl_memory_fn)(void* user_data, void* memory, uint64_t size);

/* Memory of the host for arenas (weights, gradients, optimizer states, KV pools, working memory, as
 * a plan lists them) and for tensors that own their memory. What librl keeps outside arenas, as
 * RL_PLAN_OUTSIDE, comes from the C and C++ run time. Memory may outlive the runtime in tensors:
 * destroy is called after the last release. */
typedef struct rl_allocator {
  size_t struct_size;
  void* user_data;       /* what the functions below get */
  rl_destroy_fn destroy; /* ends user_data; may be NULL */
  rl_allocate_fn allocate;
  rl_memory_fn release;
  rl_memory_fn decommit; /* gives the pages back but keeps the addresses, which read as zeros from
                            then on, for rl_engine_sleep; may be NULL: then it is kept */
} rl_allocator;

/* Initialises an rl_allocator: zeroes the `size` bytes of *allocator and sets struct_size. NULL or
 * a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_allocator_init(rl_allocator* allocator, size_t size);

/* Takes a group or a book that a store has, with the context that was given to it. token is what
 * the store calls this delivery, not read for a book. Everything is copied. A result other than 0
 * means that the call ends, with this code. */
typedef int32_t (*rl_store_found_fn)(void* context, const char* token, size_t token_len,
                                     const void* data, uint64_t size);

/* Keeps a group durably. name is that of its instance and ordinal; a group of the same name that
 * waits may be replaced. */
typedef int32_t (*rl_store_put_fn)(void* user_data, const char* name, size_t name_len,
                                   const void* data, uint64_t size);

/* Calls found for groups that nobody has claimed, at most max_groups; they are claimed from then
 * on. Returns at once when there are none. */
typedef int32_t (*rl_store_claim_fn)(void* user_data, uint64_t max_groups, rl_store_found_fn found,
                                     void* context);

/* Makes groups that were claimed and not acknowledged claimable again, also those that other
 * processes have claimed. */
typedef int32_t (*rl_store_recover_fn)(void* user_data);

/* Does something with a delivery, which may be gone already. */
typedef int32_t (*rl_store_token_fn)(void* user_data, const char* token, size_t token_len);

/* Calls found with the book, if there is one. */
typedef int32_t (*rl_store_read_book_fn)(void* user_data, rl_store_found_fn found, void* context);

/* Keeps the book durably, in place of the one before, in one go. */
typedef int32_t (*rl_store_write_book_fn)(void* user_data, const void* data, uint64_t size);

/* Writes what a code of these functions means to text, at most text_size bytes with a final NUL. */
typedef void (*rl_store_describe_fn)(void* user_data, int32_t code, char* text, size_t text_size);

/* A store of the host for groups on their way from the processes that sample to the one that trains
 * (rl_buffer_create_stored), such as a queue. It may deliver a group several times, and in any
 * order. A group is the bytes of a buffer file, and is checked when it comes back. The book is a
 * small document: which groups were trained. A group that cannot be read is done if its token is
 * the name that put got; if it is not, a pipeline of role train ends. Every failure becomes RL_IO,
 * with the code as rl_error_system_code. With buffer.store_lease_ns the book is also read and
 * written on a thread of the library. */
typedef struct rl_store {
  size_t struct_size;
  void* user_data;       /* what the functions below get */
  rl_destroy_fn destroy; /* ends user_data; may be NULL */
  rl_store_put_fn put;
  rl_store_claim_fn claim;
  rl_store_recover_fn recover;
  rl_store_token_fn acknowledge; /* forgets a group */
  rl_store_token_fn set_aside;   /* keeps a group that cannot be read where nobody claims it */
  rl_store_read_book_fn read_book;
  rl_store_write_book_fn write_book;
  rl_store_describe_fn describe; /* may be NULL: codes are errno values */
} rl_store;

/* Initialises an rl_store: zeroes the `size` bytes of *store and sets struct_size. NULL or a size
 * too small has no effect. Thread: any; callback-safe. */
RL_API void rl_store_init(rl_store* store, size_t size);

/* Creates a buffer whose complete groups wait in a store, for processes that share it: some put,
 * one takes. options and store may be NULL: without a store the directory buffer.store_path is it,
 * as for rl_buffer_create; both are RL_CONFLICT. max_samples bounds what is here: samples of
 * incomplete groups, and those that were claimed and wait to be taken; RL_OUT_OF_RANGE as there.
 *
 * A group goes to the store once rl_buffer_put, rl_buffer_put_batch or rl_buffer_load completes it,
 * and is durable when the call returns; RL_IO if the store refuses it, and the samples of the call
 * that are not stored are not in the buffer. The samples of a group come from one runtime.instance,
 * and processes that sample have different ones.
 *
 * A store delivers a group at least once, and it is trained on once: rl_take.step says for which
 * training step a batch is, rl_buffer_acknowledge that the weights of a step are durable. Instance
 * and ordinal say which group it is, whatever its attempt; one that comes again is dropped and
 * counted. A trainer that starts again calls rl_buffer_resume before anything else. One that begins
 * to take ends the takes of others: RL_FAILED_PRECONDITION for them from then on. With
 * buffer.store_lease_ns it waits for them instead: while another process has the lease of the store
 * rl_buffer_take gives nothing, and rl_buffer_resume and rl_buffer_acknowledge are RL_BUSY; whoever
 * lost it, since it could not write to the store for so long, is RL_FAILED_PRECONDITION.
 *
 * Such a buffer refuses rl_buffer_save and rl_buffer_set_queue (RL_UNSUPPORTED). Thread: any. */
RL_API rl_status rl_buffer_create_stored(const rl_options* options, uint64_t max_samples,
                                         const rl_store* store, rl_buffer** out, rl_error** err);

/* Creates a pipeline as rl_pipeline_create does, over a store: one half of a run, as pipeline.role
 * says. One of role rollout generates and scores samples and puts each complete group into the
 * store; one of role train takes groups from it, each once, and trains on them. They may be
 * pipelines of two processes, and each may end at any moment and start again. options and store may
 * be NULL: the options are then those of the model, and the store the directory buffer.store_path,
 * as for rl_pipeline_create. RL_CONFLICT for both stores, for none with role rollout or train, and
 * for any with pipeline.role = both. Of several ranks rank 0 alone has the store: the host gives it
 * to that one, and buffer.store_path to all; RL_CONFLICT for a store of the host on another rank.
 * Other errors are those of rl_pipeline_create.
 *
 * Weights go the other way as checkpoints: role rollout takes up those of pipeline.weights_dir, the
 * checkpoint.dir of role train, whose groups leave the store with the checkpoint of their step.
 * Role rollout draws no group that might become older than pipeline.max_staleness allows before it
 * is trained on; one that did, because several pipelines generate or one was killed, is dropped as
 * RL_DROP_STALE by role train. Several pipelines of role rollout need a runtime.instance and a
 * runtime.seed each, and their share of pipeline.prompts_per_step.
 *
 * A pipeline of role train has no score events; it starts as rl_buffer_resume says, and its loop
 * ends with RL_FAILED_PRECONDITION once another one takes from the store. One of role rollout has
 * no step events: events of engines (engine.stats_interval_ns) have its metrics, and in
 * rl_pipeline_stats step is that of the weights that it took up last, and attempts_trained and
 * prompts_trained count what was put into the store. It runs until those weights have
 * pipeline.total_steps steps, or rl_pipeline_stop. RL_IO when the store fails. Thread: any. */
RL_API rl_status rl_pipeline_create_stored(rl_model* model, const rl_options* options,
                                           const rl_store* store, rl_pipeline** out,
                                           rl_error** err);

/* Messages that a rank sends and receives, at most one to and one from each other rank. */
typedef struct rl_exchange {
  size_t struct_size;          /* of the library: a newer header's fields beyond it are not there */
  uint64_t channel;            /* messages of different channels never meet */
  size_t num_out;              /* messages to send */
  const uint32_t* out_ranks;   /* [num_out], to whom */
  const void* const* out_data; /* [num_out], their bytes */
  const uint64_t* out_sizes;   /* [num_out], at least 1 each */
  size_t num_in;               /* messages to receive */
  const uint32_t* in_ranks;    /* [num_in], from whom */
  void* const* in_data;        /* [num_in], where their bytes go */
  const uint64_t* in_sizes;    /* [num_in], the room there, at least 1 each */
  uint64_t* received;          /* [num_in], set by the host: the bytes that came */
  int64_t timeout_ns;          /* from now on; negative: none */
  int32_t lost_rank; /* set by the host with a failure: whom it is about; -1 before: nobody
                        that it knows */
  uint32_t reserved;
} rl_exchange;

/* Initialises an rl_exchange: zeroes the `size` bytes of *exchange and sets struct_size. NULL or a
 * size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_exchange_init(rl_exchange* exchange, size_t size);

/* Returns 0 once all messages have come and the memory of those to send may be written again.
 * Messages between two ranks on one channel keep their order. Several threads may call it at once,
 * each with a channel of its own. A result other than 0 is a failure, a timeout included. */
typedef int32_t (*rl_exchange_fn)(void* user_data, rl_exchange* exchange);

/* The ranks cannot go on because of a rank, which may be this one: exchanges that run or come later
 * fail on all ranks, with that rank as lost_rank. Called at most once, on any thread, also beside
 * an exchange. */
typedef void (*rl_abandon_fn)(void* user_data, uint32_t rank, const char* why, size_t why_len);

/* Writes what a code of an exchange means to text, at most text_size bytes with a final NUL. */
typedef void (*rl_transport_describe_fn)(void* user_data, int32_t code, char* text,
                                         size_t text_size);

/* How the ranks of a run exchange what they share, with comm.backend = host: by MPI or whatever the
 * host has. Each rank is a runtime of its own, made by rl_runtime_create_hosted, in one process or
 * in several. librl adds up by itself, in the order of ranks, so no bit depends on the transport.
 * It checks that both ends of a message made the same call, before any array is written. A failure
 * is RL_RANK_LOST on all ranks and names lost_rank, or this rank, with the code as
 * rl_error_system_code. destroy means that this rank has left: exchanges that wait for it fail. */
typedef struct rl_transport {
  size_t struct_size;
  void* user_data;       /* what the functions below get */
  rl_destroy_fn destroy; /* ends user_data; may be NULL */
  uint32_t rank;         /* of this runtime, from 0 */
  uint32_t num_ranks;    /* of the run */
  rl_exchange_fn exchange;
  rl_abandon_fn abandon;
  rl_transport_describe_fn describe; /* may be NULL: codes are errno values */
} rl_transport;

/* Initialises an rl_transport: zeroes the `size` bytes of *transport and sets struct_size. NULL or
 * a size too small has no effect. Thread: any; callback-safe. */
RL_API void rl_transport_init(rl_transport* transport, size_t size);

/* What a host provides to a runtime. Files and memory come from the operating system if they are
 * NULL. */
typedef struct rl_host {
  size_t struct_size;
  const rl_files* files;         /* copied; NULL: the files of the operating system */
  const rl_allocator* allocator; /* copied; NULL: memory of the operating system */
  const rl_transport* transport; /* copied; needed with comm.backend = host, NULL otherwise */
} rl_host;

/* Initialises an rl_host: zeroes the `size` bytes of *host and sets struct_size. NULL or a size too
 * small has no effect. Thread: any; callback-safe. */
RL_API void rl_host_init(rl_host* host, size_t size);

/* Creates a runtime, as rl_runtime_create does, with services of the host. All objects made from it
 * read and write their files through host->files (model, prompts, evaluations, checkpoints,
 * metrics, traces, reports, saved models), their arenas are memory of host->allocator, and ranks
 * exchange by host->transport: RL_FAILED_PRECONDITION if comm.backend is host and there is none,
 * RL_CONFLICT for one with another backend, RL_INVALID_ARGUMENT for one of another number of ranks.
 * options and host may be NULL. Other codes are those of rl_runtime_create. Thread: any. */
RL_API rl_status rl_runtime_create_hosted(uint32_t header_abi, const rl_options* options,
                                          const rl_host* host, rl_runtime** out, rl_error** err);

/* Plans the memory for a use of model.path, as rl_plan_create does, and reads the model's header
 * through the files of a runtime. options may be NULL: then those of the runtime hold. The codes
 * are those of rl_plan_create. Thread: any. */
RL_API rl_status rl_plan_create_hosted(const rl_runtime* runtime, const rl_options* options,
                                       int32_t use, rl_plan** out, rl_error** err);

/* From now on rl_buffer_save, rl_buffer_load and buffer.store_path of this buffer use the files of
 * a runtime, which lives as long as the buffer uses it. runtime may be NULL: then those of the
 * operating system, as in a new buffer. Thread: any. */
RL_API rl_status rl_buffer_set_runtime(rl_buffer* buffer, const rl_runtime* runtime,
                                       rl_error** err);

/* What a buffer file says of itself, read through the files of a runtime; the codes are those of
 * rl_buffer_get_file_info. Thread: any. */
RL_API rl_status rl_buffer_get_hosted_file_info(const rl_runtime* runtime, const char* path,
                                                size_t path_len, rl_buffer_file_info* info,
                                                rl_error** err);

/* Two clocks at one moment. All times of librl (samples, events, the log, spans) are nanoseconds of
 * the first, CLOCK_MONOTONIC of Linux, which never goes back and is the same in all processes of a
 * machine. Time t of it is unix_ns + (t - steady_ns) since 1970. */
typedef struct rl_clock {
  size_t struct_size;
  int64_t steady_ns; /* of a clock that is never set, as all times of librl */
  int64_t unix_ns;   /* since 1970-01-01 00:00 UTC */
} rl_clock;

/* Initialises an rl_clock: zeroes the `size` bytes of *clock and sets struct_size. NULL or a size
 * too small has no effect. Thread: any; callback-safe. */
RL_API void rl_clock_init(rl_clock* clock, size_t size);

/* Reads both clocks of a runtime. Thread: any; callback-safe. */
RL_API rl_status rl_runtime_get_clock(const rl_runtime* runtime, rl_clock* clock, rl_error** err);

/* Work of the host, such as computing a reward, for the trace. */
typedef struct rl_span {
  size_t struct_size;
  const char* lane; /* row of the trace, such as "judges"; not empty */
  size_t lane_len;
  const char* name; /* what was done; not empty */
  size_t name_len;
  int64_t start_ns;     /* by the clock of rl_clock.steady_ns, at least 0 */
  int64_t end_ns;       /* from start_ns to 2^62 */
  const char* arg_name; /* what arg_value is, such as "samples"; may be empty */
  size_t arg_name_len;
  int64_t arg_value; /* not read without arg_name */
} rl_span;

/* Initialises an rl_span: zeroes the `size` bytes of *span and sets struct_size, and lane_len,
 * name_len and arg_name_len RL_NUL_TERMINATED. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_span_init(rl_span* span, size_t size);

/* Adds a span to what a profiler of the runtime, or profiler.timeline.enable, records now; without
 * effect while nothing is recorded. It is shown in traces, summaries and reports like those of
 * librl, on a lane of the host's. Its names are kept until the runtime ends:
 * RL_RESOURCE_EXHAUSTED with more than 4,096 different ones. Trace viewers expect that of two spans
 * of a lane one lies within the other or after it. RL_INVALID_ARGUMENT names an empty lane or name
 * and a time out of its range. Thread: any; callback-safe. */
RL_API rl_status rl_runtime_trace_span(rl_runtime* runtime, const rl_span* span, rl_error** err);

#ifdef __cplusplus
}
#endif

#endif
