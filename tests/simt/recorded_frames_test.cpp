// Frames of a captured step.
#include <cuda_runtime.h>

#include "core/frame.h"
#include "tests/device/two_back_ends.h"

namespace sparsecoll::test {
namespace {

constexpr FrameLayout kLayout{40, 4, 4};

TEST_CASE("a recorded step seals and opens with the sequence that is current when it runs") {
  TwoBackEnds ends({1000, 1, 1, 64});
  Outcome room;
  auto* const frame = room.room<std::byte>(kLayout.capacityBytes(), 0);
  const std::byte* const frames[] = {frame};
  const uint64_t bytes[] = {kLayout.capacityBytes()};
  uint64_t sequence = 5;
  const FrameExpectation identity{0, 9, &sequence};
  cudaStream_t handle = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess);
  const Stream stream{handle, ends.stream().workspace};
  REQUIRE(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  ends.device().seal({frame, kLayout, identity}, stream);
  OpenArgs args;
  args.frames = frames;
  args.bytes = bytes;
  args.layout = kLayout;
  args.expected = identity;
  REQUIRE(ends.device().open(args, stream).ok());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  REQUIRE(cudaStreamEndCapture(handle, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&recorded, graph, 0) == cudaSuccess);
  for (; sequence < 8; ++sequence) {
    REQUIRE(cudaGraphLaunch(recorded, handle) == cudaSuccess);
    CHECK(readHeader(frame).sequence == sequence);
    CHECK(ends.device().findings(stream, Deadline::in(600000)).ok());
  }
  CHECK(cudaGraphExecDestroy(recorded) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(handle) == cudaSuccess);
}

}  // namespace
}  // namespace sparsecoll::test
