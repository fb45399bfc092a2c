#include "transports/some_ranks.h"

#include <algorithm>

#include "transports/common.h"

namespace sparsecoll {

namespace {

class SomeRanks final : public Transport {
 public:
  SomeRanks(Transport& all, std::vector<int> members)
      : all_(all),
        members_(std::move(members)),
        rank_(static_cast<int>(std::ranges::find(members_, all.rank()) - members_.begin())),
        parts_(members_.size()) {
    out_.reserve(members_.size());
    in_.reserve(members_.size());
  }

  sparsecollTransport_t kind() const override { return all_.kind(); }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(members_.size()); }
  bool sharesMemory() const override { return all_.sharesMemory(); }
  bool checksumsPayload() const override { return all_.checksumsPayload(); }

  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                  Kernels* memory) override {
    return all_.makeWindow(bytes, std::move(budget), memory);
  }

  bool sumsAmong() const override { return true; }

  Status begin(Operation& operation) override { return all_.begin(operation); }
  void refuse(const Operation& operation, const Failure& why) override { all_.refuse(operation, why); }
  void end(const Operation& operation) override { all_.end(operation); }
  void abort() override { all_.abort(); }

  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) override {
    out_.assign(out.begin(), out.end());
    in_.assign(in.begin(), in.end());
    for (Outgoing& message : out_) message.peer = members_[static_cast<size_t>(message.peer)];
    for (Incoming& message : in_) message.peer = members_[static_cast<size_t>(message.peer)];
    SC_TRY(all_.round(operation, out_, in_, stream));
    for (size_t m = 0; m < in.size(); ++m) {
      in[m].frame = in_[m].frame;
      in[m].bytes = in_[m].bytes;
    }
    return {};
  }

  Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) override {
    for (int member = 0; member < ranks(); ++member)
      parts_[static_cast<size_t>(member)] = densePart(args.n, ranks(), member);
    AmongArgs among;
    among.dense = args;
    among.members = members_;
    among.parts = parts_;
    return all_.sumAmong(operation, among, stream);
  }

 private:
  Transport& all_;
  const std::vector<int> members_;
  const int rank_;
  std::vector<Range> parts_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
};

}  // namespace

std::unique_ptr<Transport> amongSomeRanks(Transport& all, std::vector<int> members) {
  return std::make_unique<SomeRanks>(all, std::move(members));
}

}  // namespace sparsecoll
