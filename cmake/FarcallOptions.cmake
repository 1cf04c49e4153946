# SPDX-License-Identifier: Apache-2.0
# Options, compile flags and the output tree every component shares.
option(FARCALL_CPU_DEVICE "Build the CPU device (needs LLVM 19)" ON)
option(FARCALL_PRIVATE_TABLES "Answer the export tables a stock cudart asks for" ON)
option(FARCALL_OLD_GLIBC "Let the shim and farcall run on glibc 2.28 or newer, whatever they are built on" ON)
option(FARCALL_TESTS "Build the tests" ON)
option(FARCALL_WERROR "Take the compiler's warnings for errors (CI; a user's compiler may warn of more)" OFF)
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
# -O3 takes a sixth to a third longer to compile, for what copies and waits: docs/results has the figures.
add_compile_options($<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O2>)
if(FARCALL_WERROR)
  add_compile_options(-Werror)
endif()

# Targets that no CUDA call and no decision of the pool passes through. Most of their compile time is the optimisation of
# templates that run seldom.
function(farcall_runs_seldom)
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  endforeach()
endfunction()

# Targets that each CUDA call passes through in the program's own thread, where -O3 inlines more (14 % fewer instructions of
# a launch), and those that go over a kernel's threads or a copy's bytes: of g++ 12's levels only -O3 makes vector code of
# a loop whose length is not a constant.
function(farcall_runs_often)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endforeach()
endfunction()

if(FARCALL_SANITIZE)
  # Each finding ends the program: a test cannot pass over one. vptr wants RTTI, which neither the shim nor LLVM has.
  set(sanitize -fsanitize=${FARCALL_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_compile_options(${sanitize} -fno-omit-frame-pointer -g1)
  add_link_options(${sanitize})
endif()
# For what takes structures from applications: a value outside its enumeration is theirs to send and ours to refuse, and
# without -fstrict-enums it is a number like others.
set(FARCALL_ANY_ENUM)
if(FARCALL_SANITIZE MATCHES "undefined")
  set(FARCALL_ANY_ENUM -fno-sanitize=enum)
endif()

# Programs that nobody instrumented, nvcc's and python, load instrumented libraries: the runtime has to be there first. Their
# own leaks are not ours to judge.
set(FARCALL_PRELOAD)
if(FARCALL_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH ${runtime} runtime)
  set(FARCALL_PRELOAD "LD_PRELOAD=${runtime}" "ASAN_OPTIONS=detect_leaks=0")
endif()
function(farcall_tests_run_programs)
  foreach(test ${ARGN})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT ${FARCALL_PRELOAD})
  endforeach()
endfunction()
# ThreadSanitizer's runtime cannot be brought into a program after the fact, so such tests are left out.
set(FARCALL_CAN_RUN_PROGRAMS ON)
if(FARCALL_SANITIZE MATCHES "thread")
  set(FARCALL_CAN_RUN_PROGRAMS OFF)
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
