// Device memory: from a pool of the library's own, from cudaMalloc, or from the caller's allocator; all of it goes
// back, and a call that gets none has no effect (T46).
#include <cstring>
#include <set>
#include <string>

#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/support/allocators.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 700;

struct DeviceMemory {
  static void* allocate(size_t bytes) {
    void* data = nullptr;
    return cudaMalloc(&data, bytes) == cudaSuccess ? data : nullptr;
  }
  static void release(void* data, size_t) { (void)cudaFree(data); }
};
using Allocator = BookedAllocator<DeviceMemory>;

sparsecollParams_t paramsOf(const std::string& name) {
  sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.05);
  if (name == "threshold") params.threshold = 1.5;
  return params;
}

void checkSteps(Group& group, const sparsecollParams_t& params) {
  const int ranks = group.count();
  Group host(ranks, kLength, sparsecollFloat32, params);
  checkSameSteps(host, group, 2);
  checkEmulation();
}

// The memory by which captured steps wait is kept for later groups: as much as these ranks have, on every device.
bool makeFlagsOnce() {
  static std::set<int> made;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return false;
  for (int device = 0; device < devices; ++device)
    if (made.insert(device).second && Ranks(4, nullptr, device).result() != sparsecollSuccess) return false;
  return true;
}

// What is there afterwards must have been there before.
class NothingLeft {
 public:
  NothingLeft() : made_(makeFlagsOnce()), memory_(simt::liveMemory()), objects_(simt::liveObjects()) { CHECK(made_); }
  ~NothingLeft() {
    CHECK(simt::liveMemory().bytes == memory_.bytes);
    CHECK(simt::liveMemory().allocations == memory_.allocations);
    CHECK(simt::liveObjects() == objects_);
  }

 private:
  bool made_;
  simt::Memory memory_;
  uint64_t objects_;
};

}  // namespace

TEST_CASE("by default memory comes from a pool, and where there are none from cudaMalloc") {
  for (const bool pools : {true, false}) {
    CAPTURE(pools);
    simt::setPools(pools);
    const NothingLeft check;
    simt::resetCalls();
    {
      const sparsecollParams_t params = paramsOf("topka");
      Group group(2, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
      REQUIRE(group.created() == all(2, sparsecollSuccess));
      CHECK((simt::calls("cudaMalloc") == 0) == pools);
      CHECK((simt::calls("cudaMallocFromPoolAsync") == 0) == !pools);
      checkSteps(group, params);
    }
    simt::setPools(true);
  }
}

TEST_CASE("a pool that cannot be made is done without") {
  const NothingLeft check;
  simt::failCall("cudaMemPoolCreate", 0, cudaErrorNotSupported);
  simt::resetCalls();
  {
    const sparsecollParams_t params = paramsOf("topka");
    Group group(1, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
    REQUIRE(group.created() == all(1, sparsecollSuccess));
    CHECK(simt::calls("cudaMalloc") > 0);
    checkSteps(group, params);
  }
  simt::forgetFailures();
}

TEST_CASE("with the caller's allocator nothing but flags comes from anywhere else, and no step asks for any") {
  for (const std::string& name : allPresets()) {
    CAPTURE(name);
    const NothingLeft check;
    Allocator allocator;
    {
      const uint64_t before = simt::liveMemory().bytes;
      const sparsecollConfig_t config = allocator.config();
      const sparsecollParams_t params = paramsOf(name);
      Group group(3, kLength, sparsecollFloat32, params, nullptr, &config, kDevice);
      REQUIRE(group.created() == all(3, sparsecollSuccess));
      CHECK(simt::liveMemory().bytes - before == allocator.bytes());
      CHECK(allocator.bytes() > 0);
      const uint64_t calls = allocator.calls();
      checkSteps(group, params);
      CHECK(allocator.calls() == calls);
      CHECK(simt::liveMemory().bytes - before == allocator.bytes());
    }
    CHECK(allocator.balanced());
  }
}

TEST_CASE("an allocator is called with the device of the communicator as the current one, which does not stay so") {
  simt::setDevices(2);
  static std::vector<int> devices;
  devices.clear();
  struct Noting {
    static void* allocate(size_t bytes) {
      int device = -1;
      (void)cudaGetDevice(&device);
      devices.push_back(device);
      return DeviceMemory::allocate(bytes);
    }
    static void release(void* data, size_t bytes) { DeviceMemory::release(data, bytes); }
  };
  {
    BookedAllocator<Noting> allocator;
    const sparsecollConfig_t config = allocator.config();
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    const Ranks ranks(1, &config, 1);
    REQUIRE(ranks.result() == sparsecollSuccess);
    CHECK(devices == std::vector<int>(devices.size(), 1));
    CHECK_FALSE(devices.empty());
    int now = -1;
    CHECK(cudaGetDevice(&now) == cudaSuccess);
    CHECK(now == 0);
  }
  simt::setDevices(1);
}

// i-th allocation: of whatever function the default uses, or of the caller's.
TEST_CASE(
    "the i-th piece of device memory is not there: OutOfMemory, nothing is lost, and the call works the next time") {
  for (const bool callers : {false, true}) {
    for (const char* const name : {"topka", "spardl", "dense"}) {
      uint64_t refusals = 0;
      const sparsecollParams_t params = paramsOf(name);
      for (uint64_t i = 0;; ++i) {
        CAPTURE(callers, name, i);
        const NothingLeft check;
        Allocator allocator;
        sparsecollConfig_t config = allocator.config();
        if (!callers) config.allocator = nullptr;
        const auto refuse = [&](uint64_t skip) { callers ? allocator.refuseAfter(skip) : simt::failAllocation(skip); };
        const auto refuseNone = [&] { callers ? allocator.refuseAfter(UINT64_MAX / 2) : simt::forgetFailures(); };
        sparsecollComm_t comms[2] = {nullptr, nullptr};
        const int devices[2] = {kDevice, kDevice};
        refuse(i);
        const sparsecollResult_t made = sparsecollCommInitAll(comms, 2, devices, &config);
        refuseNone();
        if (made != sparsecollSuccess) {
          CHECK(made == sparsecollOutOfMemory);
          CHECK(comms[0] == nullptr);
          ++refusals;
          continue;
        }
        for (sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
        bool refused = false;
        {
          const Ranks ranks(2, &config, kDevice);
          const uint64_t held = simt::liveMemory().bytes;
          refuse(i - refusals);
          {
            const Reducers first(ranks, kLength, sparsecollFloat32, params);
            refused = first.result(0) != sparsecollSuccess;
            if (refused) {
              const int lacking = first.result(0) == sparsecollOutOfMemory ? 0 : 1;
              CHECK(first.result(lacking) == sparsecollOutOfMemory);
              CHECK(first.result(1 - lacking) == sparsecollMismatch);
              CHECK(simt::liveMemory().bytes == held);
            }
          }
          refuseNone();
          const Reducers again(ranks, kLength, sparsecollFloat32, params);
          CHECK(again.result(0) == sparsecollSuccess);
          CHECK(again.result(1) == sparsecollSuccess);
        }
        if (!refused) break;
      }
      CHECK(refusals > 0);
    }
  }
  checkEmulation();
}

TEST_CASE("ranks on several devices are connected, or told that they cannot be") {
  simt::setDevices(2);
  const NothingLeft check;
  const int devices[] = {0, 1, 0};
  {
    simt::resetCalls();
    sparsecollComm_t comms[3] = {nullptr, nullptr, nullptr};
    REQUIRE(sparsecollCommInitAll(comms, 3, devices, nullptr) == sparsecollSuccess);
    CHECK(simt::calls("cudaDeviceEnablePeerAccess") == 2);  // each way once
    CHECK(simt::calls("cudaMemPoolSetAccess") == 3);        // a pool a rank
    for (sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
    REQUIRE(sparsecollCommInitAll(comms, 3, devices, nullptr) == sparsecollSuccess);  // they are already
    for (sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  }
  simt::setPeerAccess(false);
  sparsecollComm_t none[3] = {nullptr, nullptr, nullptr};
  CHECK(sparsecollCommInitAll(none, 3, devices, nullptr) == sparsecollUnsupported);
  CHECK(std::string(sparsecollGetLastError()).find("cannot reach") != std::string::npos);
  CHECK(none[0] == nullptr);
  simt::setPeerAccess(true);
  simt::setDevices(1);
}

TEST_CASE("a blob in pinned memory is whole when Export returns, and read when Import does") {
  const sparsecollParams_t params = paramsOf("topka");
  Group group(1, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  Group other(1, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  group.fillRandom(1);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  const Blob expected = exported(group.reducer(0));
  size_t bytes = expected.size();
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable) == cudaSuccess);
  {
    const simt::Lag lag;
    CHECK(sparsecollReducerExport(group.reducer(0), pinned, &bytes, nullptr) == sparsecollSuccess);
    CHECK(std::memcmp(pinned, expected.data(), expected.size()) == 0);
    CHECK(sparsecollReducerImport(other.reducer(0), pinned, bytes, nullptr) == sparsecollSuccess);
    std::memset(pinned, 0xff, bytes);
    CHECK(sparsecollCommWait(other.ranks()[0], nullptr, 10000) == sparsecollSuccess);
  }
  CHECK(other.residual(0) == group.residual(0));
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  checkEmulation();
}
