# sbx_seccomp, with the shipped filters compiled while building: libseccomp takes as long for one allow-list as a whole
# sandbox takes to start. tools/mkfilter.cc is made of the very same objects as the library, and writes
# generated/builtin_filters.cc, which completes it.
file(GLOB seccomp_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/seccomp/*.cc)
if(NOT seccomp_sources)
  add_library(sbx_seccomp INTERFACE)
  target_link_libraries(sbx_seccomp INTERFACE sbx_policy third_party_seccomp)
  return()
endif()

add_library(sbx_seccomp_core OBJECT ${seccomp_sources})
target_link_libraries(sbx_seccomp_core PUBLIC sbx_policy sbx_base third_party_seccomp third_party_md)
add_library(sbx_seccomp STATIC $<TARGET_OBJECTS:sbx_seccomp_core>)
target_link_libraries(sbx_seccomp PUBLIC sbx_policy sbx_base third_party_seccomp third_party_md)

set(filter_groups ${CMAKE_SOURCE_DIR}/policies/seccomp/groups.toml)
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/mkfilter.cc AND EXISTS ${filter_groups})
  if(SBX_HOST_TOOLS)
    add_executable(mkfilter IMPORTED)
    set_target_properties(mkfilter PROPERTIES IMPORTED_LOCATION ${SBX_HOST_TOOLS}/mkfilter)
  else()
    add_executable(mkfilter tools/mkfilter.cc $<TARGET_OBJECTS:sbx_seccomp_core>)
    target_link_libraries(mkfilter PRIVATE sbx_policy sbx_base third_party_seccomp third_party_md)
    set_target_properties(mkfilter PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
  endif()

  file(GLOB filter_policies CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/policies/seccomp/*.toml)
  list(REMOVE_ITEM filter_policies ${filter_groups})
  set(FILTER_SOURCE ${CMAKE_BINARY_DIR}/generated/builtin_filters.cc)
  add_custom_command(
    OUTPUT ${FILTER_SOURCE}
    COMMAND mkfilter ${FILTER_SOURCE} ${filter_groups} ${filter_policies}
    DEPENDS mkfilter ${filter_groups} ${filter_policies}
    COMMENT "Compiling the shipped system call filters"
    VERBATIM)
  target_sources(sbx_seccomp PRIVATE ${FILTER_SOURCE})
endif()
