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

# It exports one function. In the build tree it lies in a folder of its own with a link to
# librl.so.N, so that only programs which load librl from there see it; installed it lies beside
# librl.so.N.
function(rl_add_gloo_plugin)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/comm/gloo/*.cc)
  add_library(rl_gloo SHARED ${sources})
  set(map ${PROJECT_SOURCE_DIR}/abi/librl_gloo.map)
  set_target_properties(rl_gloo PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${RL_SOVERSION}
    LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/gloo)
  set(soname librl.so.${RL_SOVERSION})
  add_custom_command(TARGET rl_gloo POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink ../src/abi/${soname}
      ${PROJECT_BINARY_DIR}/gloo/${soname})
  target_include_directories(rl_gloo SYSTEM PRIVATE ${RL_GLOO_INCLUDE})
  target_compile_definitions(rl_gloo PRIVATE RL_VERSION_TEXT="${PROJECT_VERSION}")
  target_link_options(rl_gloo PRIVATE "-Wl,--version-script=${map}" -Wl,--exclude-libs,ALL
    -Wl,-z,nodelete -Wl,--as-needed -Wl,--gc-sections)
  if(NOT RL_SANITIZE)
    target_link_options(rl_gloo PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(rl_gloo PRIVATE rl_comm rl_core ${RL_GLOO_LIBRARY})
endfunction()
