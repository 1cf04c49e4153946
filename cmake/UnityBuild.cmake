# SPDX-License-Identifier: Apache-2.0
# With CMAKE_UNITY_BUILD several sources are compiled at a time, as sanitizer builds are best made: most of what a compiler
# does here is to read the same headers again. These sources share a private name with a neighbour, or define weak symbols
# that a neighbour calls, and are compiled alone. The list serves the unit tests of server, transport, proto and quota; the
# rest of the tree may need more names.
if(NOT CMAKE_UNITY_BUILD)
  return()
endif()
# farcall_compile_alone(FOLDER SOURCES...): FOLDER is that of the CMakeLists.txt that has the target.
function(farcall_compile_alone folder)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    set_source_files_properties(${source} DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
set(generated ${CMAKE_BINARY_DIR}/generated)
farcall_compile_alone(cpu-device/driver ${generated}/cpu-device/default_entries.cc entry/graph_params.cc ipc_memory.cc sparse.cc)
farcall_compile_alone(cpu-device/nvml ${generated}/cpu-device/nvml_default_entries.cc)
farcall_compile_alone(cpu-device/exec device_output.cc runtime_async.cc runtime_tensor.cc runtime_texture.cc)
farcall_compile_alone(cpu-device/images elf.cc host_object.cc)
farcall_compile_alone(cpu-device/jit regions/thread_stride.cc regions/warp_marks.cc window_checks.cc)
farcall_compile_alone(cpu-device/ptx operand_parser.cc parser.cc)
farcall_compile_alone(cpu-device/compilers device_linker.cc)
farcall_compile_alone(client-shim cuda/graph_learn.cc cuda/notifications.cc)
farcall_compile_alone(client-shim/cudart copy.cc graph_nodes.cc memcpy.cc)
# A library's calls and its first version's prototypes contradict each other.
get_property(thin DIRECTORY ${PROJECT_SOURCE_DIR}/client-shim/thin PROPERTY BUILDSYSTEM_TARGETS)
set_target_properties(${thin} PROPERTIES UNITY_BUILD OFF)
file(GLOB generated_calls ${generated}/server/*_calls.cc)
farcall_compile_alone(server ${generated_calls} leases/lease_scheduler.cc leases/swap_scheduler.cc library/library_cudnn_folded.cc library/library_cusolver.cc
  toolchain/nvjitlink.cc toolchain/nvrtc.cc supervisor/image_writer.cc supervisor/serve_options.cc calls/launch.cc)
farcall_compile_alone(bench driver_figures.cc)
farcall_compile_alone(cli devices.cc run.cc)
farcall_compile_alone(cli/control pool_status.cc)
