// What device/cuda/nccl_library.h declares is what nccl.h declares: numbers, layouts and the
// arguments of functions.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda/nccl_library.h"

namespace rl::cuda {
namespace {

constexpr bool same(NcclResult ours, ncclResult_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(NcclResult::kSuccess, ncclSuccess));
static_assert(same(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(same(NcclResult::kSystemError, ncclSystemError));
static_assert(same(NcclResult::kInternalError, ncclInternalError));
static_assert(same(NcclResult::kInvalidArgument, ncclInvalidArgument));
static_assert(same(NcclResult::kInvalidUsage, ncclInvalidUsage));
static_assert(same(NcclResult::kRemoteError, ncclRemoteError));
static_assert(same(NcclResult::kInProgress, ncclInProgress));
static_assert(static_cast<int>(NcclType::kUint8) == static_cast<int>(ncclUint8));
static_assert(static_cast<int>(NcclType::kFloat32) == static_cast<int>(ncclFloat32));
static_assert(static_cast<int>(NcclType::kBfloat16) == static_cast<int>(ncclBfloat16));
static_assert(static_cast<int>(NcclReduction::kSum) == static_cast<int>(ncclSum));
static_assert(sizeof(NcclResult) == sizeof(ncclResult_t) &&
              sizeof(NcclType) == sizeof(ncclDataType_t) &&
              sizeof(NcclReduction) == sizeof(ncclRedOp_t));

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && alignof(NcclId) == alignof(ncclUniqueId));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(kNcclVersion == NCCL_VERSION(2, 14, 0));
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(NcclConfig().magic == kTheirs.magic && NcclConfig().undefined == kTheirs.blocking);

template <typename T>
struct Is {
  using Type = T;
};
// The type of ours that stands for one of theirs.
template <typename T>
struct Ours : Is<T> {};
template <typename T>
using OursOf = typename Ours<T>::Type;
template <typename T>
struct Ours<T*> {
  using Type = OursOf<T>*;
};
template <>
struct Ours<ncclComm> : Is<NcclComm> {};
template <>
struct Ours<ncclUniqueId> : Is<NcclId> {};
template <>
struct Ours<ncclConfig_t> : Is<NcclConfig> {};
template <>
struct Ours<ncclResult_t> : Is<NcclResult> {};
template <>
struct Ours<ncclDataType_t> : Is<NcclType> {};
template <>
struct Ours<ncclRedOp_t> : Is<NcclReduction> {};
template <typename Result, typename... Args>
struct Ours<Result (*)(Args...)> {
  using Type = OursOf<Result> (*)(OursOf<Args>...);
};

#define RL_NCCL_FACT(Result, name, ...) \
  static_assert(std::is_same_v<decltype(NcclFunctions::name), OursOf<decltype(&nccl##name)>>);
RL_NCCL_FUNCTIONS(RL_NCCL_FACT)
#undef RL_NCCL_FACT

}  // namespace
}  // namespace rl::cuda
