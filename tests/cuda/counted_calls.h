// The calls of CUDA that a thread makes, by name: of the runtime and of the driver beneath it. CUPTI tells them; it is
// looked for when it is needed, and no program is linked to it.
#pragma once

#include <cupti.h>
#include <dlfcn.h>
#include <glob.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/step_calls.h"

namespace sparsecoll::test {

struct CallCounts {
  std::map<std::string, uint64_t> runtime, driver;

  static uint64_t sumOf(const std::map<std::string, uint64_t>& calls) {
    uint64_t sum = 0;
    for (const auto& [name, count] : calls) sum += count;
    return sum;
  }
};

// What this thread calls is counted for as long as this lives.
class Counting {
 public:
  explicit Counting(CallCounts& counts) { current() = &counts; }
  ~Counting() { current() = nullptr; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  static CallCounts*& current() {
    thread_local CallCounts* counts = nullptr;
    return counts;
  }
};

inline void CUPTIAPI noteCall(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  const auto* const call = static_cast<const CUpti_CallbackData*>(data);
  CallCounts* const counts = Counting::current();
  if (counts == nullptr || call->callbackSite != CUPTI_API_ENTER) return;
  ++(domain == CUPTI_CB_DOMAIN_DRIVER_API ? counts->driver : counts->runtime)[call->functionName];
}

// Where CUPTI may lie: beside the toolkit that this was compiled with, where the loader looks, in $CUDA_HOME, and among
// the packages of Python.
inline std::vector<std::string> cuptiFiles() {
  std::vector<std::string> files;
  const auto add = [&files](const std::string& pattern) {
    glob_t found{};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  };
  const auto addBelow = [&add](const char* variable, const std::string& pattern) {
    const char* const folder = std::getenv(variable);
    if (folder != nullptr && *folder != '\0') add(folder + pattern);
  };
  add(SPARSECOLL_CUDA_LIBRARY_DIR "/libcupti.so*");
  add(SPARSECOLL_CUDA_LIBRARY_DIR "/../extras/CUPTI/lib64/libcupti.so*");
  files.emplace_back("libcupti.so");
  addBelow("CUDA_HOME", "/extras/CUPTI/lib64/libcupti.so*");
  addBelow("CUDA_HOME", "/lib64/libcupti.so*");
  for (const char* const packages : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages"}) {
    const std::string pattern = std::string(packages) + "/nvidia/*/lib/libcupti.so*";
    for (const char* const variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) addBelow(variable, pattern);
    addBelow("HOME", "/.local" + pattern);
    add("/usr/local" + pattern);
    add("/usr" + pattern);
  }
  return files;
}

// Lets CUPTI tell this process's calls from now on. "" or why it cannot.
inline std::string startCounting() {
  void* library = nullptr;
  for (const std::string& file : cuptiFiles()) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) return "CUPTI (libcupti.so) is not to be found here";
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableDomain)>(dlsym(library, "cuptiEnableDomain"));
  const auto textOf = reinterpret_cast<decltype(&cuptiGetResultString)>(dlsym(library, "cuptiGetResultString"));
  if (subscribe == nullptr || enable == nullptr || textOf == nullptr) return "this libcupti.so lacks functions";
  CUpti_SubscriberHandle subscriber = nullptr;
  CUptiResult result = subscribe(&subscriber, noteCall, nullptr);
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API})
    if (result == CUPTI_SUCCESS) result = enable(1, subscriber, domain);
  if (result == CUPTI_SUCCESS) return "";
  const char* text = nullptr;
  if (textOf(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "for a reason it cannot name";
  return std::string("CUPTI does not tell calls here: ") + text;
}

}  // namespace sparsecoll::test
