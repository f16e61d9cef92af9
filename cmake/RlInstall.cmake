# Installation: the shared library, the one header, rl.pc and a CMake package. Both descriptions find their prefix from
# their own place, so an installed tree may be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT TARGET rl)
  return()
endif()

foreach(dir CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  if(IS_ABSOLUTE "${${dir}}")
    message(FATAL_ERROR "${dir} is ${${dir}}; it must be relative to the prefix, so that the installed tree can be moved")
  endif()
endforeach()

install(TARGETS rl
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/include/rl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

set(rl_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH RL_PC_PREFIX /prefix/${rl_pc_dir} /prefix)
string(REGEX REPLACE "/$" "" RL_PC_PREFIX ${RL_PC_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/pkgconfig/rl.pc.in ${PROJECT_BINARY_DIR}/pkgconfig/rl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/rl.pc DESTINATION ${rl_pc_dir} COMPONENT development)

set(rl_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rl)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rlConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/rlConfig.cmake
  INSTALL_DESTINATION ${rl_cmake_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/rlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/rlConfig.cmake ${PROJECT_BINARY_DIR}/cmake/rlConfigVersion.cmake
  DESTINATION ${rl_cmake_dir} COMPONENT development)
