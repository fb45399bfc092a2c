// One call on the host's kernels and on device code, whose every byte of output has to be the same.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "host/isa.h"
#include "tests/device/checks.h"
#include "tests/unit/lists.h"

namespace sparsecoll::test {

// What a call wrote, and how it ended. Memory is exactly as long as asked for, so that ASan sees what is past it.
class Outcome {
 public:
  template <class T>
  T* room(uint64_t count, uint8_t filling = 0xa5) {
    const uint64_t bytes = count * sizeof(T);
    Piece& piece = pieces_.emplace_back(Piece{std::make_unique<std::byte[]>(bytes), bytes});
    std::memset(piece.data.get(), filling, bytes);
    return reinterpret_cast<T*>(piece.data.get());
  }
  // Not compared: a NaN's bits depend on the order in which numbers are added.
  template <class T>
  T* scratch(uint64_t count) {
    T* const to = room<T>(count);
    pieces_.back().compared = false;
    return to;
  }
  template <class T>
  T* copyOf(const std::vector<T>& from) {
    T* const to = room<T>(from.size());
    std::copy(from.begin(), from.end(), to);
    return to;
  }

  void end(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  // What was written counts also after this failure.
  void endKeeping(const Status& status) {
    end(status);
    keeps_ = true;
  }
  const Status& status() const { return status_; }

  // "" or where the two differ. After a failure mostly only the failure counts.
  std::string differs(const Outcome& expected) const {
    if (status_.result() != expected.status_.result() || status_.failure().peer != expected.status_.failure().peer)
      return fmt::format("result {} of {} ({}), expected {} of {} ({})", static_cast<int>(status_.result()),
                         status_.failure().peer, status_.failure().text.view(),
                         static_cast<int>(expected.status_.result()), expected.status_.failure().peer,
                         expected.status_.failure().text.view());
    if (!status_.ok() && status_.result() != sparsecollCapacity && !keeps_) return "";
    auto other = expected.pieces_.begin();
    size_t number = 0;
    for (const Piece& piece : pieces_) {
      for (uint64_t b = 0; piece.compared && b < piece.bytes; ++b)
        if (piece.data[b] != other->data[b])
          return fmt::format("output {}, byte {} of {}: {:#x}, expected {:#x}", number, b, piece.bytes,
                             static_cast<int>(piece.data[b]), static_cast<int>(other->data[b]));
      ++other;
      ++number;
    }
    return "";
  }

 private:
  struct Piece {
    std::unique_ptr<std::byte[]> data;
    uint64_t bytes;
    bool compared = true;
  };
  std::list<Piece> pieces_;
  Status status_;
  bool keeps_ = false;
};

class TwoBackEnds {
 public:
  using Call = std::function<void(Kernels& kernels, Stream stream, Outcome& outcome)>;

  explicit TwoBackEnds(const WorkspaceNeed& need) : host_(host::makeHostKernels(host::bestIsa())), need_(need) {
    startDevice();
  }

  // Under round robin, or in a random order of all threads that each call has for itself. Returns what the host did.
  // What device() and stream() gave out before is gone where a call failed for good.
  Outcome check(const Call& call) {
    Outcome expected;
    call(*host_, {}, expected);
#ifdef SPARSECOLL_TEST_SANITIZED
    std::vector<uint64_t> seeds;
#else
    std::vector<uint64_t> seeds = {0};
#endif
    for (uint64_t more = schedulesWanted(); more != 0; --more) seeds.push_back(++seed_);
    for (const uint64_t seed : seeds) {
      simt::schedule(seed);
      Outcome got;
      const Stream stream{nullptr, workspace_.get()};
      call(*device_, stream, got);
      got.end(device_->findings(stream, Deadline::in(600000)));
      INFO("schedule " << seed);
      CHECK(got.differs(expected) == "");
      if (isFatal(got.status().result())) startDevice();
      checkEmulation();
    }
    simt::schedule(0);
    return expected;
  }

  Kernels& device() { return *device_; }
  Stream stream() const { return {nullptr, workspace_.get()}; }

 private:
  // Also behind what ends a communicator: that finding stays.
  void startDevice() {
    workspace_.reset();
    auto device = cuda::makeCudaKernels(0);
    REQUIRE(device.ok());
    device_ = std::move(*device);
    auto workspace = device_->makeWorkspace(need_, nullptr);
    REQUIRE(workspace.ok());
    workspace_ = std::move(*workspace);
  }

  std::shared_ptr<Kernels> host_;
  WorkspaceNeed need_;
  std::shared_ptr<Kernels> device_;
  std::unique_ptr<Workspace> workspace_;
  uint64_t seed_ = 0;
};

// A frame with a list or a run in it, as it would have been received.
template <class A>
class ReceivedFrame {
 public:
  static ReceivedFrame list(const Entries<A>& entries) {
    ReceivedFrame frame(alignUp(entries.indices.size() * sizeof(uint32_t), 16) + entries.values.size() * sizeof(A),
                        static_cast<uint32_t>(entries.indices.size()), 0);
    std::byte* const at = frame.data_.get() + kFrameHeaderBytes;
    std::copy(entries.indices.begin(), entries.indices.end(), reinterpret_cast<uint32_t*>(at));
    std::copy(entries.values.begin(), entries.values.end(),
              reinterpret_cast<A*>(at + alignUp(entries.indices.size() * sizeof(uint32_t), 16)));
    return frame;
  }
  static ReceivedFrame run(const std::vector<A>& values) {
    ReceivedFrame frame(values.size() * sizeof(A), static_cast<uint32_t>(values.size()), kFrameDense);
    std::copy(values.begin(), values.end(), reinterpret_cast<A*>(frame.data_.get() + kFrameHeaderBytes));
    return frame;
  }

  ListView view(uint64_t first = 0) const {
    ListView view;
    view.indices = data_.get() + kFrameHeaderBytes;
    view.count = &header().count;
    view.flags = &header().flags;
    view.first = first;
    return view;
  }

 private:
  ReceivedFrame(uint64_t bytes, uint32_t count, uint16_t flags)
      : data_(std::make_unique<std::byte[]>(kFrameHeaderBytes + bytes)) {
    header().count = count;
    header().flags = flags;
  }
  FrameHeader& header() const { return *reinterpret_cast<FrameHeader*>(data_.get()); }
  std::unique_ptr<std::byte[]> data_;
};

// Lists of every shape that a sum of them can be hard in.
template <class A, class Index = uint32_t>
struct NamedLists {
  std::string name;
  Lists<A, Index> lists;
};

template <class A, class Index = uint32_t>
std::vector<NamedLists<A, Index>> listsOfAllKinds(size_t ranks, uint64_t n, uint64_t seed) {
  std::vector<NamedLists<A, Index>> all;
  const auto add = [&](const char* name) -> Lists<A, Index>& {
    return all.emplace_back(NamedLists<A, Index>{fmt::format("{}, {} lists, n {}", name, ranks, n), {}}).lists;
  };
  all.push_back({"dense", someLists<A, Index>(ranks, n, 0.4, seed)});
  all.push_back({"sparse, few magnitudes", someLists<A, Index>(ranks, n, 0.01, seed + 1, Fill::kTies)});
  all.push_back({"hostile", someLists<A, Index>(ranks, n, 0.1, seed + 2, Fill::kHostile)});
  all.push_back({"zeros", someLists<A, Index>(ranks, n, 0.05, seed + 3, Fill::kZero)});
  Lists<A, Index>& empty = add("empty");
  for (size_t r = 0; r < ranks; ++r) empty.add({});
  Lists<A, Index>& ends = add("one entry each");
  for (size_t r = 0; r < ranks; ++r)
    ends.add({{static_cast<Index>(r % 2 == 0 ? 0 : n - 1)}, {static_cast<A>(r) - A{2}}}, r % 2 == 0);
  const auto same = someEntries<A, Index>(n, 0.05, seed + 4);
  Lists<A, Index>& overlapping = add("all the same indices");
  for (size_t r = 0; r < ranks; ++r) overlapping.add(same);
  Lists<A, Index>& disjoint = add("disjoint");
  for (size_t r = 0; r < ranks; ++r) {
    Entries<A, Index> part;
    for (size_t i = r; i < same.indices.size(); i += ranks) {
      part.indices.push_back(same.indices[i]);
      part.values.push_back(same.values[i]);
    }
    disjoint.add(part, r % 2 == 1);
  }
  Lists<A, Index>& regions = add("a region each");
  for (size_t r = 0; r < ranks; ++r) {
    Entries<A, Index> part;
    for (size_t i = same.indices.size() * r / ranks; i < same.indices.size() * (r + 1) / ranks; ++i) {
      part.indices.push_back(same.indices[i]);
      part.values.push_back(same.values[i]);
    }
    regions.add(part);
  }
  return all;
}

}  // namespace sparsecoll::test
