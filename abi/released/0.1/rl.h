/* rl.h: the C interface of librl, reinforcement-learning post-training of language models.
 *
 * Everything librl offers is declared here; there is no other header. The file compiles alone as
 * C99 and as C++11. Version 0: until 1.0 a release may break the interface, and then its soname
 * changes (see rl_abi_version).
 *
 * Reading order: conventions (below), status codes, errors and bytes, options, runtime, plan,
 * model, samples, events, pipeline, then the parts (batch, engine, buffer, trainer) and profiler.
 * A host that lets librl drive the loop needs no parts, one with a loop of its own no pipeline:
 *
 *   options -> runtime -> model -> pipeline                      librl's loop, the host scores
 *   options -> runtime -> model -> engine -> buffer -> trainer   the host's own loop
 *
 * CONVENTIONS
 *
 * Handles. Every rl_xxx* is a token, not an address: never dereference it or order by it. NULL, a
 * handle that was destroyed, and a handle of another kind are errors (RL_INVALID_ARGUMENT,
 * RL_STALE_HANDLE, RL_WRONG_HANDLE), never undefined behaviour. xxx_destroy ends an exclusive
 * object, xxx_release gives back a shared one; both take NULL and stale handles without effect and
 * never fail. Objects keep alive what they were made from, so handles may end in any order.
 *
 * Status. Functions that can fail return rl_status and take `rl_error **err` last. err may be NULL.
 * Else *err is written on every call: NULL unless the function failed, and then a record that the
 * caller releases with rl_error_release. RL_TIMEOUT, RL_DONE and RL_INTERRUPTED are results, not
 * failures: they leave *err NULL. Treat a code unknown to you as a failure.
 *
 * Outs. Result parameters come before err and may not be NULL. Whenever the status is not RL_OK
 * they are zero or NULL, and so is a result struct but its struct_size. A handle that a result
 * parameter gave is the caller's to end.
 *
 * Text. Strings are UTF-8, given as pointer and length and copied. The length RL_NUL_TERMINATED
 * means that the text ends with NUL. A NULL pointer is valid with length 0. Text that librl returns
 * is NUL-terminated as well as counted; its comment names the owner, with which it ends.
 *
 * Numbers. Sizes are bytes, times are nanoseconds. Truth values are uint32_t 0 or 1; any other
 * value is an error, as are flag bits that a function does not know. A timeout of 0 polls, a
 * negative one waits for ever.
 *
 * Pointers. A pointer parameter may be NULL where its comment says so, and user_data always; else
 * NULL is RL_INVALID_ARGUMENT naming the parameter. Functions without a status have a neutral
 * result.
 *
 * Structs. Each begins with struct_size. rl_xxx_init fills one with its defaults; pass it sizeof
 * your struct. A struct smaller than the first release's is RL_INVALID_ARGUMENT. librl fills as
 * much of a result struct as the caller has, and zeroes what it does not know itself; an input
 * struct must have zeros there, else RL_UNSUPPORTED. No byte beyond struct_size is read or
 * written. Reserved fields are zero.
 *
 * Threads. Each function states who may call it. "any": every thread, also several at once on one
 * handle; calls that change one object take turns. "callback-safe": also from inside the log
 * callback and functions of rl_advantage_fn and rl_loss_fn. There every other function is
 * RL_WRONG_THREAD, and destroying is without effect. librl blocks every signal in its own threads
 * and installs no handler.
 *
 * Callbacks. (fn, user_data, destroy): destroy, which may be NULL, is called exactly once with
 * user_data, also when the call that took it failed. It may call every function. A callback must
 * return; no exception and no longjmp may leave it.
 *
 * Fork. In a child of a process that has used librl every call that can fail is RL_FORKED,
 * destroying is without effect, and functions without a status answer as for a dead handle. The
 * parent goes on undisturbed. The child is recognised by a page that the kernel wipes on fork;
 * before Linux 4.14 by its process id, at a system call for each call. Start processes with spawn,
 * or fork before the first call.
 *
 * Side effects. librl never prints, aborts, exits, reads the environment or changes the locale. It
 * opens no files but those named by options and arguments, and no network connections.
 *
 * Numerics. A token's log-prob does not depend on batch, packing, prefill chunks or the number of
 * threads, and the one stored at sampling equals the trainer's bit for bit while the weights are
 * the same.
 */
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

/* Version of this header: major << 16 | minor. A library serves a header of its own major version
 * and the same or a smaller minor version. */
#define RL_ABI_MAJOR 0
#define RL_ABI_MINOR 1
#define RL_ABI_VERSION (((uint32_t)RL_ABI_MAJOR << 16) | (uint32_t)RL_ABI_MINOR)

/* As a length: the text ends with NUL. */
#define RL_NUL_TERMINATED SIZE_MAX

/* Every RL_ integer constant of this header is also known to rl_constant by name, for hosts that
 * cannot read headers. Numbers are never reused. */

typedef int32_t rl_status;
enum {
  /* Results. */
  RL_OK = 0,          /* done */
  RL_TIMEOUT = 1,     /* nothing came within the time given */
  RL_DONE = 2,        /* nothing will come any more; sticky */
  RL_INTERRUPTED = 3, /* rl_pipeline_interrupt or rl_engine_pause ended the call */
  /* Failures. */
  RL_INVALID_ARGUMENT = 16,    /* NULL, malformed text, a struct too small, unknown flags */
  RL_OUT_OF_RANGE = 17,        /* a value outside its range; nothing is ever clamped */
  RL_NOT_FOUND = 18,           /* no such file, sample, name */
  RL_ALREADY_EXISTS = 19,      /* a file or directory is there and replacing it was not asked for */
  RL_FAILED_PRECONDITION = 20, /* the object is in a state in which this cannot be done */
  RL_RESOURCE_EXHAUSTED = 21,  /* a budget or a limit of librl is too small */
  RL_OUT_OF_MEMORY = 22,       /* the system gave no memory */
  RL_UNSUPPORTED = 23,         /* known, but not something that librl does */
  RL_BUSY = 24,                /* another call holds what this one needs; try again later */
  RL_CANCELLED = 25,           /* ended by the host's own request */
  RL_INTERNAL = 26,            /* a defect of librl; the handle can only be destroyed from now on */
  RL_DATA_LOSS = 27,           /* a file is damaged, truncated or not what its header says */
  RL_IO = 28,                  /* the system failed to read or write; see rl_error_system_code */
  RL_STALE_HANDLE = 29,        /* the handle was destroyed or never issued */
  RL_WRONG_HANDLE = 30,        /* a handle of another kind */
  RL_WRONG_THREAD = 31,        /* not allowed on this thread or inside a callback */
  RL_INCOMPATIBLE = 32,        /* header and library, or checkpoint and configuration, do not fit */
  RL_FORKED = 33,              /* the handle belongs to the parent process */
  RL_UNKNOWN_OPTION = 40,      /* no option has this key; see rl_error_nearest */
  RL_WRONG_TYPE = 41,          /* the option has another type; nothing is converted */
  RL_NOT_IN_BUILD = 42,        /* this build of the library lacks it */
  RL_NOT_CHANGEABLE = 43,      /* the option cannot change at this moment */
  RL_CONFLICT = 44,            /* options contradict one another */
  RL_LATE = 50,                /* the sample's group was dropped before its score came */
  RL_DUPLICATE = 51,           /* scored or put before */
  RL_NON_FINITE = 52           /* NaN or an infinity where a number is needed */
};

/* Handles. */
typedef struct rl_error rl_error;       /* what went wrong; rl_error_release */
typedef struct rl_bytes rl_bytes;       /* bytes made by librl; rl_bytes_release */
typedef struct rl_options rl_options;   /* a value for every option; rl_options_destroy */
typedef struct rl_runtime rl_runtime;   /* threads, budget, log; rl_runtime_destroy */
typedef struct rl_plan rl_plan;         /* memory of a run, before it; rl_plan_release */
typedef struct rl_model rl_model;       /* weights and tokenizer; rl_model_destroy */
typedef struct rl_pipeline rl_pipeline; /* the training loop; rl_pipeline_destroy */
typedef struct rl_event rl_event;       /* what a pipeline or trainer tells; rl_event_release */
typedef struct rl_event_queue rl_event_queue; /* where events wait; rl_event_queue_release */
typedef struct rl_batch rl_batch;             /* a list of samples; rl_batch_release */
typedef struct rl_engine rl_engine;           /* draws samples; rl_engine_destroy */
typedef struct rl_buffer rl_buffer;     /* scored samples gather to groups; rl_buffer_destroy */
typedef struct rl_trainer rl_trainer;   /* optimizer steps; rl_trainer_destroy */
typedef struct rl_profiler rl_profiler; /* records a trace; rl_profiler_destroy */
typedef struct rl_conversation rl_conversation; /* several turns; rl_conversation_destroy */

/* ---- library ---- */

/* The library's version, packed as RL_ABI_VERSION. Thread: any; callback-safe. */
RL_API uint32_t rl_abi_version(void);

/* The library's release, such as "0.1.0". Owner: the library. Thread: any; callback-safe. */
RL_API const char* rl_version_string(void);

/* How the library was built, as lines "name=value": version, abi, compiler, language,
 * build_type, sanitized. Thread: any. */
RL_API rl_status rl_build_info(rl_bytes** out, rl_error** err);

/* Whether a feature works in this build on this machine. *available is 1 or 0. *reason says why not
 * and is empty when it does; owner: the library. An unknown name is RL_NOT_FOUND. rl_feature_name
 * lists the names. Thread: any. */
RL_API rl_status rl_feature(const char* name, size_t name_len, uint32_t* available,
                            const char** reason, rl_error** err);

/* The name of feature `index`, counted from 0; NULL beyond the last. Owner: the library. Thread:
 * any; callback-safe. */
RL_API const char* rl_feature_name(size_t index);

/* The name of a status, such as "RL_OUT_OF_RANGE"; "RL_UNKNOWN_CODE" for any other number. Owner:
 * the library. Thread: any; callback-safe. */
RL_API const char* rl_status_name(rl_status status);

/* The value of an integer constant of this header by name, such as "RL_EVENT_SCORE". RL_NOT_FOUND
 * when there is none. Thread: any. */
RL_API rl_status rl_constant(const char* name, size_t name_len, int64_t* value, rl_error** err);

/* ---- bytes ---- */

/* The first byte; NULL for a handle that is not live. One NUL byte follows the last one. The
 * address is fit for any element type. Owner: the handle. Thread: any; callback-safe. */
RL_API const void* rl_bytes_data(const rl_bytes* bytes);

/* Number of bytes, the final NUL not counted; 0 for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API size_t rl_bytes_size(const rl_bytes* bytes);

/* Ends the handle and what rl_bytes_data returned. Thread: any; callback-safe. */
RL_API void rl_bytes_release(rl_bytes* bytes);

/* ---- errors ---- */

/* Which text of an error. Each may be empty but the message. */
enum {
  RL_ERROR_MESSAGE = 1,  /* one sentence that names the thing, the limit and the value seen */
  RL_ERROR_KEY = 2,      /* option key, parameter or tensor concerned */
  RL_ERROR_EXPECTED = 3, /* type, range or choices that would have been right */
  RL_ERROR_LOCATION = 4, /* file and byte offset, line and column, or JSON pointer */
  RL_ERROR_SUMMARY = 5,  /* all of it with status name, nearest names and causes, for a log */
  RL_ERROR_OTHER_KEY = 6 /* the second option of a conflict */
};

/* The failure's status; RL_OK for NULL, RL_STALE_HANDLE for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API rl_status rl_error_code(const rl_error* error);

/* One of the texts and, in *len, its length; len may be NULL. An empty text for NULL, a handle
 * that is not live and an unknown field; never NULL. Owner: the error. Thread: any; callback-safe.
 */
RL_API const char* rl_error_text(const rl_error* error, int32_t field, size_t* len);

/* Valid names near an unknown one, nearest first: `index` counts from 0, NULL beyond the last.
 * Owner: the error. Thread: any; callback-safe. */
RL_API const char* rl_error_nearest(const rl_error* error, size_t index);

/* errno or the code of a backend; 0 when none is involved. Thread: any; callback-safe. */
RL_API int32_t rl_error_system_code(const rl_error* error);

/* The error that led to this one, as a handle of its own that the caller releases; NULL when there
 * is none. Thread: any; callback-safe. */
RL_API rl_error* rl_error_cause(const rl_error* error);

/* An error that reports several at once, as checks of options do, has each of them as a part: a
 * handle of its own that the caller releases. `index` counts from 0; NULL beyond the last, and for
 * an error that stands for itself alone. Thread: any; callback-safe. */
RL_API rl_error* rl_error_part(const rl_error* error, size_t index);

/* Ends the handle and its texts. Thread: any; callback-safe. */
RL_API void rl_error_release(rl_error* error);

/* ---- options ---- */

/* Configuration happens through options alone: a set holds one value for each option that the
 * library knows, "engine.block_size" and so on; docs/options.md lists them and rl_option_at
 * enumerates them. Setters check key, type and range at once: an unknown key is RL_UNKNOWN_OPTION
 * with the nearest keys, a value of another type RL_WRONG_TYPE, one outside the range
 * RL_OUT_OF_RANGE with the range. Objects copy the set they are created with. */

/* Types of options. */
enum {
  RL_OPTION_BOOL = 1,
  RL_OPTION_I64 = 2,
  RL_OPTION_U64 = 3,
  RL_OPTION_F64 = 4,
  RL_OPTION_STRING = 5,
  RL_OPTION_ENUM = 6,        /* a string out of choices */
  RL_OPTION_DURATION_NS = 7, /* an i64 */
  RL_OPTION_BYTES = 8,       /* a u64 */
  RL_OPTION_STRING_LIST = 9,
  RL_OPTION_I64_LIST = 10
};

/* When the value may change. */
enum {
  RL_WHEN_CREATE = 1,        /* fixed when the object is made */
  RL_WHEN_BETWEEN_STEPS = 2, /* rl_pipeline_set_options */
  RL_WHEN_ANY_TIME = 3
};

/* Flags of rl_option_info. */
#define RL_OPTION_HAS_MIN UINT64_C(1)  /* min_* of the option's type holds */
#define RL_OPTION_MIN_OPEN UINT64_C(2) /* the bound itself is not valid */
#define RL_OPTION_HAS_MAX UINT64_C(4)
#define RL_OPTION_MAX_OPEN UINT64_C(8)
#define RL_OPTION_POWER_OF_TWO UINT64_C(16) /* only powers of two are valid */
#define RL_OPTION_DETERMINISM UINT64_C(32)  /* the bits of a run depend on it */
#define RL_OPTION_NEEDS_GPU UINT64_C(64)
#define RL_OPTION_NOT_EMPTY UINT64_C(128) /* an empty text is not valid */

/* A row of the option table. Owner of all texts: the library. */
typedef struct rl_option_info {
  size_t struct_size;
  const char* key;
  const char* default_text; /* as rl_options_set_text reads it */
  const char* unit;         /* of one unit of a number; empty when it has none */
  const char* doc;
  const char* since;              /* release that introduced it */
  const char* source;             /* where its meaning comes from */
  const char* unsupported_reason; /* not empty: only the default is accepted, for this reason */
  int32_t type;                   /* RL_OPTION_BOOL ... */
  int32_t when;                   /* RL_WHEN_CREATE ... */
  uint64_t flags;                 /* RL_OPTION_HAS_MIN ... */
  int64_t min_i64, max_i64;  /* bounds of I64 and DURATION_NS, and of each element of I64_LIST */
  uint64_t min_u64, max_u64; /* of U64 and BYTES */
  double min_f64, max_f64;   /* of F64 */
  size_t num_choices;        /* of ENUM; rl_option_choice names them */
} rl_option_info;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_option_info_init(rl_option_info* info, size_t size);

/* Number of options. Thread: any; callback-safe. */
RL_API size_t rl_option_count(void);

/* Option `index` in key order, counted from 0; RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_option_at(size_t index, rl_option_info* info, rl_error** err);

/* The option with this key, else RL_UNKNOWN_OPTION with the nearest keys. Thread: any. */
RL_API rl_status rl_option_find(const char* key, size_t key_len, rl_option_info* info,
                                rl_error** err);

/* Choice `index` of an enum option: the value and what it means. RL_OUT_OF_RANGE beyond
 * num_choices. Owner of both texts: the library. Thread: any. */
RL_API rl_status rl_option_choice(const char* key, size_t key_len, size_t index, const char** name,
                                  const char** doc, rl_error** err);

/* A set with every option at its default. Thread: any. */
RL_API rl_status rl_options_create(rl_options** out, rl_error** err);

/* An independent copy. Thread: any. */
RL_API rl_status rl_options_clone(const rl_options* options, rl_options** out, rl_error** err);

/* Ends the set. Objects made from it are not concerned. Thread: any. */
RL_API void rl_options_destroy(rl_options* options);

/* Typed setters. Integer options (I64, U64, DURATION_NS, BYTES) take either integer setter as long
 * as the value fits; set_string also takes ENUM. Nothing else is converted. Thread: any. */
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

/* A value of any type from text, for command lines and files: "true", "12", "3e-6", "30s", "2GiB",
 * "a,b,c" (list elements are separated by commas; "\," is a comma inside one). Thread: any. */
RL_API rl_status rl_options_set_text(rl_options* options, const char* key, size_t key_len,
                                     const char* text, size_t text_len, rl_error** err);

/* The same from one text "key=value", as command lines have it. Thread: any. */
RL_API rl_status rl_options_set_assignment(rl_options* options, const char* text, size_t text_len,
                                           rl_error** err);

/* Typed getters. get_i64 and get_u64 read any integer option whose value fits; get_string also
 * reads ENUM. Thread: any. */
RL_API rl_status rl_options_get_bool(const rl_options* options, const char* key, size_t key_len,
                                     uint32_t* out, rl_error** err);
RL_API rl_status rl_options_get_i64(const rl_options* options, const char* key, size_t key_len,
                                    int64_t* out, rl_error** err);
RL_API rl_status rl_options_get_u64(const rl_options* options, const char* key, size_t key_len,
                                    uint64_t* out, rl_error** err);
RL_API rl_status rl_options_get_f64(const rl_options* options, const char* key, size_t key_len,
                                    double* out, rl_error** err);
RL_API rl_status rl_options_get_string(const rl_options* options, const char* key, size_t key_len,
                                       rl_bytes** out, rl_error** err);

/* Elements of a list option, and one of them; RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_options_get_list_size(const rl_options* options, const char* key,
                                          size_t key_len, size_t* out, rl_error** err);
RL_API rl_status rl_options_get_list_string(const rl_options* options, const char* key,
                                            size_t key_len, size_t index, rl_bytes** out,
                                            rl_error** err);
RL_API rl_status rl_options_get_list_i64(const rl_options* options, const char* key, size_t key_len,
                                         size_t index, int64_t* out, rl_error** err);

/* A value of any type as the text that rl_options_set_text reads back to the same value. Thread:
 * any. */
RL_API rl_status rl_options_get_text(const rl_options* options, const char* key, size_t key_len,
                                     rl_bytes** out, rl_error** err);

/* Whether the value equals the default. Thread: any. */
RL_API rl_status rl_options_is_default(const rl_options* options, const char* key, size_t key_len,
                                       uint32_t* out, rl_error** err);

/* Back to the default. Thread: any. */
RL_API rl_status rl_options_unset(rl_options* options, const char* key, size_t key_len,
                                  rl_error** err);

/* From now on every change of this set is RL_NOT_CHANGEABLE naming the key. Clones are not frozen.
 * Thread: any. */
RL_API rl_status rl_options_freeze(rl_options* options, rl_error** err);
RL_API rl_status rl_options_is_frozen(const rl_options* options, uint32_t* out, rl_error** err);

/* Sets all values of a preset, or none. RL_NOT_FOUND with the nearest names for an unknown one.
 * Thread: any. */
RL_API rl_status rl_options_apply_preset(rl_options* options, const char* name, size_t name_len,
                                         rl_error** err);

/* Number of presets. Thread: any; callback-safe. */
RL_API size_t rl_preset_count(void);

/* Preset `index` in name order, what it is for and how many settings it has; RL_OUT_OF_RANGE beyond
 * the last. Owner of the texts: the library. Thread: any. */
RL_API rl_status rl_preset_at(size_t index, const char** name, const char** doc,
                              size_t* num_settings, rl_error** err);

/* Setting `index` of a preset in key order, the value as rl_options_set_text reads it. Owner of the
 * texts: the library. Thread: any. */
RL_API rl_status rl_preset_setting(const char* name, size_t name_len, size_t index,
                                   const char** key, const char** value, rl_error** err);

/* Checks combinations of options, which setters cannot see. RL_CONFLICT names both options of each;
 * several violations are the parts of one error (rl_error_part). Creating an object checks the same
 * and what depends on runtime, model and plan, and reports all of it at once. Thread: any. */
RL_API rl_status rl_options_validate(const rl_options* options, rl_error** err);

/* Lines "key=value" in key order: all options, or with only_changed 1 those that differ from their
 * default. Thread: any. */
RL_API rl_status rl_options_dump(const rl_options* options, uint32_t only_changed, rl_bytes** out,
                                 rl_error** err);

/* Lines "key=value" for the options in which the sets differ, with the values of `other`, as
 * rl_options_set_assignment takes them. Empty for equal sets. Thread: any. */
RL_API rl_status rl_options_diff(const rl_options* options, const rl_options* other, rl_bytes** out,
                                 rl_error** err);

/* The set as a JSON document, {"library_version": "...", "options": {KEY: VALUE, ...}}, or as a
 * FlatBuffers document (abi/schemas/options.fbs): all options, or with only_changed 1 those that
 * differ from their default. Durations are nanoseconds, sizes bytes, enums texts, lists arrays.
 * Equal sets give equal bytes. Thread: any. */
RL_API rl_status rl_options_export_json(const rl_options* options, uint32_t only_changed,
                                        rl_bytes** out, rl_error** err);
RL_API rl_status rl_options_export_flatbuffer(const rl_options* options, uint32_t only_changed,
                                              rl_bytes** out, rl_error** err);

/* Takes the values of such a document over into the set; options that it does not name keep theirs.
 * All or nothing: every violation (unknown key with the nearest, type, range, key given twice) is a
 * part of the error, located by JSON pointer or as options[INDEX], and the set is as before. What
 * is no such document is RL_DATA_LOSS, as are more than 1,024 options in a FlatBuffers document;
 * otherwise those and more than 16 MiB are RL_RESOURCE_EXHAUSTED. Combinations are checked when an
 * object is created. Thread: any. */
RL_API rl_status rl_options_import_json(rl_options* options, const char* text, size_t text_len,
                                        rl_error** err);
RL_API rl_status rl_options_import_flatbuffer(rl_options* options, const void* data, size_t size,
                                              rl_error** err);

/* A digest of all values, the same however the set was filled. Thread: any. */
RL_API rl_status rl_options_hash(const rl_options* options, uint64_t* out, rl_error** err);

/* A digest of the options on which the bits of a run depend: equal sets give equal runs on one
 * build and machine. Thread: any. */
RL_API rl_status rl_options_identity(const rl_options* options, uint64_t* out, rl_error** err);

/* ---- runtime ---- */

/* A runtime owns the compute threads, the memory budget and the log of all objects made from it.
 * One object computes at a time; a call that would compute beside another one is RL_BUSY and names
 * both. */

/* Levels of the log, least important last. */
enum { RL_LOG_OFF = 0, RL_LOG_ERROR = 1, RL_LOG_WARN = 2, RL_LOG_INFO = 3, RL_LOG_DEBUG = 4 };

/* A line of the log: level RL_LOG_ERROR ..., the component that speaks ("engine") and the message.
 * Texts end with the call. Called on any thread, never on two at once. */
typedef void (*rl_log_fn)(void* user_data, int32_t level, const char* component,
                          size_t component_len, const char* message, size_t message_len);

/* Ends what user_data stands for. Called exactly once, on the thread that drops the callback. */
typedef void (*rl_destroy_fn)(void* user_data);

/* header_abi is RL_ABI_VERSION; a library that cannot serve it is RL_INCOMPATIBLE with both
 * numbers. Reads runtime.* and model.dtype and checks the whole set. options may be NULL: then all
 * defaults hold. Starts threads, reads no files. Thread: any. */
RL_API rl_status rl_runtime_create(uint32_t header_abi, const rl_options* options, rl_runtime** out,
                                   rl_error** err);

/* Ends the handle. The runtime itself ends with the last object made from it. Thread: any. */
RL_API void rl_runtime_destroy(rl_runtime* runtime);

/* Sets the one sink of the log. fn may be NULL: that silences it, as it is at first.
 * runtime.log_level says how much comes. user_data is consumed, also on failure. When this returns,
 * the previous sink is not called any more. Thread: any. */
RL_API rl_status rl_runtime_set_log(rl_runtime* runtime, rl_log_fn fn, void* user_data,
                                    rl_destroy_fn destroy, rl_error** err);

/* Number of compute threads, the caller's own counted. Thread: any. */
RL_API rl_status rl_runtime_threads(const rl_runtime* runtime, int64_t* out, rl_error** err);

/* Bytes that all arenas of the process hold now: what rl_plan_info calls arena_bytes. Thread: any.
 */
RL_API rl_status rl_runtime_reserved_bytes(const rl_runtime* runtime, uint64_t* out,
                                           rl_error** err);

/* ---- plan ---- */

/* The memory of a run before anything of it is allocated, from options and the header of model.path
 * alone. */

/* What the memory is for. */
enum {
  RL_USE_MODEL = 1,    /* a model: its text functions */
  RL_USE_GENERATE = 2, /* and an engine */
  RL_USE_TRAIN = 3,    /* and a trainer */
  RL_USE_PIPELINE = 4  /* engine and trainer that share their working memory */
};

/* Element types. */
enum { RL_DTYPE_F32 = 0, RL_DTYPE_BF16 = 1 };

typedef struct rl_plan_info {
  size_t struct_size;
  uint64_t total_bytes; /* arena_bytes + baseline_bytes: what runtime.memory_budget_bytes bounds */
  uint64_t arena_bytes; /* all arenas, exact */
  uint64_t baseline_bytes; /* estimate of what the process holds beside them */
  uint64_t budget_bytes;   /* 0: no limit */
  int64_t max_model_len;   /* tokens of the longest sequence */
  int64_t max_tokens;      /* rows of a training micro-batch; 0 without a trainer */
  int64_t kv_blocks;       /* blocks of the KV pool of each engine; 0 without one */
  int64_t threads;
  int32_t dtype; /* of the matrix products, RL_DTYPE_F32 or RL_DTYPE_BF16 */
  int32_t reserved;
} rl_plan_info;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_plan_info_init(rl_plan_info* info, size_t size);

/* Kinds of plan items. */
enum {
  RL_PLAN_ARENA = 1, /* arenas add up to arena_bytes */
  RL_PLAN_PART = 2   /* a part of the arena that rollout and training share */
};

typedef struct rl_plan_item {
  size_t struct_size;
  const char* name;  /* owner: the plan */
  const char* phase; /* when the bytes are in use: "always", "rollout", "train", "critic" or
                        "reward"; owner: the plan */
  uint64_t bytes;
  int32_t kind; /* RL_PLAN_ARENA or RL_PLAN_PART */
  int32_t reserved;
} rl_plan_item;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_plan_item_init(rl_plan_item* item, size_t size);

/* Plans model.path of the options for a use. A budget that even the least plan exceeds is
 * RL_RESOURCE_EXHAUSTED; its text names the phase, the bytes and the options to turn with what each
 * saves. Thread: any. */
RL_API rl_status rl_plan_create(const rl_options* options, int32_t use, rl_plan** out,
                                rl_error** err);

/* Ends the handle and the texts of its items. Thread: any; callback-safe. */
RL_API void rl_plan_release(rl_plan* plan);

/* Totals and the sizes that the plan chose. Thread: any. */
RL_API rl_status rl_plan_get_info(const rl_plan* plan, rl_plan_info* info, rl_error** err);

/* Item `index`, arenas first, counted from 0; RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_plan_at(const rl_plan* plan, size_t index, rl_plan_item* item, rl_error** err);

/* Number of items; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_plan_count(const rl_plan* plan);

/* The plan as a table for people. Thread: any. */
RL_API rl_status rl_plan_text(const rl_plan* plan, rl_bytes** out, rl_error** err);

/* ---- model ---- */

/* Weights, tokenizer and chat format. Engines, trainers and pipelines made from a model share it.
 */

typedef struct rl_model_info {
  size_t struct_size;
  const char* family; /* "llama", "qwen2", "qwen3", "mistral" or "gemma3"; owner: the library */
  int64_t vocab;      /* rows of the embedding */
  int64_t hidden;
  int64_t layers;
  int64_t heads; /* query heads */
  int64_t kv_heads;
  int64_t head_dim;
  int64_t ffn;
  int64_t max_position; /* longest sequence of the model's configuration, tokens */
  int64_t bos_id;       /* -1 when there is none */
  int64_t pad_id;       /* -1 when there is none */
  uint64_t num_eos_ids; /* rl_model_eos_ids */
  int32_t dtype;        /* of the matrix products, RL_DTYPE_F32 or RL_DTYPE_BF16 */
  uint32_t has_tokenizer;
  uint32_t tied_head; /* the head shares the embedding's weights */
  uint32_t reserved;
} rl_model_info;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_model_info_init(rl_model_info* info, size_t size);

/* Flags of the text functions. ADD_SPECIAL: encode adds what the tokenizer puts around a text, such
 * as bos. ALLOW_SPECIAL: special tokens written in the text become their ids. SKIP_SPECIAL: decode
 * leaves special tokens out. GENERATION_PROMPT: a chat ends with the start of an assistant turn. */
#define RL_TEXT_ADD_SPECIAL UINT64_C(1)
#define RL_TEXT_ALLOW_SPECIAL UINT64_C(2)
#define RL_TEXT_SKIP_SPECIAL UINT64_C(4)
#define RL_TEXT_GENERATION_PROMPT UINT64_C(8)

/* Flag of rl_model_save: an existing directory is replaced. */
#define RL_SAVE_REPLACE UINT64_C(1)

/* Opens model.path: a Hugging Face directory of a family that rl_model_info names (SmolLM2 is a
 * llama), or a GGUF file of a llama or qwen2. options may be NULL: those of the runtime. The plan
 * of `use` is checked against the budget before weights are read. A broken file is RL_DATA_LOSS
 * with file, offset and tensor; another family, or a setting that is not followed, RL_UNSUPPORTED
 * with what is. Thread: any. */
RL_API rl_status rl_model_open(rl_runtime* runtime, const rl_options* options, int32_t use,
                               rl_model** out, rl_error** err);

/* Ends the handle. The model itself ends with the last object made from it. Thread: any. */
RL_API void rl_model_destroy(rl_model* model);

/* Writes a Hugging Face directory that transformers opens: configuration, weights in dtype
 * (RL_DTYPE_F32 or RL_DTYPE_BF16), tokenizer. It appears complete by one rename or not at all. An
 * existing one is RL_ALREADY_EXISTS without RL_SAVE_REPLACE. RL_BUSY while the weights are being
 * trained. Thread: any. */
RL_API rl_status rl_model_save(const rl_model* model, const char* dir, size_t dir_len,
                               int32_t dtype, uint64_t flags, rl_error** err);

/* Text to token ids: *ids holds int32_t, rl_bytes_size / 4 of them. Flags: RL_TEXT_ADD_SPECIAL,
 * RL_TEXT_ALLOW_SPECIAL. RL_FAILED_PRECONDITION when the model came without a tokenizer. Thread:
 * any. */
RL_API rl_status rl_model_encode(const rl_model* model, const char* text, size_t text_len,
                                 uint64_t flags, rl_bytes** ids, rl_error** err);

/* Token ids to text; broken UTF-8 becomes U+FFFD. Flags: RL_TEXT_SKIP_SPECIAL. RL_OUT_OF_RANGE
 * names an id without a token. Thread: any. */
RL_API rl_status rl_model_decode(const rl_model* model, const int32_t* ids, size_t num_ids,
                                 uint64_t flags, rl_bytes** text, rl_error** err);

/* Chat templates. A model's own chat template, Jinja text of its directory or file, or the one at
 * model.chat_template_path in its place, is run as transformers runs it, by an interpreter that
 * reaches nothing but the chat and is bounded in steps, depth and size (RL_RESOURCE_EXHAUSTED names
 * the bound). A construct, filter, test or method that it does not have is RL_UNSUPPORTED with its
 * name, line and column; raise_exception of the template is RL_INVALID_ARGUMENT with the template's
 * text; a model without a template is RL_FAILED_PRECONDITION.
 *
 * A special token becomes its id where the template wrote it. Where a message, a tool or a variable
 * spells one, it stays text, so a chat cannot forge a turn; transformers instead parses it. To have
 * that, render the chat and encode the text with RL_TEXT_ALLOW_SPECIAL. Without such input both
 * give the same ids. */

/* A chat to token ids in the model's chat format: message i has role roles[i] ("system", "user",
 * "assistant") and text contents[i]. role_lens and content_lens may be NULL: then every text ends
 * with NUL. Flags: RL_TEXT_GENERATION_PROMPT. Thread: any. */
RL_API rl_status rl_model_encode_chat(const rl_model* model, const char* const* roles,
                                      const size_t* role_lens, const char* const* contents,
                                      const size_t* content_lens, size_t num_messages,
                                      uint64_t flags, rl_bytes** ids, rl_error** err);

/* The same for a chat given as one JSON object, as the rows of a data file have it:
 *   "messages"              list of {"role", "content", ...}; content is a text or a list of parts,
 *                           and null or absent with "tool_calls"; other members are passed on
 *   "tools"                 optional: list of tool descriptions
 *   "chat_template_kwargs"  optional: object of further variables, such as enable_thinking
 *   "chat_template"         optional: name of one of the model's templates; without it the one
 *                           named "tool_use" when there are tools, else "default"
 * Members keep their order where a template prints them. The variable strftime_now, a date
 * "YYYY-MM-DD" or "YYYY-MM-DDTHH:MM:SS", is the present for the function of that name, which is
 * undefined without it. Another member or a wrong type is RL_DATA_LOSS with the place. Flags:
 * RL_TEXT_GENERATION_PROMPT. Thread: any. */
RL_API rl_status rl_model_encode_chat_json(const rl_model* model, const char* chat, size_t chat_len,
                                           uint64_t flags, rl_bytes** ids, rl_error** err);

/* The text of such a chat. It needs no tokenizer. Flags: RL_TEXT_GENERATION_PROMPT. Thread: any. */
RL_API rl_status rl_model_render_chat(const rl_model* model, const char* chat, size_t chat_len,
                                      uint64_t flags, rl_bytes** text, rl_error** err);

/* Shape and abilities. Thread: any. */
RL_API rl_status rl_model_get_info(const rl_model* model, rl_model_info* info, rl_error** err);

/* Ids that end an answer, int32_t each: the model's own, then those that end an assistant turn.
 * Thread: any. */
RL_API rl_status rl_model_eos_ids(const rl_model* model, rl_bytes** ids, rl_error** err);

/* The version of the weights: 0 as loaded, one more with each publication. Thread: any. */
RL_API rl_status rl_model_version(const rl_model* model, uint64_t* out, rl_error** err);

/* A digest of all fp32 parameters: equal weights give equal digests. RL_BUSY while they are being
 * trained. Thread: any. */
RL_API rl_status rl_model_digest(const rl_model* model, uint64_t* out, rl_error** err);

/* ---- samples ---- */

/* What a sample is for. */
enum { RL_PURPOSE_TRAIN = 0, RL_PURPOSE_EVAL = 1 };

/* Why generation ended. */
enum {
  RL_FINISH_NONE = 0,
  RL_FINISH_STOP_TOKEN = 1,
  RL_FINISH_STOP_STRING = 2,
  RL_FINISH_LENGTH = 3, /* max_new_tokens */
  RL_FINISH_ABORTED = 4
};

/* A sample: a prompt and the tokens generated after it. With P = num_prompt and G = num_ids -
 * num_prompt, ids is [P + G] and every per-token array is [G]: entry i belongs to ids[P + i]. As a
 * result, the owner of all pointers is the event or batch it was asked of. As an input everything
 * is copied, and arrays marked optional may be NULL. */
typedef struct rl_sample_view {
  size_t struct_size;
  uint64_t sample_id; /* unique in a run: what rl_pipeline_score takes */
  uint64_t ordinal;   /* of the group: n-th prompt drawn in the run, or the number of the request */
  uint32_t slot;      /* member of its group, from 0 */
  uint32_t attempt;
  int64_t data_row; /* of the data file or the feed; -1 for none */
  int32_t purpose;  /* RL_PURPOSE_TRAIN ... */
  int32_t finish;   /* RL_FINISH_STOP_TOKEN ... */
  const int32_t* ids;
  size_t num_ids;
  size_t num_prompt;
  const float* logprobs; /* log softmax(logits / temperature)[id], nats: what importance ratios use;
                            optional: where a trainer needs them it computes them first */
  const float* logprobs_sampled; /* under the distribution drawn from, after all rules; optional */
  const uint64_t* versions;      /* of the weights that drew the token; optional: the trainer then
                                    compares no log-probs */
  const uint8_t* loss_mask;      /* 1 where the token is trained on; optional: all are */
  double reward;                 /* when scored is 1 */
  float temperature;             /* of the log-probs; greedy samples have 1 */
  uint32_t scored;
  const char* tag; /* the data row's host tag, handed back unread */
  size_t tag_len;
  const char* prompt_text; /* score events of a model with a tokenizer, else empty; special tokens
                              included */
  size_t prompt_text_len;
  const char* text; /* of the answer, special tokens left out; as prompt_text */
  size_t text_len;
  int64_t submitted_ns; /* times of a steady clock; 0 when unknown */
  int64_t first_token_ns;
  int64_t finished_ns;
  size_t num_top; /* most probable ids kept per token: sampling.logprobs; as an input 0 for none */
  const int32_t* top_ids;    /* [G * num_top], of each token the most probable first; -1 for a token
                                that was not drawn */
  const float* top_logprobs; /* [G * num_top], of the softmax of logprobs; 0 where the id is -1 */
  uint32_t num_aborts;       /* times that it was aborted; it may have gone on since */
  uint32_t preemptions;      /* times that it gave its KV blocks up and waited again */
  int64_t admitted_ns;       /* when its request first ran; the times are of its last request */
  const uint8_t* mixed_kv; /* 1 where the token was drawn with keys and values of older weights than
                              its version (engine.keep_kv_on_publish): no forward gives its log-prob
                              again, and no log-prob is compared; NULL: none. Optional. */
  size_t num_reward_parts; /* kinds of reward beside reward; 0 for none */
  const double* reward_parts; /* [num_reward_parts], finite; of a score event always NULL */
} rl_sample_view;

/* Zeroes `size` bytes, sets struct_size, data_row -1 and temperature 1. NULL or a size too small
 * has no effect. Thread: any; callback-safe. */
RL_API void rl_sample_view_init(rl_sample_view* view, size_t size);

/* ---- events ---- */

/* Kinds of events, and what rl_event_view and the other getters say of each. */
enum {
  RL_EVENT_SCORE =
      1,             /* a sample waits for rl_pipeline_score or rl_pipeline_fail: rl_event_sample */
  RL_EVENT_STEP = 3, /* a training step ended: step, version, metrics */
  RL_EVENT_EVAL = 4, /* an evaluation ended: step, version, value = mean reward, count = samples
                        scored, metrics */
  RL_EVENT_CHECKPOINT = 5,    /* a checkpoint is on disk: step, text = its path */
  RL_EVENT_GROUP_DROPPED = 6, /* a group ended untrained: ordinal, purpose, reason, text = why */
  RL_EVENT_ENGINE_STATS = 7   /* engine.stats_interval_ns of an engine has passed: step, version,
                                 count = number of the engine, metrics */
};

/* Why a group was dropped. */
enum {
  RL_DROP_NONE = 0,
  RL_DROP_STALE = 1,
  RL_DROP_ABORTED = 2,
  RL_DROP_REWARD_ERROR = 3,   /* rl_pipeline_fail */
  RL_DROP_REWARD_TIMEOUT = 4, /* pipeline.reward_timeout_ns */
  RL_DROP_NON_FINITE = 5,
  RL_DROP_FILTERED = 6,
  RL_DROP_OVERLONG = 7,
  RL_DROP_POISONED = 8,
  RL_DROP_ROLLBACK = 9,
  RL_DROP_CANCELLED = 10,
  RL_DROP_SHUTDOWN = 11
};

/* Fields that the kind does not use are 0, empty or, for data_row, -1. */
typedef struct rl_event_view {
  size_t struct_size;
  int32_t kind;     /* RL_EVENT_SCORE ... */
  int32_t reason;   /* RL_DROP_ABORTED ... */
  uint64_t step;    /* training steps done, this one counted */
  uint64_t version; /* of the weights after it */
  uint64_t ordinal; /* of the group */
  int64_t data_row;
  double value;
  uint64_t count;
  size_t num_metrics; /* rl_event_metric */
  const char* text;   /* owner: the event */
  size_t text_len;
  int32_t purpose; /* RL_PURPOSE_TRAIN ...; evaluations count their ordinals apart */
  int32_t reserved;
} rl_event_view;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_event_view_init(rl_event_view* view, size_t size);

/* The event's kind; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API int32_t rl_event_kind(const rl_event* event);

/* The event's fields. Thread: any; callback-safe. */
RL_API rl_status rl_event_get_view(const rl_event* event, rl_event_view* view, rl_error** err);

/* The sample of an RL_EVENT_SCORE; RL_FAILED_PRECONDITION for other kinds. Thread: any;
 * callback-safe. */
RL_API rl_status rl_event_sample(const rl_event* event, rl_sample_view* view, rl_error** err);

/* Metric `index` of the event, counted from 0; RL_OUT_OF_RANGE beyond num_metrics. Owner of the
 * name: the event. Names under "timing_s/" (seconds), "timing_per_token_ms/" and "perf/" vary from
 * run to run, all others do not. A step has "critic/rewards/mean", "actor/loss", "actor/grad_norm",
 * "actor/entropy" (nats), "training/logprob_max_abs_diff" (nats, 0 while trainer and engine agree),
 * "timing_s/step", "perf/rollout_tokens_per_s", "perf/train_tokens_per_s" and more, an evaluation
 * "eval/rewards/mean" and "timing_s/eval".
 *
 * Of the rollout, a step has "timing_s/request/queue" (submission to first run), "first_token"
 * (submission to first token), "prefill" (first run to first token) and "decode" (to the end), each
 * with "/mean", "/max" and "/min" over the samples trained on, as "perf/request/preemptions" has;
 * and "perf/engine/kv_use_peak" (share of the KV blocks), "perf/engine/preemptions",
 * "perf/engine/prefix_hit_rate" (tokens found of those looked up), "timing_s/engine/prefill" and
 * "timing_s/engine/decode" (time of forwards). An interval of an engine has these five,
 * "timing_s/engine/interval" (its length, time without work left out), "perf/engine/number",
 * "running", "waiting", "kv_use" (at its end), "admitted", "finished", "prefill_tokens",
 * "decode_tokens", "mixed_kv_tokens" and "tokens_per_s" (drawn), and "/mean" and "/max" of
 * "timing_s/request/queue" and "timing_s/request/first_token". Thread: any; callback-safe. */
RL_API rl_status rl_event_metric(const rl_event* event, size_t index, const char** name,
                                 double* value, rl_error** err);

/* A metric by name, such as "actor/pg_loss"; RL_NOT_FOUND when the event has none of that name.
 * Thread: any; callback-safe. */
RL_API rl_status rl_event_metric_named(const rl_event* event, const char* name, size_t name_len,
                                       double* value, rl_error** err);

/* Ends the handle and all views of it. Events may be released in any order, also after their
 * pipeline. Thread: any; callback-safe. */
RL_API void rl_event_release(rl_event* event);

/* A descriptor for poll and epoll, readable when rl_pipeline_next with timeout 0 has something to
 * say; written at every event, so edge-triggered waiting is safe. Never read or close it. It ends
 * with the last handle of its pipeline and queue. -1 for a handle that is not live. Thread: any;
 * callback-safe. */
RL_API int32_t rl_event_queue_fd(const rl_event_queue* queue);

/* Events waiting now; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_event_queue_size(const rl_event_queue* queue);

/* Ends the handle. Thread: any; callback-safe. */
RL_API void rl_event_queue_release(rl_event_queue* queue);

/* ---- pipeline ---- */

/* The synchronous training loop on a thread of the library: prompts -> pipeline.samples_per_prompt
 * samples each -> scores of the host -> advantages -> optimizer steps -> weights one version
 * higher. The host pulls events:
 *
 *   rl_pipeline_start(p, &err);
 *   for (;;) {
 *     rl_status st = rl_pipeline_next(p, timeout_ns, &ev, &err);
 *     if (st == RL_TIMEOUT) continue;
 *     if (st != RL_OK) break;
 *     if (rl_event_kind(ev) == RL_EVENT_SCORE) ... rl_pipeline_score(p, sample_id, reward, &err);
 *     rl_event_release(ev);
 *   }
 *
 * Data. data.path is a JSONL file; a row is {"messages": [{"role": ..., "content": ...}, ...]},
 * {"prompt": "..."} or {"ids": [...]}, with an optional "tag" that comes back in every sample of
 * the row. Unknown keys are errors. Without data.path the host feeds rows. The loop runs until
 * pipeline.total_steps, the end of the feed or rl_pipeline_stop. */

/* States of a pipeline. */
enum {
  RL_STATE_IDLE = 0,
  RL_STATE_DRAWING = 1,
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

/* The books of a run. At every moment
 *   attempts_started = attempts_trained + attempts_discarded + attempts_in_flight
 *   tokens_generated = tokens_trained + tokens_discarded + tokens_in_flight
 *   prompts_drawn    = prompts_trained + prompts_dropped + prompts_open */
typedef struct rl_pipeline_stats {
  size_t struct_size;
  int32_t state; /* RL_STATE_IDLE ... */
  int32_t reserved;
  uint64_t step;     /* training steps done */
  uint64_t version;  /* of the weights */
  uint64_t unscored; /* score events without an answer */
  uint64_t attempts_started, attempts_trained, attempts_discarded, attempts_in_flight; /* samples */
  uint64_t tokens_generated, tokens_trained, tokens_discarded, tokens_in_flight;
  uint64_t prompts_drawn, prompts_trained, prompts_dropped, prompts_open;   /* groups */
  uint64_t late_scores, duplicate_scores, unknown_scores, nonfinite_scores; /* refused */
} rl_pipeline_stats;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_pipeline_stats_init(rl_pipeline_stats* stats, size_t size);

/* Checks the options against model and budget, reserves all memory, opens the data files and
 * resumes as checkpoint.resume says. The model was opened with RL_USE_PIPELINE. options may be
 * NULL: those of the model. Nothing runs before rl_pipeline_start. Thread: any. */
RL_API rl_status rl_pipeline_create(rl_model* model, const rl_options* options, rl_pipeline** out,
                                    rl_error** err);

/* Stops the loop and ends the handle; waits for a training step in progress. Unscored groups end as
 * RL_DROP_SHUTDOWN. A wait of another thread returns: rl_pipeline_next gives the events left, then
 * RL_DONE or, called anew, RL_STALE_HANDLE. Thread: any. */
RL_API void rl_pipeline_destroy(rl_pipeline* pipeline);

/* Starts the loop; RL_FAILED_PRECONDITION when it was started before. Thread: any. */
RL_API rl_status rl_pipeline_start(rl_pipeline* pipeline, rl_error** err);

/* The next event, which the caller releases. RL_TIMEOUT: none came in time. RL_INTERRUPTED:
 * rl_pipeline_interrupt. RL_DONE: the loop ended and every event was taken; sticky. A failure of
 * the loop is returned, again and again, once every event was taken. Thread: any. */
RL_API rl_status rl_pipeline_next(rl_pipeline* pipeline, int64_t timeout_ns, rl_event** out,
                                  rl_error** err);

/* Handles an event: called on the thread inside rl_pipeline_dispatch, with no lock held; it may
 * call every function. Once it destroyed the pipeline, the events left are still handed over. The
 * event ends with the call. A return value other than 0 stops dispatching. */
typedef int32_t (*rl_event_fn)(void* user_data, const rl_event* event);

/* The same as a callback: waits as rl_pipeline_next for the first event, then hands it and all that
 * wait behind it to fn. RL_OK after at least one; RL_INTERRUPTED also when fn returned other than
 * 0. Thread: any. */
RL_API rl_status rl_pipeline_dispatch(rl_pipeline* pipeline, int64_t timeout_ns, rl_event_fn fn,
                                      void* user_data, rl_error** err);

/* Makes one rl_pipeline_next, running or next, return RL_INTERRUPTED. Thread: any. */
RL_API rl_status rl_pipeline_interrupt(rl_pipeline* pipeline, rl_error** err);

/* The queue of the pipeline's events, for its descriptor. Thread: any. */
RL_API rl_status rl_pipeline_queue(rl_pipeline* pipeline, rl_event_queue** out, rl_error** err);

/* Rewards a sample, in any order, until its deadline. Refused and counted: RL_NOT_FOUND (no such
 * sample), RL_DUPLICATE (scored before), RL_LATE (its group was dropped), RL_NON_FINITE. With
 * model.reward_path no sample waits for the host: this, rl_pipeline_score_parts,
 * rl_pipeline_score_many and rl_pipeline_fail are RL_FAILED_PRECONDITION. Thread: any. */
RL_API rl_status rl_pipeline_score(rl_pipeline* pipeline, uint64_t sample_id, double reward,
                                   rl_error** err);

/* The same with kinds of reward beside the reward, which algo.advantage = gdpo compares one by one
 * and a function of rl_advantage_fn sees: num_parts is the number of entries of algo.gdpo_weights,
 * else RL_INVALID_ARGUMENT, as is rl_pipeline_score where that has any; a sample of an evaluation
 * may have none. Thread: any. */
RL_API rl_status rl_pipeline_score_parts(rl_pipeline* pipeline, uint64_t sample_id, double reward,
                                         const double* parts, size_t num_parts, rl_error** err);

/* Rewards many samples. All are tried; the error is the first refusal and says how many were
 * refused. Thread: any. */
RL_API rl_status rl_pipeline_score_many(rl_pipeline* pipeline, const uint64_t* sample_ids,
                                        const double* rewards, size_t count, rl_error** err);

/* The sample will get no reward: its group is dropped by name and the step goes on without it.
 * Thread: any. */
RL_API rl_status rl_pipeline_fail(rl_pipeline* pipeline, uint64_t sample_id, const char* reason,
                                  size_t reason_len, rl_error** err);

/* Adds one row, written as a line of the data file; with algo.objective sft and dpo it has its
 * answers too. RL_TIMEOUT when the feed is full: try again
 * after a step event. A row that cannot be used is RL_INVALID_ARGUMENT or another failure that
 * names its place, and is not added. RL_FAILED_PRECONDITION with data.path, after
 * rl_pipeline_finish_feed, or once the loop ended. Thread: any. */
RL_API rl_status rl_pipeline_feed(rl_pipeline* pipeline, const char* row, size_t row_len,
                                  rl_error** err);

/* Adds a prompt of token ids with a tag. As rl_pipeline_feed. Thread: any. */
RL_API rl_status rl_pipeline_feed_ids(rl_pipeline* pipeline, const int32_t* ids, size_t num_ids,
                                      const char* tag, size_t tag_len, rl_error** err);

/* Rows that the feed holds at most. Thread: any. */
RL_API rl_status rl_pipeline_feed_capacity(const rl_pipeline* pipeline, uint64_t* out,
                                           rl_error** err);

/* No more rows: the loop ends after the last whole step. Thread: any. */
RL_API rl_status rl_pipeline_finish_feed(rl_pipeline* pipeline, rl_error** err);

/* The loop halts before its next forward, wait or update. Without effect when it is paused. Thread:
 * any. */
RL_API rl_status rl_pipeline_pause(rl_pipeline* pipeline, rl_error** err);

/* Ends a pause. Without effect when there is none. Thread: any. */
RL_API rl_status rl_pipeline_resume(rl_pipeline* pipeline, rl_error** err);

/* Ends the loop: a step in training is finished, one in rollout or scoring abandoned. RL_OK when it
 * ended in time, RL_TIMEOUT when it is still ending. Events can still be taken. Thread: any. */
RL_API rl_status rl_pipeline_stop(rl_pipeline* pipeline, int64_t timeout_ns, rl_error** err);

/* A checkpoint at the next step boundary, or at once when the loop does not run; *path is its
 * directory in checkpoint.dir. RL_TIMEOUT when it was not written in time; it still will be.
 * Thread: any. */
RL_API rl_status rl_pipeline_checkpoint(rl_pipeline* pipeline, int64_t timeout_ns, rl_bytes** path,
                                        rl_error** err);

/* Asks for an evaluation of eval.path at the next step boundary. Its samples come as score events
 * of RL_PURPOSE_EVAL, its end is RL_EVENT_EVAL. Thread: any. */
RL_API rl_status rl_pipeline_evaluate(rl_pipeline* pipeline, rl_error** err);

/* Takes over the values that may change between steps, from the next step on; RL_WHEN_ANY_TIME ones
 * hold at once. RL_NOT_CHANGEABLE names another option that differs; whatever else is wrong is told
 * with it (rl_error_part), and then nothing changes. Thread: any. */
RL_API rl_status rl_pipeline_set_options(rl_pipeline* pipeline, const rl_options* options,
                                         rl_error** err);

/* Where the run stands. Thread: any. */
RL_API rl_status rl_pipeline_get_stats(const rl_pipeline* pipeline, rl_pipeline_stats* stats,
                                       rl_error** err);

/* The memory plan that the pipeline runs by. Thread: any. */
RL_API rl_status rl_pipeline_plan(const rl_pipeline* pipeline, rl_plan** out, rl_error** err);

/* Whether the metrics file and the trace were written to their end, which follows the loop and is
 * no part of its success. RL_OK: they were, or there are none. Else the first failure, again and
 * again; its message names the file. RL_FAILED_PRECONDITION before the loop ended: ask after
 * RL_DONE. Thread: any. */
RL_API rl_status rl_pipeline_close_result(const rl_pipeline* pipeline, rl_error** err);

/* The checkpoint that the run was resumed from; empty for a fresh one. Thread: any. */
RL_API rl_status rl_pipeline_resumed_from(const rl_pipeline* pipeline, rl_bytes** path,
                                          rl_error** err);

/* ---- batch ---- */

/* Number of samples; 0 for a handle that is not live. Thread: any; callback-safe. */
RL_API size_t rl_batch_count(const rl_batch* batch);

/* Sample `index`, counted from 0; RL_OUT_OF_RANGE beyond the last. Its texts are empty:
 * rl_model_decode makes them. Owner of all pointers: the batch. Thread: any. */
RL_API rl_status rl_batch_sample(const rl_batch* batch, size_t index, rl_sample_view* view,
                                 rl_error** err);

/* Sets the reward of sample `index`, replacing an earlier one. Thread: any. */
RL_API rl_status rl_batch_set_reward(rl_batch* batch, size_t index, double reward, rl_error** err);

/* Sets the kinds of reward beside the reward of sample `index`, replacing earlier ones; views of
 * the batch made before end. RL_NON_FINITE names a part. Thread: any. */
RL_API rl_status rl_batch_set_reward_parts(rl_batch* batch, size_t index, const double* parts,
                                           size_t num_parts, rl_error** err);

/* Ends the handle and all views of it. Thread: any; callback-safe. */
RL_API void rl_batch_release(rl_batch* batch);

/* ---- engine ---- */

/* Draws samples by continuous batching on the caller's thread: submit requests, step until idle,
 * take what finished. Logits are changed by, in this order, sampling.allowed_token_ids,
 * min_new_tokens, logit_bias, repetition_penalty, frequency_penalty and presence_penalty. A token
 * is drawn from softmax(logits / temperature) cut down by top-k, then top-p, then min-p, with one
 * Philox number per token; temperature 0 takes the lowest id with the largest logit. A sample ends
 * with a token that stops it, which it keeps, a text of sampling.stop, or sampling.max_new_tokens.
 *
 * Versions. Each token names the version of the weights that drew it. With model.compute_copies 1
 * weights cannot be trained while requests are running. With 2 rl_trainer_publish may come at any
 * time: an engine step keeps to the weights that it began with, and samples under way go on under
 * the new ones from their next token. */

typedef struct rl_request {
  size_t struct_size;
  const int32_t* prompt; /* [num_prompt] token ids, copied; NULL with resume */
  size_t num_prompt;     /* at least 1; 0 with resume */
  uint64_t num_samples;  /* samples of this prompt, which share its KV; 1 .. 65536; 1 with resume */
  const rl_options* sampling; /* sampling.* of this request; NULL: those of the engine */
  int64_t priority; /* -2^20 .. 2^20 with engine.scheduling_policy = priority, else 0: higher goes
                       first. Each step of it goes before at most 4,096 earlier requests */
  const rl_sample_view* resume; /* NULL, or the sample to go on from, copied: rl_engine_submit */
} rl_request;

/* Zeroes `size` bytes, sets struct_size and num_samples 1. NULL or a size too small has no effect.
 * Thread: any; callback-safe. */
RL_API void rl_request_init(rl_request* request, size_t size);

/* What an engine holds at the end of a time, and counts over that time. */
typedef struct rl_engine_stats {
  size_t struct_size;
  uint64_t running, waiting;              /* samples now */
  uint64_t blocks_in_use, blocks_total;   /* KV blocks now */
  uint64_t prefill_tokens, decode_tokens; /* rows computed */
  uint64_t forwards;
  uint64_t nonfinite;            /* samples ended by logits that were not finite */
  int64_t prefill_ns, decode_ns; /* time of forwards that prefilled, and of pure decoding */
  uint64_t begun; /* samples now that run or ran before they had to wait: what a drain waits for */
  uint64_t blocks_peak; /* most KV blocks in use at once; of replicas, the sum */
  int64_t busy_ns;      /* time with something to do, up to the last forward */
  uint64_t drawn_tokens;
  uint64_t admitted;          /* samples that ran for the first time */
  uint64_t finished, aborted; /* samples that ended; of these, aborted ones */
  int64_t queue_ns,
      longest_queue_ns;  /* from submission to the first run, over `admitted` samples */
  uint64_t first_tokens; /* samples that got their first token */
  int64_t first_token_ns, longest_first_token_ns; /* from submission to it */
  uint64_t preemptions,
      swapped_blocks; /* samples that gave their KV blocks up; blocks kept aside */
  uint64_t looked_up_tokens, cached_tokens; /* of samples that began to run; of these, whose KV was
                                               found in the prefix cache */
  uint64_t mixed_kv_tokens; /* of drawn_tokens, drawn with keys and values of older weights */
} rl_engine_stats;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_engine_stats_init(rl_engine_stats* stats, size_t size);

/* Reserves KV pool and workspace. options may be NULL: those of the model. Thread: any. */
RL_API rl_status rl_engine_create(rl_model* model, const rl_options* options, rl_engine** out,
                                  rl_error** err);

/* Ends the engine with all its requests; an rl_engine_run of another thread returns.
 * Thread: any. */
RL_API void rl_engine_destroy(rl_engine* engine);

/* Queues a request; *first_sample_id is the sample_id of slot 0, slot i has that plus i. The draws
 * are keyed by (runtime.seed, number of the request, slot, position), or by (sampling.seed, slot,
 * position) when that is set, so a schedule changes no sample. A prompt that leaves no room for
 * sampling.max_new_tokens within engine.max_model_len is an error that names both.
 *
 * A request with resume goes on from a sample that was aborted, or that ended and got tokens of an
 * environment behind it (loss_mask 0, log-probs 0); it may have no generated token yet. Its ids,
 * log-probs and versions stay as given, its sample_id, ordinal and slot too; a score does not.
 * sampling.max_new_tokens counts from here on, and sampling.temperature is that of the sample. With
 * the sampling of its first request an aborted sample ends as it would have ended, while the
 * weights are the same. RL_FAILED_PRECONDITION while a sample of its id is unfinished in the
 * engine; what is wrong with the sample is told as by rl_buffer_put. Thread: any. */
RL_API rl_status rl_engine_submit(rl_engine* engine, const rl_request* request,
                                  uint64_t* first_sample_id, rl_error** err);

/* Computes one forward. RL_OK when it did, RL_DONE when there is nothing to do, RL_INTERRUPTED
 * while the engine pauses. Thread: any. */
RL_API rl_status rl_engine_step(rl_engine* engine, rl_error** err);

/* Steps until nothing is left to do. RL_INTERRUPTED when the engine pauses before. Thread: any. */
RL_API rl_status rl_engine_run(rl_engine* engine, rl_error** err);

/* From the end of a step under way nothing is computed until rl_engine_resume; every other call
 * works. Without effect when the engine pauses. Thread: any. */
RL_API rl_status rl_engine_pause(rl_engine* engine, rl_error** err);

/* Ends a pause and a drain, if any. RL_BUSY, without effect, while the weights that waiting
 * requests need are being trained. Thread: any. */
RL_API rl_status rl_engine_resume(rl_engine* engine, rl_error** err);

/* From now on no sample begins; steps on this thread until those that have begun are finished.
 * RL_OK when they are, RL_TIMEOUT when they are not in time, which begun of rl_engine_stats counts
 * then, RL_INTERRUPTED when the engine pauses; the drain stays in force until rl_engine_resume.
 * What waits behind it is not running: weights can be trained. Thread: any. */
RL_API rl_status rl_engine_drain(rl_engine* engine, int64_t timeout_ns, rl_error** err);

/* The samples that finished since the last call, in order of completion. RL_TIMEOUT when none did
 * but requests are running, RL_DONE when none did and none run. Thread: any. */
RL_API rl_status rl_engine_take(rl_engine* engine, rl_batch** out, rl_error** err);

/* Ends all requests; their samples come through rl_engine_take as RL_FINISH_ABORTED, with all that
 * they have: ids, log-probs and versions. Thread: any. */
RL_API rl_status rl_engine_abort(rl_engine* engine, rl_error** err);

/* The same for the one request that sample_id belongs to, of which every unfinished sample ends.
 * RL_NOT_FOUND when no unfinished sample of the engine has this id. Thread: any. */
RL_API rl_status rl_engine_abort_request(rl_engine* engine, uint64_t sample_id, rl_error** err);

/* The same for all requests but those with a sample that was aborted
 * pipeline.partial_rollout_max_aborts times: *num_spared samples go on. Thread: any. */
RL_API rl_status rl_engine_interrupt(rl_engine* engine, uint64_t* num_spared, rl_error** err);

/* Gives memory back to the system until rl_engine_wake, while addresses and plan stay: at level 1
 * the engine's KV pool and workspace, at level 2 also the packed weights of the model. These are
 * made anew from its master weights by the wake, or as soon as another engine, a trainer or a
 * pipeline computes with the model. Unfinished samples wait, as running requests of the model;
 * their KV is computed anew after the wake, which changes no sample. Requests are queued, but what
 * would compute is RL_FAILED_PRECONDITION. A level not above the present one is without effect.
 * RL_OUT_OF_RANGE for other levels, RL_BUSY while something computes; at level 2 also while other
 * engines have requests on the model or a pipeline runs on it. Thread: any. */
RL_API rl_status rl_engine_sleep(rl_engine* engine, int32_t level, rl_error** err);

/* Takes the memory again, weights first; without effect when the engine is awake. Thread: any. */
RL_API rl_status rl_engine_wake(rl_engine* engine, rl_error** err);

/* What the engine holds now, and counts since it was made: of all its replicas, engine.num_engines
 * of them, together. The longest times are those of the slowest. Thread: any. */
RL_API rl_status rl_engine_get_stats(const rl_engine* engine, rl_engine_stats* stats,
                                     rl_error** err);

/* The same of replica `index`, counted from 0; RL_OUT_OF_RANGE beyond the last. Thread: any. */
RL_API rl_status rl_engine_get_replica_stats(const rl_engine* engine, size_t index,
                                             rl_engine_stats* stats, rl_error** err);

/* The same at the end of its last interval of engine.stats_interval_ns, and over it. An interval is
 * a stretch of busy time and ends with the first forward that finds it long enough: busy_ns is its
 * length. RL_TIMEOUT before the first one ended, RL_FAILED_PRECONDITION when
 * engine.stats_interval_ns is 0. Thread: any. */
RL_API rl_status rl_engine_get_interval(const rl_engine* engine, size_t index,
                                        rl_engine_stats* stats, rl_error** err);

/* ---- conversation ---- */

/* A sample whose tokens come in turn from the model and from an environment:
 *
 *   rl_conversation_create(engine, prompt, num_prompt, &c, &err);
 *   for (;;) {
 *     rl_conversation_generate(c, NULL, 0, &err);           the model's turn is a request
 *     rl_engine_run(engine, &err);
 *     rl_conversation_sample(c, &batch, &err);              ... look at what it wrote
 *     rl_conversation_append(c, ids, num_ids, &err);        what the environment answers
 *   }
 *
 * Ids stand as they were drawn and given; nothing is tokenised again. Tokens of the environment
 * have loss_mask 0, log-probs 0 and the version 2^64 - 1, so only what the model drew is trained
 * on. A turn is found, aborted and interrupted by its sample_id, but does not come through
 * rl_engine_take. While it is drawn, calls that need the tokens are RL_FAILED_PRECONDITION. Between
 * turns keys and values are kept while no other request needs their blocks, least recently used
 * ones given up first; a turn finds what is left of them and computes the rest anew. */

typedef struct rl_conversation_info {
  size_t struct_size;
  uint64_t sample_id; /* of the sample, the same in all turns */
  uint64_t ordinal;   /* of its group: the conversations forked from one another */
  uint32_t slot;
  uint32_t generating; /* 1: a turn is drawn, and what follows is as before it */
  uint64_t num_ids;
  uint64_t num_turns; /* of the model, that ended */
  int32_t finish;     /* of the last of them, RL_FINISH_STOP_TOKEN ... */
  int32_t reserved;
} rl_conversation_info;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_conversation_info_init(rl_conversation_info* info, size_t size);

/* Begins with a prompt of token ids, at least 1, copied. It takes the number of a request and a
 * sample_id. RL_OUT_OF_RANGE names an id outside the vocabulary, or engine.max_model_len. Thread:
 * any. */
RL_API rl_status rl_conversation_create(rl_engine* engine, const int32_t* ids, size_t num_ids,
                                        rl_conversation** out, rl_error** err);

/* Another conversation with the tokens so far, in the next slot of the group: it draws its own
 * turns from here on. A group for training is one conversation and its forks. Thread: any. */
RL_API rl_status rl_conversation_fork(const rl_conversation* conversation, rl_conversation** out,
                                      rl_error** err);

/* Ends the handle; a turn under way is aborted, and nobody gets it. Thread: any. */
RL_API void rl_conversation_destroy(rl_conversation* conversation);

/* Adds tokens of the environment, at least 1, copied. RL_OUT_OF_RANGE as for the prompt. Thread:
 * any. */
RL_API rl_status rl_conversation_append(rl_conversation* conversation, const int32_t* ids,
                                        size_t num_ids, rl_error** err);

/* Queues a turn of the model, as rl_engine_submit does with resume: at most sampling.max_new_tokens
 * tokens more, priority as in rl_request. sampling may be NULL: that of the engine. All turns have
 * one sampling.temperature and one sampling.logprobs. Thread: any. */
RL_API rl_status rl_conversation_generate(rl_conversation* conversation, const rl_options* sampling,
                                          int64_t priority, rl_error** err);

/* Where the conversation stands. Thread: any. */
RL_API rl_status rl_conversation_get_info(const rl_conversation* conversation,
                                          rl_conversation_info* info, rl_error** err);

/* A copy of the sample so far, as a batch of one, which can be scored and trained on. Thread: any.
 */
RL_API rl_status rl_conversation_sample(const rl_conversation* conversation, rl_batch** out,
                                        rl_error** err);

/* ---- buffer ---- */

/* Scored samples on their way to a trainer, from an engine of this process or from elsewhere. They
 * gather by ordinal; a group is whole when it has pipeline.samples_per_prompt samples, slots 0 .. n
 * - 1. */

/* options may be NULL: all defaults. Holds at most max_samples samples, at least one group. Thread:
 * any. */
RL_API rl_status rl_buffer_create(const rl_options* options, uint64_t max_samples, rl_buffer** out,
                                  rl_error** err);

/* Ends the buffer with its samples. Thread: any. */
RL_API void rl_buffer_destroy(rl_buffer* buffer);

/* Copies a sample into the buffer. RL_FAILED_PRECONDITION (not scored; with algo.objective sft and
 * dpo none has to be), RL_NON_FINITE (reward or log-prob), RL_DUPLICATE (ordinal and slot are
 * there), RL_OUT_OF_RANGE (slot, num_prompt, temperature), RL_INVALID_ARGUMENT (what no buffer file
 * may hold: an id or a time below 0, a data_row below -1), RL_RESOURCE_EXHAUSTED (full). Thread:
 * any. */
RL_API rl_status rl_buffer_put(rl_buffer* buffer, const rl_sample_view* sample, rl_error** err);

/* Copies every sample of a batch into the buffer. It stops at the first that is refused, naming its
 * place in the batch; the samples before that stay in the buffer. Thread: any. */
RL_API rl_status rl_buffer_put_batch(rl_buffer* buffer, const rl_batch* batch, rl_error** err);

/* Takes the whole groups of lowest ordinals, at most max_groups, ordered by (ordinal, slot).
 * RL_TIMEOUT when no group is whole. Thread: any. */
RL_API rl_status rl_buffer_take(rl_buffer* buffer, uint64_t max_groups, rl_batch** out,
                                rl_error** err);

/* Samples held, and groups that are whole. Thread: any. */
RL_API rl_status rl_buffer_count(const rl_buffer* buffer, uint64_t* num_samples,
                                 uint64_t* num_whole_groups, rl_error** err);

/* Writes every sample held to a buffer file (docs/buffer_format.md), group by group, those of
 * incomplete groups too; the buffer keeps them, and other calls on it wait. The file is written as
 * PATH.tmp and appears by one rename, complete and synced; there may be one save to a path at a
 * time. model, which may be NULL, is what training on the samples starts from: the file names its
 * digest. A file of that name is RL_ALREADY_EXISTS unless flags have RL_SAVE_REPLACE.
 * buffer.compression_level of the buffer's options is zstd's level. RL_BUSY while the model is
 * trained; RL_INVALID_ARGUMENT names a sample with an id beyond the model's vocabulary;
 * RL_RESOURCE_EXHAUSTED names a group of more than 1 GiB. Thread: any. */
RL_API rl_status rl_buffer_save(const rl_buffer* buffer, const char* path, size_t path_len,
                                const rl_model* model, uint64_t flags, rl_error** err);

/* Adds every sample of a buffer file to those held, and sets *num_samples to their number; after a
 * failure the buffer is as it was. RL_DATA_LOSS names file and offset of what is damaged, cut or
 * breaks a rule. model may be NULL; with one the file must say that training starts from its
 * weights: RL_INCOMPATIBLE names both digests, or the compute dtypes. Also RL_INCOMPATIBLE when
 * groups have another size than pipeline.samples_per_prompt, RL_DUPLICATE when an ordinal and slot
 * are there, RL_RESOURCE_EXHAUSTED when not all fit, RL_FAILED_PRECONDITION and RL_INVALID_ARGUMENT
 * for samples that are not scored or of an evaluation.
 *
 * A run with buffer.record_dir writes the batch of step n to step_00000n.rlbuf there. From the
 * run's first model and with its options, but trainer.max_tokens_per_device as
 * rl_buffer_get_file_info tells it, this for all steps from 1 in order ends with the weights of the
 * run bit for bit (docs/buffer_format.md, Replay):
 *
 *   rl_buffer_load(buffer, path, RL_NUL_TERMINATED, model, &count, &err);
 *   if (rl_buffer_take(buffer, INT64_MAX, &batch, &err) == RL_OK)   RL_TIMEOUT: all were dropped
 *     rl_trainer_step(trainer, batch, NULL, 0, &event, &err);
 *
 * Thread: any. */
RL_API rl_status rl_buffer_load(rl_buffer* buffer, const char* path, size_t path_len,
                                const rl_model* model, uint64_t* num_samples, rl_error** err);

/* What a buffer file says of itself. 0 where the writer did not know. */
typedef struct rl_buffer_file_info {
  size_t struct_size;
  uint64_t step;                  /* training step, from 1, whose batch it is; 0: of none */
  uint64_t group_size;            /* samples of a whole group */
  uint64_t max_tokens_per_device; /* of its run, planned or given: a replay's trainer takes it */
  uint64_t options_identity;      /* digest of the options on which the bits of its run depend */
  uint64_t weight_version;        /* of the weights that training on it starts from */
  uint64_t weight_digest;         /* of these, as rl_model_digest */
  uint64_t vocab;                 /* of the model; its ids are below */
  uint32_t has_model;             /* 1: weight_version, weight_digest and vocab hold */
  uint32_t reserved;
} rl_buffer_file_info;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_buffer_file_info_init(rl_buffer_file_info* info, size_t size);

/* Reads the beginning of a buffer file; RL_DATA_LOSS when it is damaged there or no buffer file.
 * Thread: any. */
RL_API rl_status rl_buffer_get_file_info(const char* path, size_t path_len,
                                         rl_buffer_file_info* info, rl_error** err);

/* ---- trainer ---- */

/* Optimizer steps on the model's fp32 weights. The trained weights are one version higher; samples
 * drawn afterwards name it.
 *
 * By default the loss of a minibatch is its mean over trained tokens (algo.loss_agg) of
 *
 *   max(-A r, -A min(max(r, 1 - algo.clip_low), 1 + algo.clip_high))   algo.policy_loss = ppo_clip
 *   + algo.kl.coef (exp(d) - d - 1)                                    with algo.kl.where = loss
 *   - algo.entropy_coef H
 *
 * with r = exp(log-prob - stored log-prob), d = reference log-prob - log-prob, H the entropy of the
 * token's distribution in nats (arXiv 1707.06347; k3 estimator). A is the advantage of the sample,
 * (reward - mean) / (std + algo.adv_eps) over its group, std with n - 1 and divided by only with
 * algo.adv_norm_std (arXiv 2402.03300). Other estimators, losses, corrections and filters are those
 * of docs/algorithms.md. With algo.advantage = remax the sample of slot pipeline.samples_per_prompt
 * is the greedy answer of its group and is not trained on. Samples without log-probs are forwarded
 * before the step, so that r is 1 in its first optimizer step (training/foreign_samples).
 *
 * With algo.objective = sft the loss is -log-prob of the trained tokens, with dpo that of pairs,
 * the samples of slot 0 (chosen) and slot 1 (rejected) of an ordinal. Rewards, advantages and
 * stored log-probs are not read then; a sample that has no other half is RL_FAILED_PRECONDITION,
 * and given advantages are RL_CONFLICT. dpo has the metrics "rewards/chosen", "rewards/rejected",
 * "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected" and "nll_loss".
 *
 * Gradients are clipped to the global norm optimizer.grad_clip and go to AdamW with decoupled
 * weight decay (arXiv 1711.05101). A step whose loss or norm is not finite leaves the weights and
 * is counted in training/skipped_steps. */

/* Reserves gradients, optimizer states and workspace. The model was opened with RL_USE_TRAIN.
 * options may be NULL: those of the model. Thread: any. */
RL_API rl_status rl_trainer_create(rl_model* model, const rl_options* options, rl_trainer** out,
                                   rl_error** err);

/* Ends the trainer. Thread: any. */
RL_API void rl_trainer_destroy(rl_trainer* trainer);

/* One training step: trainer.epochs passes of trainer.num_minibatches optimizer steps over the
 * batch, ordered by (ordinal, slot). advantages may be NULL: they follow from the rewards as
 * algo.advantage says, samples of one ordinal being a group. Else it has num_advantages =
 * rl_batch_count entries, one per sample in the batch's order; with algo.advantage = gae, whose
 * critic learns from rewards, that is RL_FAILED_PRECONDITION. *out is an event of RL_EVENT_STEP
 * with the step's metrics. With model.compute_copies 1 the step publishes, and is RL_BUSY while
 * requests of the model run; with 2 rl_trainer_publish does. Thread: any. */
RL_API rl_status rl_trainer_step(rl_trainer* trainer, const rl_batch* batch,
                                 const double* advantages, size_t num_advantages, rl_event** out,
                                 rl_error** err);

/* Log-probs log softmax(logits / temperature)[id], nats, under the weights of the last step, of
 * ids[num_prompt .. num_ids) given what precedes each: out has num_out = num_ids - num_prompt
 * entries. 1 <= num_prompt < num_ids, temperature > 0. Thread: any. */
RL_API rl_status rl_trainer_logprobs(rl_trainer* trainer, const int32_t* ids, size_t num_ids,
                                     size_t num_prompt, float temperature, float* out,
                                     size_t num_out, rl_error** err);

/* Engines read the weights of the last step from their next step on; *version is that of these
 * weights, one higher than before however many steps there were. With model.compute_copies 1 a step
 * has published its weights, and this call names them. Thread: any. */
RL_API rl_status rl_trainer_publish(rl_trainer* trainer, uint64_t* version, rl_error** err);

/* ---- algorithms ---- */

/* What a training step does with samples, on arrays of the host, without a model: the same code,
 * over all tokens given as one minibatch. The keys algo.* of options say which algorithm
 * (docs/algorithms.md); options may be NULL: the defaults. Sequences are packed: per-token arrays
 * have the tokens of sequence 0, then of sequence 1, and so on, num_tokens in all. Log-probs are in
 * nats. Errors name the field as tokens.FIELD. RL_CONFLICT when options contradict each other. */
typedef struct rl_algo_tokens {
  size_t struct_size;
  const int32_t* lengths; /* [num_sequences], from 0 on; their sum is num_tokens */
  size_t num_sequences;
  size_t num_tokens;
  const uint64_t* groups; /* [num_sequences], equal for the samples of a prompt, which stand
                             together; optional: all are of one prompt */
  const uint8_t* mask;    /* [num_tokens], 1 where a token carries loss, else 0; optional: all do */
  const uint8_t* truncated;  /* [num_sequences], 1 where the length limit cut it; optional: none */
  const float* logprobs;     /* [num_tokens], of the current policy */
  const float* old_logprobs; /* [num_tokens], what ratios refer to; optional: logprobs */
  const float* rollout_logprobs; /* [num_tokens], of the sampler; optional: old_logprobs */
  const float* ref_logprobs;     /* [num_tokens], of the reference; where a KL is asked for */
  const float* advantages;       /* [num_tokens] */
  const double* rewards;         /* [num_sequences] */
  const double* baselines;       /* [num_sequences], scores of greedy answers; where remax asks */
  const uint64_t* sample_ids;    /* [num_sequences]; for a host's own functions, not read */
  size_t num_reward_parts;       /* kinds of reward; 0 for none */
  const double* reward_parts;    /* [num_sequences * num_reward_parts], those of sequence 0 first;
                                    where    gdpo asks */
} rl_algo_tokens;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_algo_tokens_init(rl_algo_tokens* tokens, size_t size);

/* The loss of a minibatch. Means are over the tokens that carry loss. */
typedef struct rl_algo_loss {
  size_t struct_size;
  double loss;          /* policy_loss + kl_loss; the entropy bonus is not in it */
  double policy_loss;   /* aggregated as algo.loss_agg says */
  double kl_loss;       /* algo.kl.coef times the KL, likewise; 0 unless algo.kl.where = loss */
  double kl;            /* mean of algo.kl.estimator */
  double ppo_kl;        /* mean of old - current log-prob, nats */
  double ppo_kl_k3;     /* mean of r - 1 - log r */
  double clip_fraction; /* 0..1 */
  double dual_clip_fraction; /* 0..1 */
  double ratio_max;          /* the largest ratio */
  uint64_t num_tokens;       /* that carry loss */
  uint64_t num_rejected;     /* tokens that algo.correction.* took out */
} rl_algo_loss;

/* Zeroes `size` bytes and sets struct_size. NULL or a size too small has no effect. Thread: any;
 * callback-safe. */
RL_API void rl_algo_loss_init(rl_algo_loss* loss, size_t size);

/* Advantages of every token from tokens->rewards, by algo.advantage with shaping, KL in the reward
 * and whitening; 0 where there is no loss. num_advantages is num_tokens. RL_NON_FINITE names a
 * reward or a penalty that is not finite. options may be NULL: the defaults. Thread: any;
 * callback-safe. */
RL_API rl_status rl_algo_advantages(const rl_options* options, const rl_algo_tokens* tokens,
                                    double* advantages, size_t num_advantages, rl_error** err);

/* The loss by algo.policy_loss under algo.correction.* and algo.loss_agg, with algo.kl.where = loss
 * the KL term too, and its derivative in the log-prob of each token; num_gradient is num_tokens.
 * Reads logprobs, advantages and, for a KL, ref_logprobs. Log-probs that are not finite give a loss
 * that is not. options may be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_policy_loss(const rl_options* options, const rl_algo_tokens* tokens,
                                     double* gradient, size_t num_gradient, rl_algo_loss* out,
                                     rl_error** err);

/* Factors of the token losses by algo.correction.*, 0 for a token that carries no loss, and in keep
 * 1 for a token that carries loss after all rejections, else 0. num_weights and num_keep are
 * num_tokens. Reads logprobs, and advantages for algo.correction.opsm_delta. options may be NULL:
 * the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_corrections(const rl_options* options, const rl_algo_tokens* tokens,
                                     double* weights, size_t num_weights, uint8_t* keep,
                                     size_t num_keep, rl_error** err);

/* The weight of each token under algo.loss_agg: a loss is the sum of weights times token losses.
 * num_weights is num_tokens. options may be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_weights(const rl_options* options, const rl_algo_tokens* tokens,
                                 double* weights, size_t num_weights, rl_error** err);

/* The KL of each token by algo.kl.estimator from logprobs and ref_logprobs, and its derivative in
 * the log-prob; 0 where there is no loss. num_values and num_gradient are num_tokens. options may
 * be NULL: the defaults. Thread: any; callback-safe. */
RL_API rl_status rl_algo_kl(const rl_options* options, const rl_algo_tokens* tokens, double* values,
                            size_t num_values, double* gradient, size_t num_gradient,
                            rl_error** err);

/* Advantages by the host, where algo.advantage = custom: called once for a batch, before anything
 * of its step has changed. tokens has lengths, groups, sample_ids, mask, truncated, the stored
 * log-probs as old_logprobs and rollout_logprobs, rewards after shaping and the KL, and with
 * algo.kl.where = reward ref_logprobs; the rest is NULL. advantages, [num_tokens], are 0 at first;
 * what is written for masked tokens is not read. Arrays end with the call. 0 is success; any other
 * result fails the step as RL_CANCELLED, and an advantage that is not finite as RL_NON_FINITE
 * naming the sample. */
typedef int32_t (*rl_advantage_fn)(void* user_data, const rl_algo_tokens* tokens,
                                   double* advantages);

/* The policy loss by the host, where algo.policy_loss = custom: called once for each minibatch.
 * tokens has lengths, groups, sample_ids, mask, logprobs of the current policy, old_logprobs,
 * rollout_logprobs and advantages; the rest is NULL. weights, [num_tokens], are those of
 * algo.loss_agg times the corrections of algo.correction.*: a loss that is the mean of token losses
 * is the sum of weights times these; 0 for a masked token, whose gradient is not read. gradient,
 * [num_tokens], 0 at first, receives the derivative of *loss in each log-prob; the KL term and the
 * entropy bonus are added by librl. Arrays end with the call. 0 is success. With any other result,
 * or a loss or gradient that is not finite, the optimizer step of the minibatch is skipped and
 * counted in training/skipped_steps. */
typedef int32_t (*rl_loss_fn)(void* user_data, const rl_algo_tokens* tokens, const double* weights,
                              double* loss, double* gradient);

/* Sets the functions for algo.advantage = custom and algo.policy_loss = custom. user_data is
 * consumed, also on failure. Those of a pipeline are set before rl_pipeline_start, later it is
 * RL_FAILED_PRECONDITION, and are called on the library's thread; a start without them is
 * RL_FAILED_PRECONDITION too. Those of a trainer hold from its next step on and are called on the
 * thread that calls rl_trainer_step, which without them is RL_FAILED_PRECONDITION. */

/* The advantages of a pipeline. fn may be NULL: there is none then. Thread: any. */
RL_API rl_status rl_pipeline_set_advantage(rl_pipeline* pipeline, rl_advantage_fn fn,
                                           void* user_data, rl_destroy_fn destroy, rl_error** err);

/* The policy loss of a pipeline. fn may be NULL: there is none then. Thread: any. */
RL_API rl_status rl_pipeline_set_loss(rl_pipeline* pipeline, rl_loss_fn fn, void* user_data,
                                      rl_destroy_fn destroy, rl_error** err);

/* The advantages of a trainer. fn may be NULL: there is none then. Thread: any. */
RL_API rl_status rl_trainer_set_advantage(rl_trainer* trainer, rl_advantage_fn fn, void* user_data,
                                          rl_destroy_fn destroy, rl_error** err);

/* The policy loss of a trainer. fn may be NULL: there is none then. Thread: any. */
RL_API rl_status rl_trainer_set_loss(rl_trainer* trainer, rl_loss_fn fn, void* user_data,
                                     rl_destroy_fn destroy, rl_error** err);

/* ---- profiler ---- */

/* Records what the objects of a runtime do, as spans and counters on lanes, from its creation to
 * its end. */

/* Starts recording. It replaces the runtime's earlier profiler, if any. Thread: any. */
RL_API rl_status rl_profiler_create(rl_runtime* runtime, rl_profiler** out, rl_error** err);

/* Ends recording and frees the record. Thread: any. */
RL_API void rl_profiler_destroy(rl_profiler* profiler);

/* Writes what was recorded so far as a Chrome trace, which Perfetto opens; the file appears by one
 * rename. Thread: any. */
RL_API rl_status rl_profiler_write_trace(const rl_profiler* profiler, const char* path,
                                         size_t path_len, rl_error** err);

/* Spans and counters recorded so far, and those dropped because the record is full. Thread: any. */
RL_API rl_status rl_profiler_count(const rl_profiler* profiler, uint64_t* num_records,
                                   uint64_t* num_dropped, rl_error** err);

/* Writes what a pipeline did as one HTML file that loads nothing and runs no script: curves of its
 * steps from metrics.jsonl, evaluations from metrics.eval_jsonl, answers from metrics.samples,
 * memory as planned and as held, settings, and where the time went. Those files are read as they
 * are on disk; the page names what it lacks and what it could not read. profiler may be NULL: the
 * time is then that of profiler.timeline.enable, if set. Paths in options are cut to their last
 * part. A report of a running pipeline shows the steps so far; it makes nothing wait. The file
 * appears by one rename. Thread: any. */
RL_API rl_status rl_profiler_write_report(const rl_pipeline* pipeline, const rl_profiler* profiler,
                                          const char* path, size_t path_len, rl_error** err);

/* Time by span name, as lines "name count total_ns longest_ns" in name order. Thread: any. */
RL_API rl_status rl_profiler_summary(const rl_profiler* profiler, rl_bytes** out, rl_error** err);

#ifdef __cplusplus
}
#endif

#endif
