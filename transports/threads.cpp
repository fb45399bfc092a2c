#include "transports/threads.h"

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "transports/common.h"
#include "transports/threads_group.h"

namespace sparsecoll {

namespace threads {

namespace {

constexpr uint64_t kCopyMs = 60000;           // for a few bytes to get to a device
constexpr uint64_t kSlabElements = 1u << 20;  // of a dense sum, formed between two looks at the group's state

// While it lives, peers that go down wait for this rank to be out of their memory.
class Visit {
 public:
  Visit(Group& group, std::span<const int> members) : group_(group), inside_(group.enter(members)) {}
  ~Visit() {
    if (inside_) group_.leave();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool inside() const { return inside_; }

 private:
  Group& group_;
  const bool inside_;
};

class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Group> group, int rank, std::shared_ptr<Kernels> kernels,
                   std::shared_ptr<MemoryBudget> budget)
      : group_(std::move(group)), rank_(rank), kernels_(std::move(kernels)), budget_(std::move(budget)) {
    const auto size = static_cast<size_t>(group_->ranks());
    outgoing_.reserve(size);
    incoming_.reserve(size);
    amongOut_.reserve(size);
    amongIn_.reserve(size);
    for (int peer = 0; peer < group_->ranks(); ++peer) {
      everyone_.push_back(peer);
      if (peer == rank_) continue;
      outgoing_.push_back({peer, nullptr, {}});
      incoming_.push_back({peer, nullptr, 0, nullptr, 0});
    }
    bytes_.resize(size);
    written_.resize(size);
    pointers_.reserve(size);
    in_.resize(size);
    out_.resize(size);
    slabIn_.resize(size);
    slabOut_.resize(size);
  }
  ~ThreadsTransport() override { group_->takeDown(rank_, Group::Down::kGone); }

  sparsecollTransport_t kind() const override { return sparsecollTransportThreads; }
  int rank() const override { return rank_; }
  int ranks() const override { return group_->ranks(); }
  bool sharesMemory() const override { return true; }
  bool checksumsPayload() const override { return false; }

  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                  Kernels* memory) override {
    Kernels& owner = memory != nullptr ? *memory : *kernels_;
    return RetiringWindow<WindowKeeper>::make({group_, rank_}, owner, bytes, budget != nullptr ? budget : budget_);
  }

  // Makes what orders the ranks' streams, where kernels do not finish before they return.
  Status makeMarkers() {
    if (!ordersStreams()) return {};
    for (size_t parity = 0; parity < 2; ++parity) {
      SC_TRY(auto read, kernels_->makeMarker());
      group_->setRead(rank_, parity, std::move(read));
      for (std::shared_ptr<Marker>& marker : frames_[parity]) {
        SC_TRY(marker, kernels_->makeMarker());
      }
    }
    return {};
  }

  // Flags, too: for captured operations, and all that come after one.
  Status makeFlags() {
    if (!ordersStreams()) return {};
    SC_TRY(auto flags, kernels_->makeFlags((1 + kMostRounds) * static_cast<uint64_t>(group_->ranks())));
    group_->setFlags(rank_, std::move(flags));
    SC_TRY(sequence_, makeReplaySequence(*kernels_));
    return kernels_->findings(kernels_->stream(), Deadline::in(kCopyMs));
  }

  Status begin(Operation& operation) override {
    const bool onStream = ordersStreams() && !operation.onHost;
    flagged_ = false;
    captured_ = onStream && kernels_->captures(operation.stream);
    if (captured_ && group_->flagsOf(rank_) == nullptr)
      return unsupported("capture where streams cannot wait for values in memory");
    if (captured_) SC_TRY(kernels_->fitsWaits(0));
    const Mode mode = captured_ ? Mode::kCaptured : onStream || !ordersStreams() ? Mode::kRun : Mode::kOnHost;
    SC_TRY(flagged_, group_->begin(rank_, operation, mode));
    if (flagged_) awaitEnds(operation);
    if (captured_) operation.sequenceAt = sequence_.as<uint64_t>();
    if (operation.onHost) lastOnHost_ = operation.sequence;
    if (captured_ || !onStream) return {};
    for (const Incoming& message : incoming_) {
      kernels_->await(*group_->readOf(message.peer, operation.sequence), operation.stream);
      // The operation before the previous one left no mark, so what was before that has to be over.
      if (operation.sequence == lastOnHost_ + 2)
        kernels_->await(*group_->readOf(message.peer, operation.sequence + 1), operation.stream);
    }
    return {};
  }

  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream) override {
    SC_TRY(exchange(operation, out, in));
    operation.sentMessages += out.size();
    for (size_t m = 0; m < out.size(); ++m) operation.sentBytes += bytes_[m];
    for (const Incoming& message : in) operation.receivedBytes += message.bytes;
    return {};
  }

  Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) override {
    const Status offered = offerVectors(operation, args);
    return settle(offered, [&] { return sumTogether(operation, args, stream); });
  }

  bool sumsAmong() const override { return !ordersStreams(); }
  Status sumAmong(Operation& operation, AmongArgs& args, Stream stream) override {
    amongOut_.clear();
    amongIn_.clear();
    for (const int member : args.members) {
      if (member == rank_) continue;
      amongOut_.push_back({member, nullptr, {}});
      amongIn_.push_back({member, nullptr, 0, nullptr, 0});
    }
    const Status offered = offerAmong(operation, args);
    return settle(offered, [&] { return finishAmong(operation, args, stream); });
  }

  void refuse(const Operation& operation, const Failure& why) override { group_->refuse(rank_, operation, why); }
  void end(const Operation& operation) override {
    if (ordersStreams() && !operation.onHost && !captured_)
      kernels_->mark(*const_cast<Marker*>(group_->readOf(rank_, operation.sequence)), operation.stream);
    uint64_t* const counts[] = {sequence_.as<uint64_t>(), operation.replays};
    if (flagged_)
      kernels_->raise(*group_->flagsOf(rank_), endsHere(), std::span(counts, captured_ ? 2 : 0), operation.stream);
    group_->end(rank_, operation);
  }
  void abort() override { group_->takeDown(rank_, Group::Down::kAborted); }
  void leave() override { group_->takeDown(rank_, Group::Down::kLeft); }
  void shutDown() override { group_->close(rank_); }
  const std::shared_ptr<Group>& group() const { return group_; }
  Status replaysSound(bool inTime) override { return group_->replaysSound(rank_, inTime); }

 private:
  bool ordersStreams() const { return kernels_->backend() != sparsecollBackendHost; }

  // A flag that `raiser` raises and `waiter` waits for: at the end of an operation, or once the raiser's frame of a
  // round is whole.
  uint32_t* flag(int waiter, int raiser, uint64_t place) {
    const auto ranks = static_cast<uint64_t>(group_->ranks());
    return group_->flagsOf(waiter)->at(place * ranks + static_cast<uint64_t>(raiser));
  }
  static constexpr uint64_t kEnd = 0;
  static uint64_t placeOf(const Operation& operation) { return 1 + operation.round; }

  // Of every peer: this rank has read all there is to read of an operation.
  std::span<uint32_t* const> endsHere() {
    pointers_.clear();
    for (const Incoming& message : incoming_) pointers_.push_back(flag(message.peer, rank_, kEnd));
    return pointers_;
  }

  // Behind this all peers have read what they read in the operation before.
  void awaitEnds(const Operation& operation) {
    const Flags& own = *group_->flagsOf(rank_);
    if (!std::exchange(armed_, true)) {         // the operations before left marks and no flags
      const Stream aside = kernels_->stream();  // never captured
      for (uint64_t parity = 0; parity < 2; ++parity) kernels_->await(*group_->readOf(rank_, parity), aside);
      kernels_->raise(own, endsHere(), {}, aside);
    }
    pointers_.clear();
    for (const Incoming& message : incoming_) pointers_.push_back(flag(rank_, message.peer, kEnd));
    kernels_->awaitRaised(own, pointers_, operation.stream);
    kernels_->lower(own, pointers_, operation.stream);
  }

  // A round of a captured operation: addresses are learned now, flags say in every replay when there is a frame.
  Status exchangeCaptured(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in) {
    if (operation.round >= kMostRounds) return unsupported("capture of more than {} rounds", kMostRounds);
    const Flags& own = *group_->flagsOf(rank_);
    pointers_.clear();
    for (const Outgoing& message : out) pointers_.push_back(flag(message.peer, rank_, placeOf(operation)));
    kernels_->raise(own, pointers_, {}, operation.stream);
    SC_TRY(group_->post(rank_, operation, out, bytes_, nullptr));
    SC_TRY(group_->collect(rank_, operation, in, written_));
    pointers_.clear();
    for (const Incoming& message : in) pointers_.push_back(flag(rank_, message.peer, placeOf(operation)));
    kernels_->awaitRaised(own, pointers_, operation.stream);
    kernels_->lower(own, pointers_, operation.stream);
    ++operation.round;
    return {};
  }

  // Frames on a device are not looked at: all of them counts as sent.
  Status exchange(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in,
                  Heeds heeds = Heeds::kAll) {
    for (size_t m = 0; m < out.size(); ++m)
      bytes_[m] = ordersStreams() ? out[m].layout.capacityBytes() : out[m].layout.usedBytes(readHeader(out[m].frame));
    noteRound(operation, in);
    if (captured_) return exchangeCaptured(operation, out, in);
    std::shared_ptr<const Marker> written;
    if (ordersStreams() && !operation.onHost) {
      const std::shared_ptr<Marker>& marker = frames_[operation.sequence % 2][operation.round % kMostRounds];
      kernels_->mark(*marker, operation.stream);
      written = marker;
    }
    SC_TRY(group_->post(rank_, operation, out, bytes_, written, heeds));
    SC_TRY(group_->collect(rank_, operation, in, written_, heeds));
    for (size_t m = 0; m < in.size(); ++m)
      if (written_[m] != nullptr) kernels_->await(*written_[m], operation.stream);
    ++operation.round;
    return {};
  }

  // Ranks that disagree have not met each other's matching offers, so nobody is inside this caller's memory. Once they
  // have met, whatever ends the sum ends the communicator, and the caller is told so.
  template <class Sum>
  Status settle(const Status& offered, Sum sum) {
    if (!offered.ok() && !isFatal(offered.result())) return Status(offered.failure());
    const Status summed = offered.ok() ? withoutThrowing(sum) : Status(offered.failure());
    if (summed.ok()) return {};
    group_->takeDown(rank_, Group::Down::kAborted);
    group_->awaitReaders(rank_);
    Failure failure = summed.failure();
    if (!isFatal(failure.result)) failure.result = sparsecollInternalError;
    return Status(failure);
  }

  // Peers may be inside this caller's memory, which must not be the caller's again before they are out.
  template <class Sum>
  static Status withoutThrowing(Sum sum) try {
    return sum();
  } catch (...) {
    return fail(sparsecollInternalError, "an exception inside a sum");
  }

  // What offerVectors does, among some ranks.
  Status offerAmong(Operation& operation, const AmongArgs& args) {
    DenseOffer& offer = group_->offer(rank_, operation.sequence, args.half);
    offer.in = args.dense.in;
    offer.out = args.dense.out;
    SC_TRY(exchangeHeader(operation, offer.header, 0, amongOut_, amongIn_, Heeds::kSenders));
    const size_t own = args.own(rank_);
    in_[own] = args.dense.in;
    out_[own] = args.dense.out;
    for (size_t m = 0, from = 0; m < args.members.size(); ++m) {
      if (m == own) continue;
      const auto* const peers = reinterpret_cast<const DenseOffer*>(amongIn_[from++].frame);
      in_[m] = peers->in;
      out_[m] = peers->out;
    }
    return {};
  }

  // And sumTogether. A rank's bytes are those that a message engine moves.
  Status finishAmong(Operation& operation, AmongArgs& args, Stream stream) {
    uint32_t metNonFinite = args.half == AmongArgs::Half::kGather && args.nonFinite ? 1 : 0;
    const bool complete =
        args.half == AmongArgs::Half::kGather ? gatherAmong(args, stream) : sumPartAmong(args, metNonFinite, stream);
    if (!complete) return group_->whoIsDown(rank_, args.members);
    countAmong(operation, args, rank_);
    FrameHeader& done = group_->offer(rank_, operation.sequence, args.half).done;
    const uint16_t flags = metNonFinite != 0 ? kFrameNonFinite : 0;
    SC_TRY(exchangeHeader(operation, done, flags, amongOut_, amongIn_, Heeds::kNobody));
    bool anyNonFinite = metNonFinite != 0;
    for (const Incoming& message : amongIn_)
      anyNonFinite = anyNonFinite || (readHeader(message.frame).flags & kFrameNonFinite) != 0;
    args.nonFinite = anyNonFinite;
    if (args.dense.nonFinite != nullptr) *args.dense.nonFinite = anyNonFinite;
    return {};
  }

  bool sumPartAmong(const AmongArgs& args, uint32_t& metNonFinite, Stream stream) {
    const Visit visit(*group_, args.members);
    if (!visit.inside()) return false;
    const DenseArgs& dense = args.dense;
    const size_t members = args.members.size();
    const Range part = args.parts[args.own(rank_)];
    const bool whole = args.half == AmongArgs::Half::kBoth;
    const uint64_t outElement = args.wide ? elementBytes(accumulateTypeOf(dense.type)) : elementBytes(dense.type);
    for (uint64_t at = part.begin; at < part.end; at += kSlabElements) {
      if (group_->anyDown(args.members)) return false;
      setSlabs(at, dense.type, members);
      if (!whole) slabOut_[0] = static_cast<std::byte*>(dense.out) + (at - part.begin) * outElement;
      kernels_->denseSum({std::span(slabIn_.data(), members), std::span(slabOut_.data(), whole ? members : 1),
                          dense.type, std::min(kSlabElements, part.end - at), dense.inputScale, dense.finish,
                          dense.accumulate, &metNonFinite, args.wide},
                         stream);
    }
    return true;
  }

  bool gatherAmong(const AmongArgs& args, Stream stream) {
    const Visit visit(*group_, args.members);
    if (!visit.inside()) return false;
    const uint64_t element = elementBytes(args.dense.type);
    for (size_t m = 0; m < args.members.size(); ++m) {
      if (args.members[m] == rank_) continue;
      for (uint64_t at = args.parts[m].begin; at < args.parts[m].end; at += kSlabElements) {
        if (group_->anyDown(args.members)) return false;
        const uint64_t length = std::min(kSlabElements, args.parts[m].end - at);
        kernels_->copy(static_cast<std::byte*>(args.dense.out) + at * element,
                       static_cast<const std::byte*>(out_[m]) + at * element, length * element, stream);
      }
    }
    return true;
  }

  // Round one: everyone learns where everyone's vectors lie, and that all of them mean the same operation.
  Status offerVectors(Operation& operation, const DenseArgs& args) {
    DenseOffer& offer = group_->offer(rank_, operation.sequence);
    offer.in = args.in;
    offer.out = args.out;
    SC_TRY(exchangeHeader(operation, offer.header, 0, outgoing_, incoming_));
    in_[static_cast<size_t>(rank_)] = args.in;
    out_[static_cast<size_t>(rank_)] = args.out;
    for (const Incoming& message : incoming_) {
      const auto* const peers = reinterpret_cast<const DenseOffer*>(message.frame);
      in_[static_cast<size_t>(message.peer)] = peers->in;
      out_[static_cast<size_t>(message.peer)] = peers->out;
    }
    return {};
  }

  // Round two: nobody returns before every part is summed, nor while its vectors are in use.
  Status sumTogether(Operation& operation, const DenseArgs& args, Stream stream) {
    if (ordersStreams()) return sumOnDevices(operation, args, stream);
    bool nonFinite = false;
    if (!sumOwnPart(operation, args, nonFinite, stream)) return group_->whoIsDown(rank_, everyone_);
    DenseOffer& offer = group_->offer(rank_, operation.sequence);
    SC_TRY(exchangeHeader(operation, offer.done, nonFinite ? kFrameNonFinite : 0, outgoing_, incoming_));
    for (const Incoming& message : incoming_)
      nonFinite = nonFinite || (readHeader(message.frame).flags & kFrameNonFinite) != 0;
    if (args.nonFinite != nullptr) *args.nonFinite = nonFinite;
    return {};
  }

  // The streams see to it that nobody writes to a vector before it is read, nor returns it before it is written.
  // Whether the sum is finite the host would have to wait for: kernels note it where they are asked to.
  Status sumOnDevices(Operation& operation, const DenseArgs& args, Stream stream) {
    const Range part = densePart(args.n, ranks(), rank_);
    setSlabs(part.begin, args.type, slabIn_.size());
    kernels_->denseSum(
        {slabIn_, slabOut_, args.type, part.length(), args.inputScale, args.finish, args.accumulate, args.nonFiniteAt},
        stream);
    countParts(operation, args, ranks(), rank_);
    return exchangeHeader(operation, group_->offer(rank_, operation.sequence).done, 0, outgoing_, incoming_);
  }

  // The first `count` ranks' vectors from element `at` on.
  void setSlabs(uint64_t at, sparsecollDataType_t type, size_t count) {
    for (size_t r = 0; r < count; ++r) {
      slabIn_[r] = static_cast<const std::byte*>(in_[r]) + at * elementBytes(type);
      slabOut_[r] = static_cast<std::byte*>(out_[r]) + at * elementBytes(type);
    }
  }

  // A header-only frame to some peers, and theirs checked.
  Status exchangeHeader(Operation& operation, FrameHeader& header, uint16_t flags, std::span<Outgoing> to,
                        std::span<Incoming> from, Heeds heeds = Heeds::kAll) {
    header = {operation.sequence, operation.plan, 0, flags, 0, 0, 0};
    auto* const frame = reinterpret_cast<std::byte*>(&header);
    header.checksum = frameChecksum(frame, kFrameHeaderBytes, false);
    for (Outgoing& message : to) message.frame = frame;
    SC_TRY(exchange(operation, to, from, heeds));
    for (const Incoming& message : from) {
      const FrameExpectation expected{operation.sequence, operation.plan};
      auto checked = checkFrame(message.frame, message.bytes, {}, expected, false);
      if (checked.ok()) continue;
      Failure failure = checked.takeStatus().failure();
      failure.peer = message.peer;
      return Status(failure);
    }
    return {};
  }

  // This rank owns one part of the vector: it reads it from every rank and writes the sum to every rank. Returns false
  // if it gave up because a rank failed.
  bool sumOwnPart(Operation& operation, const DenseArgs& args, bool& nonFinite, Stream stream) {
    const Visit visit(*group_, everyone_);
    if (!visit.inside()) return false;
    const Range part = densePart(args.n, ranks(), rank_);
    uint32_t anyNonFinite = 0;
    for (uint64_t at = part.begin; at < part.end; at += kSlabElements) {
      if (group_->anyDown(everyone_)) return false;
      setSlabs(at, args.type, slabIn_.size());
      kernels_->denseSum({slabIn_, slabOut_, args.type, std::min(kSlabElements, part.end - at), args.inputScale,
                          args.finish, args.accumulate, &anyNonFinite},
                         stream);
    }
    nonFinite = anyNonFinite != 0;
    countParts(operation, args, ranks(), rank_);
    return true;
  }

  std::shared_ptr<Group> group_;
  int rank_;
  std::shared_ptr<Kernels> kernels_;
  std::shared_ptr<MemoryBudget> budget_;
  std::vector<int> everyone_;
  std::vector<Outgoing> outgoing_;  // to and from every peer, for dense
  std::vector<Incoming> incoming_;
  std::vector<Outgoing> amongOut_;  // the same for a sum among some ranks
  std::vector<Incoming> amongIn_;
  std::vector<uint64_t> bytes_;                         // of the messages of the round under way
  std::vector<std::shared_ptr<const Marker>> written_;  // behind them they are whole
  std::vector<uint32_t*> pointers_;                     // flags of one call
  Buffer sequence_;                                     // of replayed operations, advanced by each one's last kernel
  uint64_t lastOnHost_ = 0;                             // the latest operation whose frames were the host's
  bool captured_ = false;                               // the operation under way,
  bool flagged_ = false;                                // and whether flags order it
  bool armed_ = false;  // peers know that this rank has ended all operations without flags
  static constexpr size_t kMostRounds = 64;
  std::array<std::shared_ptr<Marker>, kMostRounds> frames_[2];  // by parity and round; empty on the host
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<const void*> slabIn_;
  std::vector<void*> slabOut_;
};

}  // namespace

}  // namespace threads

Result<std::vector<std::unique_ptr<Transport>>> makeThreadsTransports(
    std::span<const std::shared_ptr<Kernels>> kernels, std::vector<std::shared_ptr<MemoryBudget>> budgets) {
  const auto ranks = static_cast<int>(kernels.size());
  auto group = std::make_shared<threads::Group>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (size_t rank = 0; rank < kernels.size(); ++rank) {
    auto transport = std::make_unique<threads::ThreadsTransport>(group, static_cast<int>(rank), kernels[rank],
                                                                 std::move(budgets[rank]));
    SC_TRY(transport->makeMarkers());
    SC_TRY(transport->makeFlags());
    transports.push_back(std::move(transport));
  }
  return transports;
}

Result<Regrouped> regroupThreads(Transport& transport, const Regrouping& call, std::shared_ptr<Kernels> kernels,
                                 std::shared_ptr<MemoryBudget> budget, const Deadline& deadline) {
  const auto& from = static_cast<const threads::ThreadsTransport&>(transport);
  threads::Gathering gathering;
  gathering.tag = call.tag;
  gathering.dropsGone = call.dropsGone;
  gathering.wanted = call.wanted;
  gathering.order = call.order;
  SC_TRY(const threads::Gathering met, from.group()->gather(from.rank(), gathering, call.own, deadline));
  Regrouped made;
  made.lowest = call.own;
  for (const int member : met.members) made.lowest = std::min(made.lowest, met.own[static_cast<size_t>(member)]);
  const auto rank = static_cast<int>(std::ranges::find(met.members, from.rank()) - met.members.begin());
  made.transport = std::make_unique<threads::ThreadsTransport>(met.group, rank, std::move(kernels), std::move(budget));
  return made;
}

}  // namespace sparsecoll
