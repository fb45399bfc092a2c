#include "transports/ucx/library.h"

#include <dlfcn.h>

#include "core/environment.h"
#include "transports/symbol.h"

namespace sparsecoll::ucx {

namespace {

constexpr const char* kSystemName = "libucp.so.0";
constexpr unsigned kOldestMinor = 11;  // of version 1

Result<Library> load(const char* named) {
  const char* const file = named != nullptr ? named : kSystemName;
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return unsupported("UCX was not found: {}", why != nullptr ? why : file);
  }
  // By default libucs takes over the signals of crashes when it is opened, which are the caller's.
  void (*leaveSignals)() = nullptr;
  if (environmentText(variable::kUcxSignals) == nullptr &&
      findSymbol(handle, "ucs_debug_disable_signals", leaveSignals))
    leaveSignals();
  Library found;
#define SC_UCX_FIND(name) \
  if (!findSymbol(handle, #name, found.name)) return unsupported("{} has no {}", file, #name);
  SC_UCX_CALLS(SC_UCX_FIND)
#undef SC_UCX_FIND
  if (!findSymbol(handle, "ucs_log_push_handler", found.pushLogHandler) ||
      !findSymbol(handle, "ucs_log_pop_handler", found.popLogHandler))
    found.pushLogHandler = nullptr;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  found.ucp_get_version(&major, &minor, &release);
  if (major != UCP_API_MAJOR || minor < kOldestMinor)
    return unsupported("UCX {}.{} was found, 1.{} or newer of version 1 is needed", major, minor, kOldestMinor);
  found.version = static_cast<int>(major * 10000 + minor * 100 + release);
  return found;
}

}  // namespace

Result<const Library*> library() {
  static Result<Library> found = load(environmentText(variable::kUcxLibrary));
  if (found.ok()) return &*found;
  return Result<Library>(found).takeStatus();
}

}  // namespace sparsecoll::ucx
