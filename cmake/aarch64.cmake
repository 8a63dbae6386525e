# Toolchain file: Debian's g++-aarch64-linux-gnu, with the static libraries of tools/arm64-sysroot.sh in SBX_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SBX_SYSROOT)
# Headers of the C library are the cross compiler's own; those of libraries without code are the same for all machines.
set(CMAKE_LIBRARY_PATH ${SBX_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_INCLUDE_PATH ${SBX_SYSROOT}/usr/include)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
find_program(SBX_QEMU qemu-aarch64-static)
if(SBX_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${SBX_QEMU})
endif()
