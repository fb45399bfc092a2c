// The declarations of NCCL's ABI against a header of NCCL's own, and a copy of NCCL if this machine has one: what can
// be asked of it without a device.
#include "transports/nccl/abi.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "tests/support/catch.h"
#include "transports/nccl/connection.h"
#include "transports/nccl/library.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace nccl = sparsecoll::nccl;

#ifdef NCCL_VERSION_CODE
namespace {

// The parameters and result of a call with every type of NCCL's in place of ours.
template <class T>
struct Theirs {
  using Type = T;
};
template <>
struct Theirs<nccl::Code> {
  using Type = ncclResult_t;
};
template <>
struct Theirs<nccl::DataType> {
  using Type = ncclDataType_t;
};
template <>
struct Theirs<nccl::RedOp> {
  using Type = ncclRedOp_t;
};
template <>
struct Theirs<nccl::UniqueId> {
  using Type = ncclUniqueId;
};
template <>
struct Theirs<nccl::Config> {
  using Type = ncclConfig_t;
};
template <>
struct Theirs<nccl::StreamHandle> {
  using Type = cudaStream_t;
};
template <>
struct Theirs<nccl::Comm*> {
  using Type = ncclComm_t*;
};
template <>
struct Theirs<nccl::Comm> {
  using Type = ncclComm_t;
};
template <class T>
struct Theirs<const T*> {
  using Type = const typename Theirs<T>::Type*;
};
template <class T>
requires(!std::is_same_v<T*, nccl::StreamHandle> && !std::is_same_v<T*, nccl::Comm> &&
         !std::is_same_v<T, nccl::Comm>) struct Theirs<T*> {
  using Type = typename Theirs<T>::Type*;
};
template <class R, class... Args>
struct Theirs<R(Args...)> {
  using Type = typename Theirs<R>::Type(typename Theirs<Args>::Type...);
};

template <class Ours, class Real>
constexpr bool fits = std::is_same_v<typename Theirs<Ours>::Type, Real>;

static_assert(fits<nccl::Code(int*), decltype(ncclGetVersion)>);
static_assert(fits<nccl::Code(nccl::UniqueId*), decltype(ncclGetUniqueId)>);
static_assert(fits<nccl::Code(nccl::Comm*, int, nccl::UniqueId, int, nccl::Config*), decltype(ncclCommInitRankConfig)>);
static_assert(fits<nccl::Code(nccl::Comm, int, int, nccl::Comm*, nccl::Config*), decltype(ncclCommSplit)>);
static_assert(fits<nccl::Code(nccl::Comm, nccl::Code*), decltype(ncclCommGetAsyncError)>);
static_assert(fits<const char*(nccl::Code), decltype(ncclGetErrorString)>);
static_assert(fits<const char*(nccl::Comm), decltype(ncclGetLastError)>);
static_assert(fits<nccl::Code(nccl::Comm), decltype(ncclCommAbort)>);
static_assert(fits<nccl::Code(nccl::Comm), decltype(ncclCommDestroy)>);
static_assert(fits<nccl::Code(nccl::Comm), decltype(ncclCommFinalize)>);
static_assert(fits<nccl::Code(), decltype(ncclGroupStart)>);
static_assert(fits<nccl::Code(), decltype(ncclGroupEnd)>);
static_assert(fits<nccl::Code(nccl::Comm, int*), decltype(ncclCommUserRank)>);
static_assert(fits<nccl::Code(nccl::Comm, int*), decltype(ncclCommCount)>);
static_assert(fits<nccl::Code(nccl::Comm, int*), decltype(ncclCommCuDevice)>);

// Data, too, is void*, which Theirs would take for a stream.
static_assert(std::is_same_v<decltype(ncclSend),
                             ncclResult_t(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(ncclRecv), ncclResult_t(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(ncclAllGather),
                             ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(ncclAllReduce), ncclResult_t(const void*, void*, size_t, ncclDataType_t,
                                                                   ncclRedOp_t, ncclComm_t, cudaStream_t)>);

static_assert(sizeof(ncclUniqueId) == sizeof(nccl::UniqueId));
static_assert(offsetof(ncclConfig_t, size) == offsetof(nccl::Config, size));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(nccl::Config, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(nccl::Config, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(nccl::Config, blocking));
static_assert(NCCL_CONFIG_UNDEF_INT == nccl::Config{}.unset);
static_assert(NCCL_VERSION(2, 14, 0) == nccl::kOldestVersion);
static_assert(int{ncclRemoteError} == nccl::kRemoteError && int{ncclInProgress} == nccl::kInProgress);
static_assert(int{ncclInvalidUsage} == nccl::kInvalidUsage && int{ncclUnhandledCudaError} == nccl::kUnhandledCudaError);
static_assert(int{ncclUint8} == nccl::kUint8 && int{ncclFloat16} == nccl::kFloat16);
static_assert(int{ncclFloat32} == nccl::kFloat32 && int{ncclFloat64} == nccl::kFloat64);
static_assert(int{ncclBfloat16} == nccl::kBfloat16 && int{ncclSum} == nccl::kSum);

}  // namespace

TEST_CASE("a configuration starts as NCCL's does") {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  CHECK(theirs.magic == nccl::Config{}.magic);
}
#endif

namespace {

// Ends the program as skipped where there is no NCCL.
nccl::Library systemLibrary() {
  auto found = nccl::loadLibrary(nullptr);
  if (found.ok()) return *found;
  std::printf("skipped: %s\n", found.takeStatus().failure().text.c_str());
  std::exit(77);
}

}  // namespace

TEST_CASE("the system's NCCL has the calls that are used") {
  const nccl::Library found = systemLibrary();
  CHECK(found.version >= nccl::kOldestVersion);
  CHECK(found.CommSplit != nullptr);
  CHECK(std::string(found.GetErrorString(nccl::kSuccess)) == "no error");
  nccl::UniqueId first{}, second{};
  REQUIRE(found.GetUniqueId(&first) == nccl::kSuccess);
  REQUIRE(found.GetUniqueId(&second) == nccl::kSuccess);
  CHECK(std::string(first.internal, sizeof first.internal) != std::string(second.internal, sizeof second.internal));
}

// With a device one rank meets itself; without one NCCL says so, and nothing is left.
TEST_CASE("a communicator of one rank over the system's NCCL, or a clear refusal") {
  const nccl::Library found = systemLibrary();
  nccl::UniqueId id{};
  REQUIRE(found.GetUniqueId(&id) == nccl::kSuccess);
  const auto deadline = sparsecoll::Deadline::in(60000);
  auto made = nccl::Connection::make(found, 1, 0, id, deadline, 1000);
  if (!made.ok()) {
    const sparsecoll::Status status = made.takeStatus();
    INFO(status.failure().text.c_str());
    CHECK(status.result() == sparsecollCudaError);
    return;
  }
  CHECK((*made)->health().ok());
  (*made)->close(deadline);
  CHECK((*made)->health().result() == sparsecollAborted);
}
