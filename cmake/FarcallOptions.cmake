# SPDX-License-Identifier: Apache-2.0
# Options, compile flags and the output tree every component shares.
option(FARCALL_CPU_DEVICE "Build the CPU device (needs LLVM 19)" ON)
option(FARCALL_PRIVATE_TABLES "Answer the export tables a stock cudart asks for" ON)
option(FARCALL_OLD_GLIBC "Let the shim and farcall run on glibc 2.28 or newer, whatever they are built on" ON)
option(FARCALL_TESTS "Build the tests" ON)
set(FARCALL_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations)

if(FARCALL_SANITIZE)
  add_compile_options(-fsanitize=${FARCALL_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${FARCALL_SANITIZE})
endif()

find_program(FARCALL_CCACHE ccache)
if(FARCALL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FARCALL_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${FARCALL_CCACHE})
endif()

# The build tree has the shape of the installed one, so both run in place.
set(FARCALL_BIN_DIR ${CMAKE_BINARY_DIR}/bin)
set(FARCALL_LIB_DIR ${CMAKE_BINARY_DIR}/lib/farcall)
set(FARCALL_DEVICE_DIR ${CMAKE_BINARY_DIR}/lib/farcall/device)
set(FARCALL_LIBEXEC_DIR ${CMAKE_BINARY_DIR}/libexec/farcall)
