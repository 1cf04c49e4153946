# SPDX-License-Identifier: Apache-2.0
# GCC 12 takes a literal before a std::string (`"a" + text`) for a copy that overlaps itself (GCC bug 105651, mended in 13), where
# it inlines the sum. These sources were looked at; others keep the warning.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  return()
endif()
# farcall_no_restrict(FOLDER SOURCES...): FOLDER is that of the CMakeLists.txt that has the target.
function(farcall_no_restrict folder)
  if(NOT IS_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
    return()
  endif()
  foreach(source ${ARGN})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${folder}/${source} DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
      PROPERTIES COMPILE_OPTIONS -Wno-restrict)
  endforeach()
endfunction()
farcall_no_restrict(bench/sharing experiments.cc)
farcall_no_restrict(client-shim core/session/slow_step.cc cuda/state/module.cc)
farcall_no_restrict(tests/jit differential/generator.cc differential/statements.cc)
farcall_no_restrict(tests/transport url_test.cc)
farcall_no_restrict(tests/unit/client nvrtc_scan_test.cc)
farcall_no_restrict(tests/unit/pool core/aging_property_test.cc)
farcall_no_restrict(bench/pool core_bench.cc)
farcall_no_restrict(tests/unit/pool core/selector_test.cc)
