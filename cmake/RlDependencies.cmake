# Third-party libraries. Debian 12 packages are the floor; a missing one is named with its package.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(TBB REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
pkg_check_modules(RL_HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(RL_ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(RL_PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(RL_UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
find_path(RL_DNNL_INCLUDE dnnl.h)
find_library(RL_DNNL_LIBRARY NAMES dnnl)
if(NOT RL_DNNL_INCLUDE OR NOT RL_DNNL_LIBRARY)
  message(FATAL_ERROR
    "oneDNN (v2 API, 2.6.3 or later 2.x) is missing; on Debian install libdnnl-dev")
endif()
find_path(RL_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
find_program(RL_FLATC flatc)
if(NOT RL_FLATBUFFERS_INCLUDE OR NOT RL_FLATC)
  message(FATAL_ERROR
    "FlatBuffers (2.0 or later) is missing; on Debian install libflatbuffers-dev and "
    "flatbuffers-compiler")
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
