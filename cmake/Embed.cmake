# sbx_embed(OUT folder…): generated/embedded.cc with every .toml and everything in a hooks or drivers folder below the folders; OUT is set to its path. It is
# rebuilt when one of them changes, comes or goes.
# What reads TOML is part of the tool and of sbx_policy.
set(TOML_SOURCES src/policy/toml_code.cc src/policy/toml_document.cc)
add_library(sbx_toml OBJECT ${TOML_SOURCES})
target_link_libraries(sbx_toml PUBLIC sbx_base)
if(SBX_HOST_TOOLS)
  add_executable(embed IMPORTED)
  set_target_properties(embed PROPERTIES IMPORTED_LOCATION ${SBX_HOST_TOOLS}/embed)
else()
  add_executable(embed tools/embed.cc $<TARGET_OBJECTS:sbx_toml>)
  target_link_libraries(embed PRIVATE sbx_base)
  set_target_properties(embed PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
endif()

function(sbx_embed out)
  set(files "")
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.toml
         ${CMAKE_SOURCE_DIR}/${folder}/*/hooks/* ${CMAKE_SOURCE_DIR}/${folder}/*/drivers/*)
    list(APPEND files ${found})
  endforeach()
  list(FILTER files EXCLUDE REGEX "__pycache__")
  list(SORT files)
  set(source ${CMAKE_BINARY_DIR}/generated/embedded.cc)
  # The list itself is a dependency: without it a removed file would stay in the binary.
  set(list_file ${CMAKE_BINARY_DIR}/generated/embedded.list)
  string(REPLACE ";" "\n" lines "${files}")
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${lines}\n" @ONLY)
  add_custom_command(
    OUTPUT ${source}
    COMMAND embed ${source} ${list_file}
    DEPENDS embed ${list_file} ${files}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    COMMENT "Embedding policies and manifests"
    VERBATIM)
  set(${out} ${source} PARENT_SCOPE)
endfunction()
