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

if(NOT SPARSECOLL_CUDA_FOUND)
  return()
endif()

set(architectures "80-real;86-real;89-real;90-real;100-real;100-virtual")
if(DEFINED ENV{CUDAARCHS})
  set(architectures $ENV{CUDAARCHS})
endif()
set(SPARSECOLL_CUDA_ARCHITECTURES ${architectures} CACHE STRING
  "Devices to compile for; the last one also as PTX for later ones. CUDAARCHS in the environment is the default")
set(CMAKE_CUDA_ARCHITECTURES ${SPARSECOLL_CUDA_ARCHITECTURES})
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
