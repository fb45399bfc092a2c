# Headers of the standard library that most files read, parsed once for all targets that compile with the same flags:
# they take a third to a half of a file's time. That a file includes what it needs is a test (tests/structure). For GCC:
# where its options differ it reads the headers as any others.
option(SPARSECOLL_PRECOMPILED "Precompile what most files include" OFF)
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

# sparsecoll_runs_once(target files...): adds what reads a command line or writes a report, all at once: CLI11 and the JSON
# library take most of the time to compile it, and nobody waits for what they do. It sees what the target links; an
# object library does not hand it on, so name its objects, of target_once, beside the target's own.
function(sparsecoll_runs_once target)
  sparsecoll_joined(joined ${target}_once.cpp ${ARGN})
  add_library(${target}_once OBJECT ${joined})
  foreach(kind INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    set_target_properties(${target}_once PROPERTIES ${kind} "$<TARGET_PROPERTY:${target},${kind}>")
  endforeach()
  target_compile_options(${target}_once PRIVATE $<$<CONFIG:Release>:-O0>)
  if(NOT TARGET sparsecoll_once_headers)
    sparsecoll_precompile(sparsecoll_once_headers $<$<CONFIG:Release>:-O0> <CLI/CLI.hpp> <nlohmann/json.hpp>)
    if(TARGET sparsecoll_once_headers)
      target_link_libraries(sparsecoll_once_headers PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
    endif()
  endif()
  sparsecoll_take_precompiled(sparsecoll_once_headers ${target}_once)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "OBJECT_LIBRARY")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_once>)
  endif()
endfunction()

# sparsecoll_unite(targets...): for sanitizers, and for scripts that set SPARSECOLL_UNITE, these are compiled several files
# at a time: what takes most of a file's time is headers of the library. Nobody installs such a build, in which a file's
# own name may hide a header's from the next file.
function(sparsecoll_unite)
  if(SPARSECOLL_UNITE OR (SPARSECOLL_PRECOMPILED AND SPARSECOLL_SANITIZE))
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
  endif()
endfunction()
