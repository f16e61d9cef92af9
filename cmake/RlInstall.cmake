# Installation, by component: runtime (librl.so.N), cuda (librl_cuda.so.N), gloo (librl_gloo.so.N),
# development (header, librl.so, librl.a, rl.pc, a CMake package, document schemas) and
# documentation (licences, examples and the bindings that they use). rl.pc and the package find
# their prefix from their own location, so an installed tree may be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(dir CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR
    CMAKE_INSTALL_DOCDIR)
  if(IS_ABSOLUTE "${${dir}}")
    message(FATAL_ERROR
      "${dir} is ${${dir}}; it must be relative to the prefix, so that the installed tree can be "
      "moved")
  endif()
endforeach()

install(TARGETS rl
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
foreach(plugin cuda gloo)
  if(TARGET rl_${plugin})
    install(TARGETS rl_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${plugin}
      OPTIONAL NAMELINK_SKIP)
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/rl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development)
set(schema_dir ${CMAKE_INSTALL_DATADIR}/rl/schemas)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/abi/schemas/ DESTINATION ${schema_dir} COMPONENT development
  FILES_MATCHING PATTERN *.fbs)
if(TARGET rl_static)
  install(FILES ${PROJECT_BINARY_DIR}/src/abi/librl.a DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT development)
endif()

# What a program links in addition to librl.a; librl.so brings it along.
set(RL_STATIC_DEPENDENCIES dnnl tbb hwy zstd pcre2-8 utf8proc)
set(RL_STATIC_RUNTIME gomp stdc++ m pthread)
list(TRANSFORM RL_STATIC_DEPENDENCIES PREPEND -l OUTPUT_VARIABLE libs)
list(TRANSFORM RL_STATIC_RUNTIME PREPEND -l OUTPUT_VARIABLE runtime_libs)
list(JOIN libs " " libs)
list(JOIN runtime_libs " " runtime_libs)
set(RL_PC_LIBS_PRIVATE "${libs} ${runtime_libs}")

set(rl_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH RL_PC_PREFIX /prefix/${rl_pc_dir} /prefix)
string(REGEX REPLACE "/$" "" RL_PC_PREFIX ${RL_PC_PREFIX})
set(RL_PC_SCHEMA_DIR ${schema_dir})
file(STRINGS ${PROJECT_SOURCE_DIR}/include/rl.h abi_numbers
  REGEX "^#define RL_ABI_M(AJOR|INOR) [0-9]+$")
string(REGEX REPLACE "[^0-9]+([0-9]+)" "\\1." RL_PC_ABI_VERSION "${abi_numbers}")
string(REGEX REPLACE "\\.$" "" RL_PC_ABI_VERSION "${RL_PC_ABI_VERSION}")
configure_file(${PROJECT_SOURCE_DIR}/pkgconfig/rl.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/rl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/rl.pc DESTINATION ${rl_pc_dir} COMPONENT development)

set(rl_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rl)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rlConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/rlConfig.cmake
  INSTALL_DESTINATION ${rl_cmake_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
# Before 1.0 each minor version is an interface of its own (abi/POLICY.md).
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/rlConfigVersion.cmake
  COMPATIBILITY ${compatibility})
install(FILES ${PROJECT_BINARY_DIR}/cmake/rlConfig.cmake
  ${PROJECT_BINARY_DIR}/cmake/rlConfigVersion.cmake
  DESTINATION ${rl_cmake_dir} COMPONENT development)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation
  USE_SOURCE_PERMISSIONS FILES_MATCHING REGEX
  "/(Makefile|CMakeLists\\.txt|Cargo\\.lock|go\\.mod|py\\.typed|[^/]*\\.(c|h|py|go|rs|toml|sh|yaml|md))$"
  PATTERN target EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN build EXCLUDE)
