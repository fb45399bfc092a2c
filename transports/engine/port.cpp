#include "transports/engine/port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/patience.h"

namespace sparsecoll::engine {

bool Port::good(int code, const char* function) {
  if (code == 0) return true;
  lastCode_ = code;
  lastFunction_ = function;
  return false;
}

Status Port::unreachable(int peer) const {
  return failBy(peer, sparsecollPeerFailed, "rank {} cannot be reached: the engine's {} returned {}", peer,
                lastFunction_, lastCode_);
}

void Port::makeRoom(size_t requests) {
  const size_t needed = underWay_.size() + posted_ + requests + 1;
  if (needed > underWay_.capacity()) underWay_.reserve(2 * needed);
  if (underWay_.capacity() > failedPeers_.capacity()) failedPeers_.reserve(underWay_.capacity());
}

Status Port::send(int peer, Tag tag, const std::byte* data, uint64_t bytes, uint64_t sequence, uint32_t* count) {
  makeRoom(piecesOf(bytes));
  do {
    const uint64_t piece = std::min<uint64_t>(bytes, SPARSECOLL_ENGINE_MESSAGE_BYTES);
    const bool waits = pace_ != nullptr && tag != kNotices;
    void* request = nullptr;
    if (!waits && !good(table_.isend(table_.user, peer, tag, data, piece, &request), "isend")) return unreachable(peer);
    underWay_.push_back({request, peer, data, piece, sequence, count, false});
    if (waits) {
      UnderWay& one = underWay_.back();
      one.tag = tag;
      one.ticket = ++tickets_;
      one.since = std::chrono::steady_clock::now();
      ++waiting_;
    }
    if (count != nullptr) ++*count;
    data += piece;
    bytes -= piece;
  } while (bytes != 0);
  if (waiting_ != 0) (void)letLeave();
  return {};
}

// Hands over messages whose time has come, in the order of send. Returns whether there were any.
bool Port::letLeave(bool all) {
  bool moved = false;
  for (;;) {
    UnderWay* next = nullptr;
    for (UnderWay& one : underWay_)
      if (one.ticket != 0 && !one.givenUp && (next == nullptr || one.ticket < next->ticket)) next = &one;
    if (next == nullptr) break;
    const auto now = std::chrono::steady_clock::now();
    if (next->ticket != begun_) pace_->begin(next->bytes, next->since, now);
    begun_ = next->ticket;
    sumBegun_ = false;
    if (!all && now < pace_->due()) return moved;
    pace_->left();
    next->ticket = begun_ = 0;
    --waiting_;
    moved = true;
    const int code = table_.isend(table_.user, next->peer, next->tag, next->data, next->bytes, &next->request);
    if (!good(code, "isend")) end(*next, true);
  }
  if (begun_ != 0) pace_->giveUp();
  begun_ = 0;
  return moved;
}

Status Port::receive(Arrival& arrival, int peer, Tag tag, std::byte* data, uint64_t capacity) {
  arrival.peer_ = peer;
  arrival.pieces_.clear();
  arrival.done_ = 0;
  arrival.bytes_ = arrival.partly_ = 0;
  makeRoom(arrival, capacity);
  makeRoom(piecesOf(capacity));
  do {
    const uint64_t piece = std::min<uint64_t>(capacity, SPARSECOLL_ENGINE_MESSAGE_BYTES);
    void* request = nullptr;
    if (!good(table_.irecv(table_.user, peer, tag, data, piece, &request), "irecv")) {
      abandon(arrival);
      return unreachable(peer);
    }
    arrival.pieces_.push_back({request, data, piece});
    ++posted_;
    data += piece;
    capacity -= piece;
  } while (capacity != 0);
  return {};
}

Outcome Port::look(void** request, uint64_t* bytes) {
  int done = 0;
  size_t received = 0;
  if (!good(table_.test(table_.user, request, &done, &received), "test")) return Outcome::kFailed;
  *bytes = received;
  return done == 0 ? Outcome::kUnderWay : Outcome::kDone;
}

Outcome Port::test(Arrival& arrival) {
  while (arrival.done_ < arrival.pieces_.size()) {
    Arrival::Piece& piece = arrival.pieces_[arrival.done_];
    uint64_t bytes = 0;
    const Outcome outcome = look(&piece.request, &bytes);
    arrival.partly_ = outcome == Outcome::kUnderWay ? bytes : 0;
    if (outcome == Outcome::kUnderWay) return outcome;
    ++arrival.done_;
    --posted_;
    if (outcome == Outcome::kFailed || bytes > piece.bytes) {
      abandon(arrival);
      return Outcome::kFailed;
    }
    arrival.bytes_ += bytes;
  }
  arrival.pieces_.clear();
  return Outcome::kDone;
}

void Port::moveSends(const uint32_t& count, std::byte* to) {
  for (UnderWay& one : underWay_) {
    if (one.count != &count || one.data == to) continue;
    std::memcpy(to, one.data, one.bytes);
    one.data = to;
    if (one.ticket == 0) calls_.move(one.request, to);
  }
}

void Port::moveArrival(Arrival& arrival, std::byte* to) {
  const std::byte* const from = arrival.pieces_.front().data;
  for (size_t i = arrival.done_; i < arrival.pieces_.size(); ++i) {
    Arrival::Piece& piece = arrival.pieces_[i];
    piece.data = to + (piece.data - from);
    calls_.move(piece.request, piece.data);
  }
}

void Port::abandon(Arrival& arrival) noexcept {
  for (; arrival.done_ < arrival.pieces_.size(); ++arrival.done_, --posted_) {
    const Arrival::Piece& piece = arrival.pieces_[arrival.done_];
    underWay_.push_back({piece.request, arrival.peer_, piece.data, piece.bytes, UINT64_MAX, nullptr, false});
  }
  arrival.pieces_.clear();
}

void Port::giveUp(UnderWay& one) {
  if (one.givenUp) return;
  one.givenUp = true;
  if (one.ticket == 0) (void)table_.cancel(table_.user, &one.request);  // which may be unable to
}

void Port::giveUp(int peer) {
  for (UnderWay& one : underWay_)
    if (one.peer == peer && one.sequence != UINT64_MAX) giveUp(one);
}

bool Port::maySum(uint64_t bytes) {
  if (pace_ == nullptr) return true;
  if (waiting_ != 0) return false;
  const auto now = std::chrono::steady_clock::now();
  if (!std::exchange(sumBegun_, true)) pace_->begin(bytes, now, now);
  return now >= pace_->due();
}

Status Port::startSum(const void* in, void* out, uint64_t count, sparsecollDataType_t type) {
  makeRoom(1);
  const int code = table_.iallreduce(table_.user, in, out, count, type, sparsecollSum, &sum_);
  if (code == sparsecollUnsupported) return unsupported("the engine does not sum type {}", int{type});
  if (!good(code, "iallreduce")) return fail(sparsecollSystemError, "the engine's iallreduce returned {}", code);
  if (std::exchange(sumBegun_, false)) pace_->left();
  summing_ = true;
  summed_ = {static_cast<const std::byte*>(out), count * elementBytes(type)};
  return {};
}

Outcome Port::testSum() {
  uint64_t bytes = 0;
  const Outcome outcome = look(&sum_, &bytes);
  summing_ = outcome == Outcome::kUnderWay;
  return outcome;
}

Result<bool> Port::progress() {
  if (table_.progress != nullptr && !good(table_.progress(table_.user), "progress"))
    return fail(sparsecollSystemError, "the engine's progress returned {}", lastCode_);
  bool moved = waiting_ != 0 && letLeave();
  for (size_t i = 0; i < underWay_.size();) {
    UnderWay& one = underWay_[i];
    if (one.ticket != 0 && !one.givenUp) {
      ++i;
      continue;
    }
    uint64_t bytes = 0;
    const Outcome outcome = one.ticket != 0 ? Outcome::kDone : look(&one.request, &bytes);
    if (outcome == Outcome::kUnderWay) {
      ++i;
      continue;
    }
    end(one, outcome == Outcome::kFailed);
    moved = true;
  }
  return moved;
}

// What stands last takes its place.
void Port::end(UnderWay& one, bool failed) {
  if (failed && !one.givenUp) failedPeers_.push_back(one.peer);
  if (one.count != nullptr) --*one.count;
  if (one.ticket != 0) --waiting_;
  one = underWay_.back();
  underWay_.pop_back();
}

Pace::Time Port::restUntil(bool keptAwake) const {
  constexpr auto kMoment = std::chrono::microseconds(10);
  return calls_.sleeps && !keptAwake ? std::min(due(), std::chrono::steady_clock::now() + kMoment) : due();
}

std::optional<int> Port::sendingTo(uint64_t sequence) const {
  for (const UnderWay& one : underWay_)
    if (!one.givenUp && one.sequence <= sequence) return one.peer;
  return {};
}

bool Port::isSending(int peer, const uint32_t& count) const {
  return std::any_of(underWay_.begin(), underWay_.end(),
                     [&](const UnderWay& one) { return one.peer == peer && one.count == &count && !one.givenUp; });
}

bool Port::haveBegun(const uint32_t& count) const {
  return count == 0 || calls_.hasBegun == nullptr ||
         std::none_of(underWay_.begin(), underWay_.end(), [&](const UnderWay& one) {
           return one.count == &count && one.ticket == 0 && !calls_.hasBegun(one.request);
         });
}

int Port::takeFailedPeer() {
  if (failedPeers_.empty()) return -1;
  const int peer = failedPeers_.back();
  failedPeers_.pop_back();
  return peer;
}

void Port::expectRetirement() {
  sweep();
  retired_.reserve(retired_.size() + expected_.size() + 1);
  expected_.push_back(std::make_unique<Buffer>());
}

bool Port::uses(const Buffer& memory) const {
  const auto overlaps = [&](const std::byte* data, uint64_t bytes) {
    return data < memory.as<>() + memory.bytes() && memory.as<>() < data + bytes;
  };
  if (summing_ && overlaps(summed_.data(), summed_.size())) return true;
  return std::any_of(underWay_.begin(), underWay_.end(),
                     [&](const UnderWay& one) { return overlaps(one.data, one.bytes); });
}

void Port::retire(Buffer memory) noexcept {
  if (memory.bytes() == 0) return;
  std::unique_ptr<Buffer> kept = std::move(expected_.back());
  expected_.pop_back();
  *kept = std::move(memory);
  if (closed_) {
    if (uses(*kept)) (void)kept.release();  // for ever: the engine has not let go of it
    return;
  }
  retired_.push_back(std::move(kept));
  sweep();
}

void Port::sweep() {
  const auto kept =
      std::partition(retired_.begin(), retired_.end(), [this](const auto& memory) { return uses(*memory); });
  retired_.erase(kept, retired_.end());
}

void Port::close(const Deadline& deadline) noexcept {
  for (UnderWay& one : underWay_) giveUp(one);
  if (summing_) {
    underWay_.push_back({sum_, -1, summed_.data(), summed_.size(), UINT64_MAX, nullptr, false});
    summing_ = false;
    giveUp(underWay_.back());
  }
  for (Patience patience(deadline); !underWay_.empty();) {
    const bool works = progress().ok();
    if (!works || !patience.rest()) break;
  }
  closed_ = true;
  sweep();
  for (std::unique_ptr<Buffer>& memory : retired_) (void)memory.release();
  retired_.clear();
}

void Port::release(const Deadline& latest) {
  if (calls_.closeBy != nullptr) calls_.closeBy(table_.user, latest);
  if (table_.release != nullptr) table_.release(table_.user);
}

}  // namespace sparsecoll::engine
