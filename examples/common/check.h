// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <stdexcept>
#include <string>

namespace examples {

/// Throws std::runtime_error with the library's explanation unless result is Success. Same thread as the call.
inline void check(sparsecollResult_t result, const char* call) {
  if (result == sparsecollSuccess) return;
  std::string message = std::string(call) + ": " + sparsecollGetErrorString(result);
  const std::string details = sparsecollGetLastError();
  if (!details.empty()) message += ": " + details;
  throw std::runtime_error(message);
}

}  // namespace examples
