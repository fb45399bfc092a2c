# The CUDA language, where there is a toolkit: which devices, and how device code is compiled.

# sparsecoll_rules(floor files...): the sources of a floor that define rules (core/rule.h), as the library floor_rules;
# with a toolkit they are compiled for devices, too. The list of all rules' sources is SPARSECOLL_RULES.
function(sparsecoll_rules floor)
  add_library(${floor}_rules OBJECT ${ARGN})
  target_link_libraries(${floor}_rules PUBLIC sparsecoll_core)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  set_property(GLOBAL APPEND PROPERTY SPARSECOLL_RULES ${sources})
  if(SPARSECOLL_CUDA_FOUND)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
    target_link_libraries(${floor}_rules PRIVATE sparsecoll_cuda_flags)
  endif()
endfunction()

# sparsecoll_devices_here(result): what to compile for this machine's GPUs: nothing where there are none, or none that
# the toolkit knows.
function(sparsecoll_devices_here result)
  set(devices)
  find_program(SPARSECOLL_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(SPARSECOLL_NVIDIA_SMI)
  if(SPARSECOLL_NVIDIA_SMI)
    execute_process(COMMAND ${SPARSECOLL_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE here RESULT_VARIABLE failed TIMEOUT 60 ERROR_QUIET)
    if(failed)
      set(here)
    endif()
    execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" here "${here}")
    string(REPLACE "." "" here "${here}")
    foreach(device ${here})
      if("${known}" MATCHES "sm_${device}\n")
        list(APPEND devices ${device}-real)
      endif()
    endforeach()
    list(REMOVE_DUPLICATES devices)
  endif()
  set(${result} ${devices} PARENT_SCOPE)
endfunction()

# sparsecoll_choose_architectures(): CMAKE_CUDA_ARCHITECTURES, as the caller wishes; else for the GPUs of this machine;
# and where there are none for one architecture, with PTX for whatever is newer. Every further one costs half as much
# time as the first.
function(sparsecoll_choose_architectures)
  set(supported "80-real;86-real;89-real;90-real;100-real;100-virtual")
  if(DEFINED ENV{CUDAARCHS})
    set(wish $ENV{CUDAARCHS})
  else()
    sparsecoll_devices_here(wish)
  endif()
  if(NOT wish)
    set(wish 90)
  endif()
  set(SPARSECOLL_CUDA_ARCHITECTURES ${wish} CACHE STRING
    "Devices to compile for, as in CMAKE_CUDA_ARCHITECTURES, or: supported. CUDAARCHS in the environment is the default")
  set(chosen ${SPARSECOLL_CUDA_ARCHITECTURES})
  if(chosen STREQUAL "supported")
    set(chosen ${supported})
  endif()
  message(STATUS "CUDA: compiled for ${chosen}; SPARSECOLL_CUDA_ARCHITECTURES or CUDAARCHS name others")
  set(CMAKE_CUDA_ARCHITECTURES ${chosen} PARENT_SCOPE)
endfunction()

if(NOT SPARSECOLL_CUDA_FOUND)
  return()
endif()
sparsecoll_choose_architectures()
if(NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(SPARSECOLL_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SPARSECOLL_CCACHE})
endif()
enable_language(CUDA)
# CMake before 3.26 does not know this flag of newer compilers.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

# Contraction is off on devices too (options.cmake). Constant expressions of the standard library may be called from
# device code.
add_library(sparsecoll_cuda_flags INTERFACE)
target_compile_options(sparsecoll_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-fmad=false>")
if(SPARSECOLL_WERROR)
  target_compile_options(sparsecoll_cuda_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
