// Functions of libraries that are opened at run time.
#pragma once

#include <dlfcn.h>

namespace sparsecoll {

// Whether it is there. handle: of dlopen.
template <class Pointer>
bool findSymbol(void* handle, const char* name, Pointer& pointer) {
  pointer = reinterpret_cast<Pointer>(dlsym(handle, name));
  return pointer != nullptr;
}

}  // namespace sparsecoll
