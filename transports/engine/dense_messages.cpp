// Dense sums between ranks that share no memory: contributions go out, or what of them did not fit into frames, and
// sums come back, each a message a segment.
#include <algorithm>

#include "transports/common.h"
#include "transports/engine/dense.h"

namespace sparsecoll::engine {

// Every peer gets word of what it may send before anything long leaves: behind that its word would wait for the link.
Status DenseSum::invite(bool& moved) {
  int far = 0;
  for (int step = 1; step < ranks_; ++step) {
    const int peer = (rank_ + ranks_ - step) % ranks_;
    if (!pair(peer).takesPart || pair(peer).near || small_) continue;
    SC_TRY(post(peer, moved));
    ++far;
  }
  if (far < 2) return {};  // what leaves for the one peer takes its word along
  SC_TRY(const bool worked, rounds_.work());
  moved = moved || worked;
  return {};
}

// First contributions leave in turn, to the next rank first: then they come to different ranks. Where each leaves when
// its peer is ready, some links are busy twice, and others idle.
bool DenseSum::letsNextBegin(const Pair& with) const {
  if (with.segments == 0) return true;
  // A later segment may wait for a sum that waits for what is kept back.
  const bool windowIsAnothers = with.sent > windows_;
  return windowIsAnothers || (with.sent != 0 && state_.port.haveBegun(with.sending[0]));
}

// keptBack: nothing of this rank's comes to the peer yet, unless something has before.
Status DenseSum::serveFar(int peer, bool keptBack, bool& moved) {
  if (small_) return {};
  SC_TRY(post(peer, moved));
  Pair& with = pair(peer);
  for (; with.arrived < with.posted; ++with.arrived, moved = true) {
    const uint64_t rest = bytesOf(segmentOf(rank_, with.arrived)) - begunOf(rank_);
    SC_TRY(const bool here, hasCome(with.contributions[with.arrived % windows_], peer, rest, "a contribution to"));
    if (!here) break;
  }
  for (; with.sent < with.segments && with.sending[with.sent % windows_] == 0 && !(keptBack && with.sent == 0);
       ++with.sent) {
    const Range segment = segmentOf(peer, with.sent);
    if (!isDirect()) copyContribution(peer);
    const std::byte* const from = isDirect() ? inAt(segment.begin) : place(peer, kOwnContribution, with.sent);
    const uint64_t begun = begunOf(peer);
    SC_TRY(state_.port.send(peer, kContributions, from + begun, bytesOf(segment) - begun, operation_->sequence,
                            &with.sending[with.sent % windows_]));
    moved = true;
  }
  return takeSums(peer, moved);
}

// Whether a message is here. what: "a contribution to" a sum, or "a part of" it.
Result<bool> DenseSum::hasCome(Arrival& arrival, int peer, uint64_t bytes, const char* what) {
  const Outcome outcome = state_.port.test(arrival);
  if (outcome == Outcome::kUnderWay) return false;
  if (outcome == Outcome::kFailed) return state_.port.unreachable(peer);
  if (arrival.bytes() == bytes) return true;
  return failBy(peer, sparsecollCorrupted, "rank {} sends {} bytes as {} a dense sum, expected {}", peer,
                arrival.bytes(), what, bytes);
}

// Where the sum of a segment comes to.
std::byte* DenseSum::landing(int peer, uint64_t segment) const {
  return landsInOut() ? outAt(segmentOf(peer, segment).begin) : place(peer, kSumOf, segment);
}

// Receives for what may come, as many as there is room for.
Status DenseSum::post(int peer, bool& moved) {
  Pair& with = pair(peer);
  const uint64_t own = segmentsOf(rank_);
  const uint64_t begun = begunOf(rank_);
  for (; with.posted < std::min(own, summed_ + windows_); ++with.posted, moved = true)
    SC_TRY(state_.port.receive(with.contributions[with.posted % windows_], peer, kContributions,
                               place(peer, kContribution, with.posted) + begun, segmentBytes_ - begun));
  for (; with.sumsPosted < std::min(with.segments, with.sumsTaken + windows_); ++with.sumsPosted, moved = true)
    SC_TRY(state_.port.receive(with.sums[with.sumsPosted % windows_], peer, kSums, landing(peer, with.sumsPosted),
                               landsInOut() ? bytesOf(segmentOf(peer, with.sumsPosted)) : segmentBytes_));
  return {};
}

Status DenseSum::takeSums(int peer, bool& moved) {
  Pair& with = pair(peer);
  for (; with.sumsTaken < with.sumsPosted; ++with.sumsTaken, moved = true) {
    const Range segment = segmentOf(peer, with.sumsTaken);
    SC_TRY(const bool here, hasCome(with.sums[with.sumsTaken % windows_], peer, bytesOf(segment), "a part of"));
    if (!here) break;
    takeSum(landing(peer, with.sumsTaken), segment);
  }
  return {};
}

void DenseSum::letGo() {
  if (!state_.port.moves()) return;
  for (int peer = 0; peer < ranks_; ++peer)
    for (uint32_t window = 0; window < windows_; ++window) {
      Pair& with = pair(peer);
      if (with.sending[window] != 0) state_.port.moveSends(with.sending[window], place(peer, kOwnContribution, window));
      if (with.sums[window].posted()) state_.port.moveArrival(with.sums[window], place(peer, kSumOf, window));
    }
  for (uint32_t window = 0; window < windows_; ++window)
    if (sumSending_[window] != 0) state_.port.moveSends(sumSending_[window], sumPlace(window));
}

}  // namespace sparsecoll::engine
