// Launches. A shape is checked here, because CUDA's own refusal does not name its parts.
#include "device/cuda/cuda_calls.h"

namespace rl::cuda {
namespace {

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1, kMaxGridYZ = 65535;
constexpr uint64_t kDefaultShared = 48 << 10;

std::string shape_of(const KernelStart& s) {
  return str("kernel ", s.name, ", grid ", s.grid_x, " x ", s.grid_y, " x ", s.grid_z, ", threads ",
             s.threads, ", shared memory ", s.shared_bytes, " bytes");
}

bool fits(const KernelStart& s) {
  return s.threads > 0 && s.threads <= 1024 && s.threads % 32 == 0 && s.grid_x >= 0 &&
         s.grid_x <= kMaxGridX && s.grid_y >= 0 && s.grid_y <= kMaxGridYZ && s.grid_z >= 0 &&
         s.grid_z <= kMaxGridYZ;
}

}  // namespace

void launch_kernel(const KernelStart& s, void* params) {
  if (!fits(s)) throw Error(Code::kInternal, str("cuda: no device has this shape: ", shape_of(s)));
  if (s.grid_x == 0 || s.grid_y == 0 || s.grid_z == 0) return;
  if (s.shared_bytes > kDefaultShared) {
    RL_CUDA(cudaFuncSetAttribute(s.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(s.shared_bytes)),
            shape_of(s));
  }
  const dim3 grid(static_cast<unsigned>(s.grid_x), static_cast<unsigned>(s.grid_y),
                  static_cast<unsigned>(s.grid_z));
  const dim3 block(static_cast<unsigned>(s.threads), 1, 1);
  void* arguments[] = {params};
  RL_CUDA(cudaLaunchKernel(s.kernel, grid, block, arguments, s.shared_bytes, s.stream),
          shape_of(s));
}

}  // namespace rl::cuda
