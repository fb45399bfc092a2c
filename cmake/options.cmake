# Build options, compiler flags and the output layout: programs in bin/, libraries in lib/. A project that has this one
# inside gets the library and sparsecoll-run, unless it asks for more.
option(SPARSECOLL_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(SPARSECOLL_SHARE_TESTS "Leave to builds with sanitizers the tests that need no optimised code" OFF)
option(SPARSECOLL_BUILD_BENCH "Build sparsecoll-perf, -tune, -kernels and -fit" ${PROJECT_IS_TOP_LEVEL})
option(SPARSECOLL_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(SPARSECOLL_WITH_TORCH "Build the LibTorch trainers where LibTorch is found" ON)
option(SPARSECOLL_WITH_MPI "Test and measure over MPI, where Open MPI or MPICH is found" ON)
set(SPARSECOLL_WITH_CUDA AUTO CACHE STRING "CUDA back end: ON (required), OFF or AUTO (if a toolkit is found)")
option(SPARSECOLL_WHEEL "Build only what Python's wheel holds: one library that needs libc alone" OFF)
option(SPARSECOLL_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(SPARSECOLL_SANITIZE "" CACHE STRING "Sanitizers to compile with, for example address,undefined")

if(SPARSECOLL_WHEEL)
  foreach(part TESTS BENCH EXAMPLES)
    set(SPARSECOLL_BUILD_${part} OFF)
  endforeach()
  set(SPARSECOLL_WITH_MPI OFF)
  set(SPARSECOLL_WERROR OFF)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(SPARSECOLL_CCACHE ccache)
if(SPARSECOLL_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPARSECOLL_CCACHE})
endif()

# For installed programs that link the library: they find it beside them, wherever the prefix is moved to.
file(RELATIVE_PATH libraries_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(SPARSECOLL_INSTALL_RPATH $ORIGIN/${libraries_from_programs})

# What every target of this project compiles with. Contraction is off because results must have the same bits for every
# instruction set: a fused multiply-add happens where the source says fma and nowhere else.
add_library(sparsecoll_flags INTERFACE)
set(warnings -Wall -Wextra -Wconversion -Wshadow)
if(SPARSECOLL_WERROR)
  list(APPEND warnings -Werror)
endif()
list(APPEND warnings -ffp-contract=off)
string(REPLACE ";" "," warnings_through_nvcc "${warnings}")
target_compile_options(sparsecoll_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warnings_through_nvcc}>")
if(SPARSECOLL_SANITIZE)
  target_compile_options(sparsecoll_flags INTERFACE
    -fsanitize=${SPARSECOLL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # AddressSanitizer finds the same with other words, and GCC takes a quarter of its time for them.
  if(SPARSECOLL_SANITIZE MATCHES "address,undefined")
    target_compile_options(sparsecoll_flags INTERFACE -fno-sanitize=null,object-size,vptr)
  endif()
  target_link_options(sparsecoll_flags INTERFACE -fsanitize=${SPARSECOLL_SANITIZE})
endif()
