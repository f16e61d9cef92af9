# The code of GPUs, in two forms: the plugin librl_cuda.so, built where nvcc is found, and a library
# of the same sources over an emulated GPU (tests/cuda), built with the tests.
file(GLOB_RECURSE RL_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cc
  ${PROJECT_SOURCE_DIR}/src/ops/cuda/*.cc)
file(GLOB_RECURSE RL_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.cu)

set(RL_CUDA AUTO CACHE STRING
  "Build librl_cuda.so: ON, OFF, or AUTO, which is where nvcc 12.0 or later is found")

# Whether the plugin is built, the toolkit's version and folders, and the architectures that the
# plugin has code for.
function(rl_find_toolkit)
  set(RL_CUDA_BUILT FALSE PARENT_SCOPE)
  if(NOT RL_CUDA OR RL_SANITIZE)
    return()
  endif()
  find_program(RL_NVCC nvcc HINTS /usr/local/cuda/bin)
  set(version 0)
  if(RL_NVCC)
    execute_process(COMMAND ${RL_NVCC} --version OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" matched "${text}")
    set(version ${CMAKE_MATCH_1})
  endif()
  if(version VERSION_LESS 12.0)
    if(RL_CUDA STREQUAL "ON")
      message(FATAL_ERROR "RL_CUDA is ON, but there is no nvcc 12.0 or later; RL_NVCC is its path")
    endif()
    message(STATUS "No nvcc 12.0 or later: librl_cuda.so is not built")
    return()
  endif()
  set(architectures 80 90a)
  set(code_for "{8, 0, false}, {9, 0, true}")
  if(version VERSION_GREATER_EQUAL 12.8)
    list(APPEND architectures 120)
    string(APPEND code_for ", {12, 0, false}")
  endif()
  get_filename_component(nvcc ${RL_NVCC} REALPATH)
  get_filename_component(root ${nvcc}/../.. REALPATH)
  find_path(RL_CUDA_INCLUDE cuda_runtime_api.h HINTS ${root}/include REQUIRED)
  find_library(RL_CUDART cudart_static HINTS ${root}/lib64 ${root}/lib REQUIRED)
  message(STATUS "librl_cuda.so: nvcc ${version}, architectures ${architectures}")
  set(RL_CUDA_ARCHITECTURES ${architectures} PARENT_SCOPE)
  set(RL_CUDA_CODE_FOR ${code_for} PARENT_SCOPE)
  set(RL_CUDA_BUILT TRUE PARENT_SCOPE)
endfunction()

# rl_nvcc_kernels(OUT FOLDER source.cu... [INCLUDE folder...]): compiles each with nvcc for all
# architectures, into the folder. What ptxas says of registers and shared memory lies beside each
# object (tools/check_kernels.py reads it). Warnings are errors, and a multiply-add is fused only
# where the source asks for it.
function(rl_nvcc_kernels out folder)
  cmake_parse_arguments(ARG "" "" "INCLUDE" ${ARGN})
  list(TRANSFORM ARG_INCLUDE PREPEND -I)
  set(gencode)
  foreach(architecture IN LISTS RL_CUDA_ARCHITECTURES)
    list(APPEND gencode -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  set(host -Wall,-Wextra,-Werror,-fPIC,-fvisibility=hidden,-ffp-contract=off)
  string(APPEND host ,-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  file(MAKE_DIRECTORY ${folder})
  foreach(source IN LISTS ARG_UNPARSED_ARGUMENTS)
    get_filename_component(name ${source} NAME_WE)
    set(object ${folder}/${name}.o)
    add_custom_command(OUTPUT ${object} BYPRODUCTS ${folder}/${name}.ptxas
      COMMAND ${PROJECT_SOURCE_DIR}/cmake/logged.sh ${folder}/${name}.ptxas ${RL_CCACHE} ${RL_NVCC}
        -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 -DNDEBUG -fmad=false --expt-relaxed-constexpr
        -Werror all-warnings -Xcompiler ${host} -Xptxas -v ${gencode} -I${PROJECT_SOURCE_DIR}/src
        ${ARG_INCLUDE} -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/logged.sh DEPFILE ${object}.d
      COMMENT "Compiling ${name}.cu for sm_80 and later" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# librl_cuda.so.N. It needs no library of the toolkit.
function(rl_add_cuda_plugin)
  rl_nvcc_kernels(objects ${PROJECT_BINARY_DIR}/kernels ${RL_CUDA_KERNELS})
  set(RL_CUDA_KERNEL_OBJECTS ${objects} PARENT_SCOPE)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(rl_cuda SHARED ${RL_CUDA_SOURCES} ${objects})
  rl_plugin(rl_cuda cuda ${PROJECT_BINARY_DIR}/cuda)
  target_include_directories(rl_cuda SYSTEM PRIVATE ${RL_CUDA_INCLUDE})
  target_compile_definitions(rl_cuda PRIVATE "RL_CUDA_CODE_FOR=${RL_CUDA_CODE_FOR}")
  target_link_options(rl_cuda PRIVATE -Wl,--gc-sections)
  target_link_libraries(rl_cuda PRIVATE rl_ops rl_algo rl_core ${RL_CUDART} ${CMAKE_DL_LIBS} rt)
endfunction()
