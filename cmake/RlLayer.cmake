# rl_layer(NAME DEPS folder... LIBS target...)
# One static library rl_NAME from every .cc below src/NAME, except those of folders named cuda or
# gloo, of which RlCuda.cmake and RlGloo.cmake make plugins. DEPS are the top folders named in its
# rows of src/LAYERS.
function(rl_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  list(FILTER sources EXCLUDE REGEX "(^|/)(cuda|gloo)/")
  add_library(rl_${name} STATIC ${sources})
  target_include_directories(rl_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND rl_)
  target_link_libraries(rl_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} Threads::Threads)
endfunction()

# rl_schemas(NAME schema...): C++ accessors of abi/schemas/schema.fbs, included by layer NAME (and
# by what links it) as <schemas/schema_generated.h>. They are generated at build time, so they
# cannot differ from the schema.
function(rl_schemas name)
  set(out ${PROJECT_BINARY_DIR}/generated/schemas)
  foreach(schema IN LISTS ARGN)
    set(source ${PROJECT_SOURCE_DIR}/abi/schemas/${schema}.fbs)
    add_custom_command(OUTPUT ${out}/${schema}_generated.h
      COMMAND ${RL_FLATC} --cpp --cpp-std c++17 --scoped-enums --warnings-as-errors -o ${out}
      ${source} DEPENDS ${source} VERBATIM)
    list(APPEND headers ${out}/${schema}_generated.h)
  endforeach()
  add_custom_target(rl_${name}_schemas DEPENDS ${headers})
  add_dependencies(rl_${name} rl_${name}_schemas)
  target_include_directories(rl_${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated
    ${RL_FLATBUFFERS_INCLUDE})
endfunction()

# How tests are compiled: the location of their files, and little optimisation, because compiling
# them takes longer than running them.
function(rl_compile_as_test target)
  target_compile_definitions(${target} PRIVATE RL_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures"
    RL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # At this level GCC 12 mistakes the small buffer of a std::string for the string's bounds.
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1> -Wno-array-bounds -Wno-stringop-overflow)
endfunction()

# Builds the tests with the label "threads".
add_custom_target(tests_threads)

# Seconds that a test program may take. ThreadSanitizer makes programs slower by five to fifteen
# times.
set(RL_TEST_SECONDS 900)
if(RL_SANITIZE STREQUAL "thread")
  set(RL_TEST_SECONDS 5400)
endif()

# rl_test(NAME DEPS folder... [LIBS target...] [THREADS]): one GoogleTest binary NAME_test from
# every *_test.cc of the folder. THREADS: it is multi-threaded and also runs under ThreadSanitizer
# (label "threads").
function(rl_test name)
  cmake_parse_arguments(ARG "THREADS" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  list(TRANSFORM ARG_DEPS PREPEND rl_)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} ${ARG_LIBS} GTest::gtest_main
    nlohmann_json::nlohmann_json)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  rl_compile_as_test(${name}_test)
  target_precompile_headers(${name}_test REUSE_FROM tests_precompiled)
  add_test(NAME ${name} COMMAND ${name}_test)
  set(labels unit)
  if(ARG_THREADS)
    list(APPEND labels threads)
    add_dependencies(tests_threads ${name}_test)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${RL_TEST_SECONDS})
endfunction()

# rl_test_avx2(NAME [EXCEPT filter]): runs NAME_test again with the instruction set capped at AVX2,
# the path of older machines (tests/support/compute_dtypes.h), except tests of features that such
# machines lack. Not labelled "unit": sanitizers cannot see into oneDNN's generated code, so they
# would learn nothing new.
function(rl_test_avx2 name)
  cmake_parse_arguments(ARG "" "EXCEPT" "" ${ARGN})
  set(filter "")
  if(ARG_EXCEPT)
    set(filter --gtest_filter=-${ARG_EXCEPT})
  endif()
  add_test(NAME ${name}_avx2 COMMAND ${name}_test ${filter})
  set_tests_properties(${name}_avx2 PROPERTIES LABELS isa TIMEOUT 900
    ENVIRONMENT DNNL_MAX_CPU_ISA=AVX2)
endfunction()
