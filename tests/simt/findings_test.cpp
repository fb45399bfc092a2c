// Kernels while another stream finds something wrong: the threads of a block either all go on or all leave.
#include "core/frame.h"
#include "cuda/cuda_kernels.h"
#include "cuda/frames.h"
#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/unit/lists.h"

namespace sparsecoll {
namespace {

class Device {
 public:
  Device() {
    auto kernels = cuda::makeCudaKernels(0);
    REQUIRE(kernels.ok());
    kernels_ = std::move(*kernels);
    auto context = cuda::DeviceContext::make(0);
    REQUIRE(context.ok());
    context_ = std::move(*context);
    auto findings = kernels_->allocate(2 * sizeof(Finding), nullptr);
    REQUIRE(findings.ok());
    context_.setFindings(std::move(*findings));
  }

  // Calls launch, under several schedules, with a finding that appears, or is forgotten, after some threads have
  // looked.
  template <class Launch>
  void check(Launch launch) {
    for (uint64_t seed = 0; seed <= test::schedulesWanted(); ++seed)
      for (const uint64_t looks : {1u, 5u, 31u, 40u, 100u})
        for (const uint32_t before : {uint32_t{0}, uint32_t{sparsecollCorrupted}}) {
          CAPTURE(seed, looks, before);
          *context_.finding() = {before, -1, 0, 0, 0};
          simt::schedule(seed);
          simt::writeMeanwhile(&context_.finding()->result, looks, sparsecollCorrupted - before);
          launch(context_);
          CHECK(cudaDeviceSynchronize() == cudaSuccess);
          simt::writeMeanwhile(nullptr, 0, 0);
          simt::schedule(0);
          CHECK(context_.takeFailure().ok());
          CHECK(context_.finding()->what == 0);  // the kernel itself found nothing
          test::checkEmulation();
        }
  }

 private:
  std::shared_ptr<Kernels> kernels_;
  cuda::DeviceContext context_;
};

TEST_CASE("a finding that comes or goes while a sum's owners are tallied") {
  constexpr uint64_t kLength = 5000;
  constexpr uint32_t kOwners = 300;
  const auto lists = test::someLists<float>(1, kLength, 0.1, 1);
  std::vector<uint64_t> bounds;
  for (uint64_t owner = 0; owner <= kOwners; ++owner) bounds.push_back(kLength * owner / kOwners);
  std::vector<RankFacts> facts(kOwners);
  Control control{};
  control.ranks = kOwners;
  control.facts = facts.data();
  Device().check([&](cuda::DeviceContext& device) {
    cuda::tally(lists.views()[0], bounds.data(), kOwners, &control, device, {});
  });
}

// More than one launch opens.
TEST_CASE("a finding that comes or goes while hundreds of frames are opened") {
  constexpr size_t kFrames = 300;
  constexpr FrameExpectation kIdentity{41, 7};
  const FrameLayout layout{4, 4, 4};
  std::vector<std::byte> frame(layout.capacityBytes());
  FrameHeader header{};
  header.sequence = kIdentity.sequence;
  header.plan = kIdentity.plan;
  header.count = 4;
  std::memcpy(frame.data(), &header, sizeof header);
  const uint32_t checksum = frameChecksum(frame.data(), layout.usedBytes(header), true);
  std::memcpy(frame.data() + kFrameChecksumOffset, &checksum, sizeof checksum);
  const std::vector<const std::byte*> frames(kFrames, frame.data());
  const std::vector<uint64_t> bytes(kFrames, layout.usedBytes(header));
  Device().check([&](cuda::DeviceContext& device) {
    cuda::open({frames, bytes, layout, kIdentity, nullptr, {}, true}, device, {});
  });
}

}  // namespace
}  // namespace sparsecoll
