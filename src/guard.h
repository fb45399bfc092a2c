// The C boundary: every function is one line around guard, which turns a Status or an exception into a result code and
// remembers the text for sparsecollGetLastError.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "core/status.h"

namespace sparsecoll {

std::string& lastError();

template <class Body>
sparsecollResult_t guard(const char* call, Body body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return sparsecollSuccess;
    lastError() = fmt::format("{}: {}", call, status.failure().text);
    return status.result();
  } catch (const std::bad_alloc&) {
    lastError().assign("out of memory");  // short enough to need none
    return sparsecollOutOfMemory;
  } catch (const std::exception& error) {
    try {
      lastError() = fmt::format("{}: {}", call, error.what());
    } catch (...) {
    }
    return sparsecollInternalError;
  } catch (...) {
    return sparsecollInternalError;
  }
}

}  // namespace sparsecoll
