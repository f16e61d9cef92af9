// cublasLt, opened by its versioned name when a Compute is made, so that nothing links to it. Every
// call goes through a pointer of the table and RL_BLAS(), which checks its status.
#pragma once
#include <cublasLt.h>

#include <functional>
#include <string>

#include "core/error.h"

namespace rl::cuda {

// The functions that products use: RL_BLAS(compute.blas()->MatmulDescCreate(&desc, ...)).
#define RL_BLAS_FUNCTIONS(OP)      \
  OP(Create)                       \
  OP(Destroy)                      \
  OP(GetVersion)                   \
  OP(Matmul)                       \
  OP(MatmulDescCreate)             \
  OP(MatmulDescDestroy)            \
  OP(MatmulDescSetAttribute)       \
  OP(MatrixLayoutCreate)           \
  OP(MatrixLayoutDestroy)          \
  OP(MatrixLayoutSetAttribute)     \
  OP(MatmulPreferenceCreate)       \
  OP(MatmulPreferenceDestroy)      \
  OP(MatmulPreferenceSetAttribute) \
  OP(MatmulAlgoGetHeuristic)       \
  OP(MatmulAlgoGetIds)             \
  OP(MatmulAlgoInit)               \
  OP(MatmulAlgoCheck)              \
  OP(MatmulAlgoConfigSetAttribute) \
  OP(MatmulAlgoConfigGetAttribute) \
  OP(MatmulAlgoCapGetAttribute)

struct BlasFunctions {
#define RL_BLAS_ENTRY(name) decltype(&cublasLt##name) name = nullptr;
  RL_BLAS_FUNCTIONS(RL_BLAS_ENTRY)
#undef RL_BLAS_ENTRY
};

// Where the functions come from.
struct BlasSymbols {
  std::string file;
  std::function<void*(const char* name)> find;  // null: there is no such function
};
// The first library of a known version. Error(kNotInBuild) naming every file that was tried if
// there is none.
BlasSymbols blas_symbols();

// The functions with one handle of the current device. Error(kNotInBuild) if one is absent.
class BlasLibrary {
 public:
  explicit BlasLibrary(const BlasSymbols& symbols);
  ~BlasLibrary();
  BlasLibrary(const BlasLibrary&) = delete;

  const BlasFunctions* operator->() const { return &functions_; }
  cublasLtHandle_t handle() const { return handle_; }
  const std::string& name() const { return name_; }  // with its version

 private:
  BlasFunctions functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::string name_;
};

[[noreturn]] void fail_blas(cublasStatus_t status, const char* statement,
                            const std::string& detail);

}  // namespace rl::cuda

// As RL_CUDA of cuda_calls.h.
#define RL_BLAS(statement, ...)                                                  \
  do {                                                                           \
    const cublasStatus_t rl_blas_status = (statement);                           \
    if (rl_blas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]                    \
      ::rl::cuda::fail_blas(rl_blas_status, #statement, ::rl::str(__VA_ARGS__)); \
  } while (0)
