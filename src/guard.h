// The C boundary: every function begins with guard, which turns a Status or an exception into a result code and
// remembers the text for sparsecollGetLastError.
#pragma once

#include <exception>
#include <new>
#include <system_error>

#include "core/status.h"

namespace sparsecoll {

using ErrorText = Text<512>;
ErrorText& lastError();

template <class Body>
sparsecollResult_t guard(const char* call, Body body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return sparsecollSuccess;
    lastError() = ErrorText::format("{}: {}", call, status.failure().text);
    return status.result();
  } catch (const std::bad_alloc&) {
    lastError() = ErrorText::format("{}: out of memory", call);
    return sparsecollOutOfMemory;
  } catch (const std::system_error& error) {
    lastError() = ErrorText::format("{}: the operating system: {}", call, error.what());
    return sparsecollSystemError;
  } catch (const std::exception& error) {
    lastError() = ErrorText::format("{}: {}", call, error.what());
    return sparsecollInternalError;
  } catch (...) {
    lastError() = ErrorText::format("{}: unknown exception", call);
    return sparsecollInternalError;
  }
}

}  // namespace sparsecoll
