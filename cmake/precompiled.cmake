# Headers of the standard library that most files read, parsed once for all targets that compile with the same flags:
# they take a third to a half of a file's time. A file that is compiled without shows that it includes what it needs,
# so the library is, where nobody waits for sanitizers or the demo. For GCC: where its options differ it reads the
# headers as any others.
set(SPARSECOLL_PRECOMPILED OFF CACHE STRING "Precompile what most files include: OFF, TESTS, or ALL for the library, too")
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(SPARSECOLL_PRECOMPILED OFF)
endif()
if(SPARSECOLL_PRECOMPILED AND SPARSECOLL_CCACHE)
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()
set(CMAKE_PCH_WARN_INVALID OFF)

# sparsecoll_precompile(owner options headers...): makes the owner of precompiled headers, compiled with options beside the
# project's own; sparsecoll_take_precompiled(owner targets...): these use them, as far as they have the same options.
function(sparsecoll_precompile owner options)
  if(NOT SPARSECOLL_PRECOMPILED)
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${owner}.cpp CONTENT "")
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${owner}.cpp)
  target_link_libraries(${owner} PRIVATE sparsecoll_flags Threads::Threads)
  target_compile_options(${owner} PRIVATE ${options})
  target_precompile_headers(${owner} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstring>
    <deque> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
    <unordered_map> <vector> ${ARGN})
endfunction()
function(sparsecoll_take_precompiled owner)
  if(NOT SPARSECOLL_PRECOMPILED)
    return()
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endforeach()
endfunction()

# sparsecoll_joined(result name files...): one source that includes these: for programs, and for tests of code that is
# compiled file by file elsewhere.
function(sparsecoll_joined result name)
  set(lines)
  foreach(file ${ARGN})
    get_filename_component(path ${file} ABSOLUTE)
    string(APPEND lines "#include \"${path}\"\n")
  endforeach()
  set(joined ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(GENERATE OUTPUT ${joined} CONTENT "${lines}")
  set(${result} ${joined} PARENT_SCOPE)
endfunction()

# sparsecoll_unite(targets...): for sanitizers these are compiled several files at a time: what takes most of a file's time
# is headers of the library. Nobody installs such a build, in which a file's own name may hide a header's from the next
# file.
function(sparsecoll_unite)
  if(SPARSECOLL_PRECOMPILED STREQUAL "ALL" AND SPARSECOLL_SANITIZE)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
  endif()
endfunction()
