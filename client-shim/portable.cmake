# SPDX-License-Identifier: Apache-2.0
# Sets FARCALL_ZIG_FOUND and the target farcall_shim_cuda if python3 has ziglang; else says so and leaves both alone.
include(ExternalProject)
foreach(candidate ${PROJECT_SOURCE_DIR}/build/.venv/bin/python3 ${FARCALL_PYTHON} python3)
  find_program(zig_python ${candidate} NO_CACHE)
  if(zig_python)
    execute_process(COMMAND ${zig_python} -m ziglang version RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(FARCALL_ZIG_FOUND ON)
      set(FARCALL_ZIG_FOUND ON PARENT_SCOPE)  # the tests ask for the old glibc then
      break()
    endif()
  endif()
  unset(zig_python)
endforeach()
if(NOT FARCALL_ZIG_FOUND)
  message(WARNING "no ziglang: libcuda.so.1 will need this machine's glibc or newer; run ./scripts/setup, or pip install ziglang")
  return()
endif()

set(zig_dir ${CMAKE_CURRENT_BINARY_DIR}/zig)
foreach(tool cc c++)
  file(WRITE ${zig_dir}/${tool} "#!/bin/sh\nexec '${zig_python}' -m ziglang ${tool} -target x86_64-linux-gnu.2.28 \"$@\"\n")
endforeach()
foreach(tool ar ranlib)
  file(WRITE ${zig_dir}/${tool} "#!/bin/sh\nexec '${zig_python}' -m ziglang ${tool} \"$@\"\n")
endforeach()
file(CHMOD ${zig_dir}/cc ${zig_dir}/c++ ${zig_dir}/ar ${zig_dir}/ranlib
  PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# Always asked: the inner build knows what is out of date.
ExternalProject_Add(farcall_shim_portable
  SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/portable
  BINARY_DIR ${CMAKE_CURRENT_BINARY_DIR}/portable
  CMAKE_ARGS -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_C_COMPILER=${zig_dir}/cc -DCMAKE_CXX_COMPILER=${zig_dir}/c++
    -DCMAKE_AR=${zig_dir}/ar -DCMAKE_RANLIB=${zig_dir}/ranlib -DFARCALL_SODIUM=${FARCALL_SODIUM}
    -DFARCALL_CUDA_INCLUDE=${FARCALL_CUDA_INCLUDE} -DFARCALL_GENERATED_DIR=${generated}
    -DFARCALL_PRIVATE_TABLES=${FARCALL_PRIVATE_TABLES} -DFARCALL_PORTABLE_OUT=${FARCALL_LIB_DIR} -DFARCALL_CCACHE=
  BUILD_COMMAND ${CMAKE_COMMAND} --build . --target farcall_shim_cuda
  BUILD_ALWAYS ON INSTALL_COMMAND "" USES_TERMINAL_BUILD ON
  BUILD_BYPRODUCTS ${FARCALL_LIB_DIR}/libcuda.so.1)
add_dependencies(farcall_shim_portable farcall_codegen_cuda)
add_custom_target(farcall_shim_cuda ALL DEPENDS farcall_shim_portable)
install(FILES ${FARCALL_LIB_DIR}/libcuda.so.1 DESTINATION lib/farcall)
