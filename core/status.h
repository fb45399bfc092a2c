// Status and Result: how every floor reports failure. Neither needs memory, so that running out of it can be reported
// too.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "core/text.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

struct Failure {
  sparsecollResult_t result = sparsecollInternalError;
  int peer = -1;   // rank concerned, -1 if none
  Text<32> field;  // what the ranks disagree on, or empty
  Text<256> text;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(const Failure& failure) : failure_(failure) {}

  bool ok() const { return result() == sparsecollSuccess; }
  sparsecollResult_t result() const { return failure_.result; }
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_{sparsecollSuccess, -1, {}, {}};
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  T& operator*() { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  Status takeStatus() { return std::move(std::get<Status>(state_)); }
  Status takeStatusOrOk() { return ok() ? Status() : takeStatus(); }

 private:
  std::variant<T, Status> state_;
};

#if SC_FORMATS
template <class... Args>
Status fail(sparsecollResult_t result, fmt::format_string<Args...> text, Args&&... args) {
  return Status(Failure{result, -1, {}, Text<256>::format(text, std::forward<Args>(args)...)});
}

// peer: the rank that is at fault.
template <class... Args>
Status failBy(int peer, sparsecollResult_t result, fmt::format_string<Args...> text, Args&&... args) {
  return Status(Failure{result, peer, {}, Text<256>::format(text, std::forward<Args>(args)...)});
}

// The ranks mean different things; peer: one that differs. field: in what.
template <class... Args>
Status disagree(int peer, const char* field, fmt::format_string<Args...> text, Args&&... args) {
  return Status(Failure{sparsecollMismatch, peer, field, Text<256>::format(text, std::forward<Args>(args)...)});
}

template <class... Args>
Status invalid(fmt::format_string<Args...> text, Args&&... args) {
  return fail(sparsecollInvalidArgument, text, std::forward<Args>(args)...);
}

template <class... Args>
Status unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return fail(sparsecollUnsupported, text, std::forward<Args>(args)...);
}
#endif

// Whether a communicator survives this result (see the head of sparsecoll.h).
inline bool isFatal(sparsecollResult_t result) {
  switch (result) {
    case sparsecollCudaError:
    case sparsecollSystemError:
    case sparsecollInternalError:
    case sparsecollRemoteError:
    case sparsecollTimeout:
    case sparsecollAborted:
    case sparsecollPeerFailed:
    case sparsecollCorrupted:
    case sparsecollAuthFailed:
      return true;
    default:
      return false;
  }
}

namespace detail {
inline Status takeStatus(Status&& status) { return std::move(status); }
template <class T>
Status takeStatus(Result<T>&& result) {
  return result.takeStatus();
}
}  // namespace detail

}  // namespace sparsecoll

// The one propagation macro: SC_TRY(statusExpression) or SC_TRY(declaration, resultExpression).
#define SC_CONCAT_(a, b) a##b
#define SC_CONCAT(a, b) SC_CONCAT_(a, b)
#define SC_TRY_1(expression)                                                                    \
  do {                                                                                          \
    if (auto SC_CONCAT(scStatus, __LINE__) = (expression); !SC_CONCAT(scStatus, __LINE__).ok()) \
      return ::sparsecoll::detail::takeStatus(std::move(SC_CONCAT(scStatus, __LINE__)));        \
  } while (false)
#define SC_TRY_2(declaration, expression)                                                     \
  auto SC_CONCAT(scResult, __LINE__) = (expression);                                          \
  if (!SC_CONCAT(scResult, __LINE__).ok()) return SC_CONCAT(scResult, __LINE__).takeStatus(); \
  declaration = std::move(*SC_CONCAT(scResult, __LINE__))
#define SC_TRY_PICK(a, b, name, ...) name
#define SC_TRY(...) SC_TRY_PICK(__VA_ARGS__, SC_TRY_2, SC_TRY_1, )(__VA_ARGS__)
