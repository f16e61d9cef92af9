# A plugin: a library of its own that librl.so.N finds at run time, with the one function that
# abi/librl_NAME.map exports. In the build tree it lies in a folder of its own with a link to
# librl.so.N, so that only programs which load librl from there see it; installed it lies beside
# librl.so.N.
function(rl_plugin target name folder)
  set(map ${PROJECT_SOURCE_DIR}/abi/librl_${name}.map)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME rl_${name} VERSION ${PROJECT_VERSION}
    SOVERSION ${RL_SOVERSION} LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${folder})
  set(soname librl.so.${RL_SOVERSION})
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink ../src/abi/${soname} ${folder}/${soname})
  target_compile_definitions(${target} PRIVATE RL_VERSION_TEXT="${PROJECT_VERSION}")
  target_link_options(${target} PRIVATE "-Wl,--version-script=${map}" -Wl,--exclude-libs,ALL
    -Wl,-z,nodelete -Wl,--as-needed)
  if(NOT RL_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
