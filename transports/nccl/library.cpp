#include "transports/nccl/library.h"

#include <dlfcn.h>

#include "core/environment.h"

namespace sparsecoll::nccl {

namespace {

constexpr const char* kSystemName = "libnccl.so.2";

// The oldest call of all tells whether the process has NCCL among its global names.
constexpr const char* kProbe = "ncclGetVersion";

Result<void*> open(const char* named) {
  if (named == nullptr && dlsym(RTLD_DEFAULT, kProbe) != nullptr) return RTLD_DEFAULT;
  // By this name the loader also finds a copy that somebody loaded for himself.
  const char* const file = named != nullptr ? named : kSystemName;
  if (void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  const char* const why = dlerror();
  return unsupported("NCCL was not found: {}", why != nullptr ? why : file);
}

template <class Pointer>
const char* find(void* handle, const char* name, Pointer& pointer) {
  pointer = reinterpret_cast<Pointer>(dlsym(handle, name));
  return pointer != nullptr ? nullptr : name;
}

}  // namespace

Result<Library> loadLibrary(const char* named) {
  SC_TRY(void* const handle, open(named));
  Library found;
  if (find(handle, kProbe, found.GetVersion) != nullptr) return unsupported("{} is not NCCL", named);
  if (found.GetVersion(&found.version) != kSuccess) return unsupported("NCCL does not tell its version");
  if (found.version < kOldestVersion)
    return unsupported("NCCL {} was found, {} or newer is needed", found.version, kOldestVersion);
  const char* missing = nullptr;
#define SC_NCCL_FIND(name, ...) \
  if (const char* const gone = find(handle, "nccl" #name, found.name); gone != nullptr) missing = gone;
  SC_NCCL_LATER_CALLS(SC_NCCL_FIND)
  missing = nullptr;
  SC_NCCL_CALLS(SC_NCCL_FIND)
#undef SC_NCCL_FIND
  if (missing != nullptr) return unsupported("NCCL {} has no {}", found.version, missing);
  return found;
}

Result<const Library*> library() {
  static Result<Library> found = loadLibrary(environmentText(variable::kNcclLibrary));
  if (found.ok()) return &*found;
  return Result<Library>(found).takeStatus();
}

}  // namespace sparsecoll::nccl
