# The backend over gloo is a plugin, librl_gloo.so.N, built where libgloo is found. librl.so itself
# does not need it.
set(RL_GLOO AUTO CACHE STRING
  "Build librl_gloo.so: ON, OFF, or AUTO, which is where libgloo-dev is installed")

function(rl_find_gloo)
  set(RL_GLOO_BUILT FALSE PARENT_SCOPE)
  if(NOT RL_GLOO)
    return()
  endif()
  find_path(RL_GLOO_INCLUDE gloo/transport/unbound_buffer.h)
  find_library(RL_GLOO_LIBRARY NAMES gloo)
  if(NOT RL_GLOO_INCLUDE OR NOT RL_GLOO_LIBRARY)
    if(RL_GLOO STREQUAL "ON")
      message(FATAL_ERROR "RL_GLOO is ON, but gloo is missing; on Debian install libgloo-dev")
    endif()
    message(STATUS "No gloo (on Debian libgloo-dev): librl_gloo.so is not built")
    return()
  endif()
  set(RL_GLOO_BUILT TRUE PARENT_SCOPE)
endfunction()

function(rl_add_gloo_plugin)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/comm/gloo/*.cc)
  add_library(rl_gloo SHARED ${sources})
  rl_plugin(rl_gloo gloo ${PROJECT_BINARY_DIR}/gloo)
  target_include_directories(rl_gloo SYSTEM PRIVATE ${RL_GLOO_INCLUDE})
  target_link_options(rl_gloo PRIVATE -Wl,--gc-sections)
  target_link_libraries(rl_gloo PRIVATE rl_comm rl_core ${RL_GLOO_LIBRARY})
endfunction()

# Puts the plugin beside a program, which loads it from there.
function(rl_gloo_beside program)
  add_custom_command(TARGET ${program} POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
    $<TARGET_FILE:rl_gloo> $<TARGET_FILE_DIR:${program}>/$<TARGET_SONAME_FILE_NAME:rl_gloo>)
  add_dependencies(${program} rl_gloo)
endfunction()
