# SPDX-License-Identifier: Apache-2.0
# The commit of this build, in generated/farcall_commit.h. The version itself is project()'s.
#
# FARCALL_COMMIT names the commit where there is no Git checkout, as in a release archive.
# Also a script: cmake -DSOURCE=DIR -DTARGET=FILE [-DCOMMIT=TEXT] -P FarcallVersion.cmake
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(FARCALL_COMMIT "" CACHE STRING "Commit that `farcall --version` prints (default: Git's)")
  add_custom_target(farcall_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DTARGET=${CMAKE_BINARY_DIR}/generated/farcall_commit.h
            -DCOMMIT=${FARCALL_COMMIT} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/farcall_commit.h
    VERBATIM)
  return()
endif()

if(NOT COMMIT)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
set(text "// Generated.\n#pragma once\n#define FARCALL_COMMIT \"${COMMIT}\"\n")
set(present "")
if(EXISTS ${TARGET})
  file(READ ${TARGET} present)
endif()
if(NOT present STREQUAL text)
  file(WRITE ${TARGET} "${text}")
endif()
