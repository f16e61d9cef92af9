# The code of GPUs, in two forms: the plugin librl_cuda.so, built where nvcc is found, and a library
# of the same sources over an emulated GPU (tests/cuda), built with the tests.
file(GLOB_RECURSE RL_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cc
  ${PROJECT_SOURCE_DIR}/src/ops/cuda/*.cc)
file(GLOB_RECURSE RL_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)
