# What can be chosen, and the flags that hold for every file of ours.

option(SBX_WERROR "Warnings are errors (CI)" OFF)
option(SBX_TESTS "Build the tests, the probes and the benchmark programs" ON)
option(SBX_STATIC "Link everything statically; off for sanitizers, whose runtimes are shared libraries" ON)
set(SBX_HOST_TOOLS "" CACHE PATH "Folder with embed and mkfilter of a build for this machine; for building for another one")
set(SBX_SANITIZE "" CACHE STRING "Sanitizers for everything but the child: 'address,undefined', or empty")
option(SBX_FUZZ "Build the libFuzzer targets of tests/fuzz (needs clang)" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O2 and assertions stay: -O3 buys a program nothing that waits for system calls, and an assert is a bug found.
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # -g1: lines for stack traces; a fifth less to compile

find_program(CCACHE ccache)
if(CCACHE)
  # With paths below the tree made relative, so that a second checkout of the same sources finds what the first compiled.
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# Paths in messages and symbols are those of the tree, not of the machine that built it: the same source gives the
# same binary in any folder.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}/=
                    -ffile-prefix-map=../=)

add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
                    -Wcast-qual -Wformat=2 -Wimplicit-fallthrough -Wundef -Wvla)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor$<SEMICOLON>-Woverloaded-virtual>)
# g++ 12 takes the destructor of every std::variant that was just moved from for a use of uninitialised memory (GCC bugs
# 80635 and 105562), in code that is nobody's. clang's analyser follows the paths, and looks for the real ones (`make lint`).
add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
if(SBX_WERROR)
  add_compile_options(-Werror)
endif()

# The supervisor reads what a payload wrote, and it stays outside the sandbox: the checks that cost it nothing stay on.
add_compile_options(-fstack-protector-strong -fno-strict-aliasing)
add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
if(SBX_SANITIZE)
  add_compile_options(-fsanitize=${SBX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SBX_SANITIZE})
  set(SBX_STATIC OFF)
else()
  # Not with sanitizers: the checked variants of memcpy and its like hide accesses from them.
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
if(SBX_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Functions that nobody calls do not reach the binary.
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now)

include_directories(${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
configure_file(${CMAKE_SOURCE_DIR}/cmake/version.h.in ${CMAKE_BINARY_DIR}/generated/version.h @ONLY)

# static-pie and not plain static: the supervisor reads hostile bytes, so its addresses should differ from run to run.
# What it costs, measured on a binary with the same libraries (2,000 starts each, one after the other in turn): 735 us
# from vfork to exit against 717 us, and 60 KiB of relocations.
add_compile_options(-fPIE)
# The functions of a start lie side by side, which saves a page fault in four; tools/start_order.py says more.
include(CheckLinkerFlag)
set(SBX_START_ORDER ${CMAKE_SOURCE_DIR}/cmake/start_order.ld)
check_linker_flag(CXX "-Wl,-T,${SBX_START_ORDER}" SBX_LINKER_TAKES_ORDER)
function(sbx_link_static target)
  if(SBX_STATIC)
    target_link_options(${target} PRIVATE -static-pie)
    if(SBX_LINKER_TAKES_ORDER)
      target_link_options(${target} PRIVATE -Wl,-T,${SBX_START_ORDER})
      set_target_properties(${target} PROPERTIES LINK_DEPENDS ${SBX_START_ORDER})
    endif()
  endif()
endfunction()
