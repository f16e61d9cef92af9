# Compiler settings shared by every target. Floating point is strict: fused multiply-add happens
# only where the source requests it, so that two code paths with the same written order give the
# same bits.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_compile_options(-Wall -Wextra -Werror -ffp-contract=off -fno-math-errno)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)

if(RL_SANITIZE)
  # With the instrumentation, GCC 12 reports members of std::variant as uninitialised.
  add_compile_options(-fsanitize=${RL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${RL_SANITIZE})
  add_compile_definitions(RL_SANITIZED=1)
endif()

# Keeps paths of the build machine out of binaries: source file names are relative to the source
# tree, generated ones to the build tree, both in absolute form and in the relative form that a
# compiler cache may pass on.
file(RELATIVE_PATH source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
string(REGEX REPLACE "/$" "" source_from_build ${source_from_build})
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
  -ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/ -ffile-prefix-map=${source_from_build}/=)

find_program(RL_CCACHE ccache)
if(RL_CCACHE)
  # Required by ccache for precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RL_CCACHE})
endif()
