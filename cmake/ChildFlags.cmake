# src/ns/child.cc runs between clone and exec, on memory that it may share with a parent of many threads: nothing of a
# runtime may be called there. tests/lint/child_symbols.py reads the object's undefined symbols. No sanitizer and no
# coverage (their runtimes take locks), no stack protector (its failure path prints and aborts through libc), no
# _FORTIFY_SOURCE (the checked memcpy does the same), no unwinding. -O2 in every build: unoptimised code calls helpers
# that optimised code has inlined.
set(child_source ${CMAKE_SOURCE_DIR}/src/ns/child.cc)
if(EXISTS ${child_source})
  set(child_flags -O2 -fno-sanitize=all -fno-stack-protector -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables
                  -fno-unwind-tables -fno-threadsafe-statics -U_FORTIFY_SOURCE -U_GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND child_flags -Wmaybe-uninitialized)  # off elsewhere because of std::variant; there is none here
  endif()
  if(SBX_FUZZ)
    list(APPEND child_flags -fno-sanitize-coverage=trace-pc-guard,inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
  endif()
  set_source_files_properties(${child_source} PROPERTIES COMPILE_OPTIONS "${child_flags}")
endif()
