# sbx_folder(NAME FOLDER [EXCLUDE file…] [GENERATED file…] [LINK target…]): every .cc of one folder and those below it
# as a static library. A new file needs no edit here. A folder without files is an empty library, so that what links it stays as
# it is.
function(sbx_folder name folder)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "EXCLUDE;GENERATED;LINK")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  if(ARG_EXCLUDE)
    list(REMOVE_ITEM sources ${ARG_EXCLUDE})
  endif()
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  add_library(${name} STATIC ${sources} ${ARG_GENERATED})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()
