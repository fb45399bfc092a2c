#include "transports/engine/dense.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/numeric.h"
#include "transports/common.h"

namespace sparsecoll::engine {

namespace {

constexpr uint64_t kStagingBytes = 4u << 20;
constexpr uint64_t kLongestSegment = 128u << 10;
constexpr uint64_t kShortestSegment = 4u << 10;
constexpr int kManyRanks = 128;  // from here on a window of one segment keeps a rank busy

}  // namespace

DenseSum::DenseSum(State& state, Rounds& rounds)
    : state_(state),
      rounds_(rounds),
      rank_(state.setup.rank),
      ranks_(state.setup.ranks),
      windows_(ranks_ >= kManyRanks ? 1 : kMostWindows),
      pairs_(static_cast<size_t>(ranks_)),
      sumSending_(windows_),
      parts_(static_cast<size_t>(ranks_)) {
  members_.reserve(parts_.size());
  in_.reserve(parts_.size());
  sumsOut_.reserve(parts_.size());
  sumsIn_.reserve(parts_.size());
}

Status DenseSum::open() {
  if (ranks_ == 1) return {};
  const uint64_t places = windows_ * (kUses * static_cast<uint64_t>(ranks_) + 1);
  segmentBytes_ = kLongestSegment;
  while (segmentBytes_ > kShortestSegment && places * segmentBytes_ > kStagingBytes) segmentBytes_ /= 2;
  state_.port.expectRetirement();
  SC_TRY(staging_, state_.setup.kernels->allocate(places * segmentBytes_, state_.setup.budget));
  for (Pair& with : pairs_)
    for (uint32_t window = 0; window < windows_; ++window) {
      Port::makeRoom(with.contributions[window], segmentBytes_);
      Port::makeRoom(with.sums[window], segmentBytes_);
    }
  makeRoom();
  mostInFrame_ = std::min(segmentBytes_, state_.slotBytes - sizeof(Envelope) - kFrameHeaderBytes);
  frameBytes_ = alignUp(kFrameHeaderBytes + mostInFrame_, 64) + kFrameTailBytes;
  state_.port.expectRetirement();
  SC_TRY(frames_,
         state_.setup.kernels->allocate((2 * static_cast<uint64_t>(ranks_) + 1) * frameBytes_, state_.setup.budget));
  return {};
}

void DenseSum::makeRoom() {
  constexpr size_t kWays = 4;    // contributions and sums, to and from each peer
  constexpr size_t kFrames = 2;  // that a small sum needs beside them
  state_.port.makeRoom((kWays * windows_ + kFrames) * static_cast<size_t>(ranks_ - 1) + 1);
}

uint64_t DenseSum::segmentsOf(int rank) const {
  const Range part = partOf(rank);
  const uint64_t length = segmentBytes_ / elementBytes(args_.type);
  return (part.length() + length - 1) / length;
}

Range DenseSum::segmentOf(int rank, uint64_t segment) const {
  const Range part = partOf(rank);
  const uint64_t length = segmentBytes_ / elementBytes(args_.type);
  return {part.begin + segment * length, std::min(part.end, part.begin + (segment + 1) * length)};
}

// In the memory of any rank.
uint64_t DenseSum::offset(int peer, Use use, uint64_t segment) const {
  return ((static_cast<uint64_t>(peer) * kUses + use) * windows_ + segment % windows_) * segmentBytes_;
}

void DenseSum::reset(const DenseArgs& args, Stream stream) {
  makeRoom();
  args_ = args;
  stream_ = stream;
  nonFinite_ = 0;
  summed_ = 0;
  settled_ = small_ = invited_ = false;
  mostBegun_ = 0;
  round_ = Round::kNone;
  byEngine_ = false;
  in_.resize(members_.size());
  for (Pair& with : pairs_) with.takesPart = false;
  for (const int member : members_) pair(member).takesPart = member != rank_;
  for (int peer = 0; peer < ranks_; ++peer) {
    Pair& with = pair(peer);
    with.segments = with.takesPart ? segmentsOf(peer) : 0;
    // Of a half that is left out everything is done.
    const uint64_t own = with.takesPart ? segmentsOf(rank_) : 0;
    with.posted = with.arrived = sums() ? 0 : own;
    with.sent = sums() ? 0 : with.segments;
    with.sumsPosted = with.sumsTaken = gathers() ? 0 : with.segments;
    with.ahead = with.aheadOfPeer = 0;
    with.near = with.takesPart && rounds_.reaches(peer);
    if (!with.near) continue;
    const SharedMemory::Progress& progress = shared_->own(peer);
    with.contributedBefore = progress.contributed;
    with.consumedBefore = progress.consumed;
    with.summedBefore = progress.summed;
    with.takenBefore = progress.taken;
  }
}

void DenseSum::prepareMeeting() {
  const uint64_t most = mostInFrame_ / elementBytes(args_.type);
  const auto isFar = [&](int member) { return member != rank_ && !pair(member).near; };
  const bool goesFar = std::ranges::any_of(members_, isFar);
  small_ = goesFar && std::ranges::all_of(members_, [&](int member) { return partOf(member).length() <= most; });
  const bool begins =
      goesFar && sums() && std::ranges::all_of(members_, [&](int member) { return segmentsOf(member) <= 1; });
  mostBegun_ = small_ || begins ? most : 0;
  for (const int member : members_)
    if (isFar(member)) fillFrame(member);
  if (sums()) contributeAhead();
}

// Contributions and sums that leave this host once the ranks have met.
void DenseSum::announceFar() const {
  uint64_t bytes = 0;
  for (const int member : members_) {
    if (member == rank_ || !state_.port.leavesHost(member)) continue;
    if (sums()) bytes += bytesOf(partOf(member)) - begunOf(member);
    if (gathers()) bytes += bytesOf(partOf(rank_));
  }
  state_.port.expect(bytes, 0);  // no frames: each message waits for word that there is room
}

void DenseSum::begin(Operation& operation) {
  operation_ = &operation;
  // Ranks of one host would all begin with the same rank of the next one.
  inTurn_ = !small_ && !anyNear();
  if (!small_) announceFar();
  noteRound(operation, std::span<const Incoming>());
  for (const int member : members_)
    if (operation_->record != nullptr && member != rank_) operation_->record->await(member);
  for (int peer = 0; peer < ranks_; ++peer) {
    Pair& with = pair(peer);
    if (with.takesPart && !with.near) takeFrame(peer);
    if (with.ahead != 0) {
      with.sent = with.ahead;
      shared_->own(peer).contributed.store(with.contributedBefore + with.sent, std::memory_order_release);
    }
    with.arrived = std::max(with.arrived, with.aheadOfPeer);
  }
}

void DenseSum::prepare(const DenseArgs& args, Stream stream) {
  mirrored_ = ranks_ == 2 && !state_.port.sums() && !rounds_.reaches(1 - rank_);
  half_ = mirrored_ ? AmongArgs::Half::kSum : AmongArgs::Half::kBoth;
  members_.clear();
  for (int rank = 0; rank < ranks_; ++rank) {
    members_.push_back(rank);
    parts_[static_cast<size_t>(rank)] = mirrored_ ? Range{0, args.n} : densePart(args.n, ranks_, rank);
  }
  wide_ = false;
  reset(args, stream);
  if (!state_.port.sums()) prepareMeeting();
}

Status DenseSum::start(Operation& operation, bool alike) {
  begin(operation);
  if (ranks_ == 1) {
    reshape(*state_.setup.kernels,
            {args_.in, args_.out, args_.type, args_.n, args_.inputScale, args_.finish, args_.accumulate, &nonFinite_},
            stream_);
    return {};
  }
  if (!state_.port.sums()) return {};
  pieceAt_ = 0;
  alike_ = alike;
  byEngine_ = true;
  return startPiece();
}

void DenseSum::prepareAmong(const AmongArgs& args, Stream stream) {
  members_.assign(args.members.begin(), args.members.end());
  std::ranges::fill(parts_, Range());
  for (size_t m = 0; m < members_.size(); ++m) parts_[static_cast<size_t>(members_[m])] = args.parts[m];
  mirrored_ = false;
  half_ = args.half;
  wide_ = args.wide;
  reset(args.dense, stream);
  prepareMeeting();
}

Status DenseSum::startAmong(Operation& operation) {
  begin(operation);
  if (ranks_ > 1 || !sums()) return {};
  in_[0] = args_.in;
  formSum(0, args_.n);  // alone: nobody has opened anything
  return {};
}

void DenseSum::takeSum(const void* sum, const Range& segment) {
  std::byte* const out = outAt(segment.begin);
  if (!sums()) {  // finished where it comes from
    if (sum != out) std::memcpy(out, sum, segment.length() * elementBytes(args_.type));
    return;
  }
  reshape(*state_.setup.kernels, {sum, out, args_.type, segment.length(), 1, {}, args_.accumulate, &nonFinite_},
          stream_);
}

Result<bool> DenseSum::proceed(bool& moved) {
  if (ranks_ == 1) return true;
  if (round_ == Round::kUnderWay) {
    SC_TRY(const bool over, rounds_.proceed(moved));
    SC_TRY(takeFrames(moved));
    if (over) round_ = Round::kOver;
  } else {
    SC_TRY(moved, rounds_.work());
    SC_TRY(rounds_.lookAround(moved));
  }
  if (byEngine_) return proceedPiece(moved);
  if (!std::exchange(invited_, true)) SC_TRY(invite(moved));
  bool finished = true;
  bool keptBack = false;
  for (int step = 1; step < ranks_; ++step) {
    const int peer = (rank_ + step) % ranks_;
    if (!pair(peer).takesPart) continue;
    SC_TRY(pair(peer).near ? serveNear(peer, moved) : serveFar(peer, keptBack, moved));
    keptBack = keptBack || (inTurn_ && !letsNextBegin(pair(peer)));
  }
  inTurn_ = keptBack;
  SC_TRY(sumOwn(moved));
  if (awaitsRound() && summed_ == segmentsOf(rank_)) {
    startSums();
    moved = true;
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    if (!pair(peer).takesPart) continue;
    if (over(peer)) {
      if (operation_->record != nullptr) operation_->record->came(peer);
      continue;
    }
    finished = false;
    if (round_ == Round::kUnderWay && !pair(peer).near) continue;  // the round has looked
    SC_TRY(rounds_.check(peer, pair(peer).arrived + pair(peer).sumsTaken));
  }
  return finished && round_ != Round::kUnderWay && summed_ == segmentsOf(rank_);
}

bool DenseSum::over(int peer) const {
  const Pair& with = pairs_[static_cast<size_t>(peer)];
  return with.sent == with.segments && with.sumsTaken == with.segments && with.arrived == segmentsOf(rank_) &&
         (!with.near || half_ == AmongArgs::Half::kBoth || hasTaken(peer));
}

// The next segment, to where it is sent from or read.
void DenseSum::copyContribution(int peer) {
  const uint64_t sent = pair(peer).sent, element = elementBytes(args_.type);
  const Range segment = segmentOf(peer, sent);
  std::memcpy(place(peer, kOwnContribution, sent), inAt(segment.begin), segment.length() * element);
}

// This rank's part: a segment is summed once everybody's contribution is there, and sent to all.
Status DenseSum::sumOwn(bool& moved) {
  const uint64_t element = elementBytes(args_.type);
  const uint64_t own = segmentsOf(rank_);
  for (; summed_ < own && (!gathers() || (isSettled() && mayOverwriteSum())); ++summed_) {
    for (const int member : members_)
      if (member != rank_ && !isReady(member)) return {};
    const Range segment = segmentOf(rank_, summed_);
    const uint64_t length = segment.length();
    moved = true;
    if (sums()) {
      for (size_t m = 0; m < members_.size(); ++m)
        in_[m] = members_[m] == rank_ ? inAt(segment.begin) : contributionOf(members_[m]);
      formSum(segment.begin, length);
    } else if (!leavesFromOut()) {
      std::memcpy(sumPlace(summed_), outAt(segment.begin), length * element);
    }
    SC_TRY(passOn(segment));
  }
  return {};
}

// For the next segment's sum. Where all is exchanged the sum may overwrite what this rank contributes to the same
// segment, which has to be on its way by then.
bool DenseSum::isReady(int member) const {
  const Pair& with = pairs_[static_cast<size_t>(member)];
  return with.arrived > summed_ && (!mirrored_ || isSent(with, summed_));
}

// This rank's contribution: nothing reads the caller's vector for it any more.
bool DenseSum::isSent(const Pair& with, uint64_t segment) const {
  if (!isDirect() || args_.in != args_.out) return with.sent > segment;
  const bool windowIsAnothers = with.sent > segment + windows_;
  return windowIsAnothers || (with.sent > segment && with.sending[segment % windows_] == 0);
}

// Of the segment that is to be summed.
const void* DenseSum::contributionOf(int member) const {
  if (pairs_[static_cast<size_t>(member)].near) return shared_->of(member) + offset(rank_, kOwnContribution, summed_);
  return isInFrames(rank_) ? frameFrom(member) + kFrameHeaderBytes : place(member, kContribution, summed_);
}

// A segment is summed: the members may have it, and take back what they contributed.
Status DenseSum::passOn(const Range& segment) {
  const std::byte* const sum = leavesFromOut() ? outAt(segment.begin) : sumPlace(summed_);
  const uint64_t bytes = segment.length() * elementBytes(args_.type);
  for (int step = 1; step < ranks_; ++step) {
    const int peer = (rank_ + step) % ranks_;
    const Pair& with = pair(peer);
    if (with.near) {
      SharedMemory::Progress& progress = shared_->own(peer);
      if (sums()) progress.consumed.store(with.consumedBefore + summed_ + 1, std::memory_order_release);
      if (gathers()) progress.summed.store(with.summedBefore + summed_ + 1, std::memory_order_release);
    } else if (with.takesPart && gathers() && !small_) {
      SC_TRY(state_.port.send(peer, kSums, sum, bytes, operation_->sequence, &sumSending_[summed_ % windows_]));
    }
  }
  return {};
}

// Of the elements from `at` on, to where it is sent from and to out; or where nothing is sent, to out alone.
void DenseSum::formSum(uint64_t at, uint64_t length) {
  const bool travels = gathers() && ranks_ > 1;
  const bool alone = !travels && !mirrored_;
  const bool toOut = !travels || leavesFromOut();
  const uint64_t element = elementBytes(wide_ ? accumulateTypeOf(args_.type) : args_.type);
  const uint64_t begin = gathers() ? 0 : partOf(rank_).begin;
  std::byte* const out = static_cast<std::byte*>(args_.out) + (at - begin) * element;
  // A sum that all ranks have, and that out is to be increased by, goes there in a second step.
  const bool atOnce = alone || !args_.accumulate;
  const std::array<void*, 2> to = {toOut && atOnce ? out : sumPlace(summed_), out};
  state_.setup.kernels->denseSum(
      {in_, std::span(to).first(toOut || !atOnce ? 1 : 2), args_.type, length, args_.inputScale, args_.finish,
       atOnce && args_.accumulate, atOnce ? &nonFinite_ : nullptr, wide_},
      stream_);
  if (!atOnce) takeSum(to[0], {at, at + length});
}

Status DenseSum::timeout() const {
  if (byEngine_) return fail(sparsecollTimeout, "the engine's sum has not ended in time");
  std::vector<int> missing;
  const bool sumsLeft = summed_ < segmentsOf(rank_);
  for (int peer = 0; peer < ranks_; ++peer) {
    const Pair& with = pairs_[static_cast<size_t>(peer)];
    const bool mayComeLater = awaitsRound() && !with.near;  // once this rank has its own sum
    const bool awaited =
        with.takesPart ? (!over(peer) && !mayComeLater) || (sumsLeft && readsSum(peer)) : holdsUp(peer);
    if (awaited) missing.push_back(peer);
  }
  if (missing.empty() && round_ == Round::kUnderWay) return rounds_.timeout();
  return rounds_.overdue(missing, "the dense sum misses something from");
}

void DenseSum::end() {
  operation_ = nullptr;
  if (args_.nonFinite != nullptr) *args_.nonFinite = nonFinite_ != 0;
  args_ = {};
}

void DenseSum::giveUp() {
  letGo();
  if (round_ == Round::kUnderWay) rounds_.giveUp();
  round_ = Round::kNone;
  for (Pair& with : pairs_)
    for (uint32_t window = 0; window < windows_; ++window) {
      if (with.contributions[window].posted()) state_.port.abandon(with.contributions[window]);
      if (with.sums[window].posted()) state_.port.abandon(with.sums[window]);
    }
}

void DenseSum::close() {
  giveUp();
  state_.port.retire(std::move(staging_));
  state_.port.retire(std::move(frames_));
}

}  // namespace sparsecoll::engine
