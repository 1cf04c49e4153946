# SPDX-License-Identifier: Apache-2.0
# GCC 12 takes a literal before a std::string (`"a" + text`) for a copy that overlaps itself (GCC bug 105651, mended in 13), where
# it inlines the sum. These sources were looked at; others keep the warning.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  return()
endif()
function(farcall_folders_below folder result)
  get_property(all DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(one ${all})
    farcall_folders_below(${one} more)
    list(APPEND all ${more})
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()
farcall_folders_below(${PROJECT_SOURCE_DIR} folders)
# farcall_no_restrict(FOLDER SOURCES...): FOLDER is that of the CMakeLists.txt that has the target. Not whether the build has
# such a folder: an earlier one may have made it, with tests.
function(farcall_no_restrict folder)
  if(NOT ${PROJECT_SOURCE_DIR}/${folder} IN_LIST folders)
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
