// The declarations of PMIx's ABI against a header of PMIx's own, if this machine has one.
#include "transports/bootstrap/pmix_abi.h"

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>

#include "tests/support/catch.h"

#if __has_include(<pmix.h>)
#include <pmix.h>
#endif

namespace ours = sparsecoll::bootstrap::pmix;

#ifdef PMIX_MAX_KEYLEN
namespace {

using namespace ours;

// The parameters and result of a call with every type of PMIx's in place of ours.
template <class T>
struct Theirs {
  using Type = T;
};
template <>
struct Theirs<ours::Proc> {
  using Type = pmix_proc_t;
};
template <>
struct Theirs<ours::Value> {
  using Type = pmix_value_t;
};
template <>
struct Theirs<ours::Info> {
  using Type = pmix_info_t;
};
template <class T>
struct Theirs<T*> {
  using Type = typename Theirs<T>::Type*;
};
template <class T>
requires(std::is_const_v<T>) struct Theirs<T> {
  using Type = const typename Theirs<std::remove_const_t<T>>::Type;
};
// C writes parameters that are arrays in another way, which is the same type.
template <class R, class... Args>
struct Theirs<R(Args...)> {
  using Type = typename Theirs<R>::Type(typename Theirs<Args>::Type...);
};

#define SAME_CALL(name, ...) \
  static_assert(std::is_same_v<Theirs<__VA_ARGS__>::Type, decltype(PMIx_##name)>, "PMIx_" #name);
SC_PMIX_CALLS(SAME_CALL)

}  // namespace

TEST_CASE("PMIx's header declares what this library does") {
  CHECK(ours::kSuccess == PMIX_SUCCESS);
  CHECK(ours::kGlobal == PMIX_GLOBAL);
  CHECK(ours::kCollect == std::string(PMIX_COLLECT_DATA));
  CHECK(ours::kBool == PMIX_BOOL);
  CHECK(ours::kString == PMIX_STRING);
  CHECK(sizeof(ours::Proc) == sizeof(pmix_proc_t));
  CHECK(offsetof(ours::Proc, space) == offsetof(pmix_proc_t, nspace));
  CHECK(offsetof(ours::Proc, rank) == offsetof(pmix_proc_t, rank));
  CHECK(sizeof(ours::Value) == sizeof(pmix_value_t));
  CHECK(sizeof(ours::Value::type) == sizeof(pmix_value_t::type));
  CHECK(offsetof(ours::Value, data) == offsetof(pmix_value_t, data));
  CHECK(sizeof(ours::Info) == sizeof(pmix_info_t));
  CHECK(offsetof(ours::Info, flags) == offsetof(pmix_info_t, flags));
  CHECK(offsetof(ours::Info, value) == offsetof(pmix_info_t, value));
}
#else
TEST_CASE("PMIx's header declares what this library does") { std::puts("skipped: no pmix.h here"); }
#endif
