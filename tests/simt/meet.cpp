// Barriers of a block and collectives of a warp.
#include "tests/simt/block.h"
#include "tests/simt/sanitizers.h"

namespace simt {
namespace {

bool isShuffle(Meet meet) { return meet >= Meet::shuffle && meet <= Meet::shuffleXor; }

}  // namespace

int Block::meetBlock(Meet meet, int value, Place place) {
  Thread& self = threads_[current_];
  self.meet = meet;
  self.place = place;
  if (barrier_.waiting != 0 && barrier_.meet != meet) {
    const Thread& other = threads_[atBarrier_[0]];
    fail(Misuse::mixedBarriers,
         describe(meet) + " at " + describe(place) + " meets " + describe(other.meet) + " at " + describe(other.place));
    abandon();
  }
  barrier_.meet = meet;
  barrier_.truths += value != 0;
  atBarrier_[barrier_.waiting++] = current_;
  char* const tag = &barrier_.tags[barrier_.phase % 2];
  release(tag);
  if (barrier_.waiting == live_) openBarrier();
  wait();
  acquire(tag);
  return barrier_.result;
}

// The order of arrival is kept, so round robin goes on with the thread that came first.
void Block::openBarrier() {
  const unsigned truths = barrier_.truths;
  switch (barrier_.meet) {
    case Meet::syncthreadsOr:
      barrier_.result = truths != 0;
      break;
    case Meet::syncthreadsAnd:
      barrier_.result = truths == barrier_.waiting;
      break;
    default:
      barrier_.result = static_cast<int>(truths);
  }
  for (unsigned i = 0; i < barrier_.waiting; ++i) push(atBarrier_[i]);
  barrier_.waiting = barrier_.truths = 0;
  ++barrier_.phase;
  if (isWatched_) fences_.meetBlock();
}

uint64_t Block::meetWarp(Meet meet, uint32_t mask, uint64_t value, uint32_t operand, Place place) {
  Warp& warp = warps_[current_ / kLanes];
  const unsigned first = current_ / kLanes * kLanes;
  Thread& self = threads_[current_];
  self.value = value;
  self.mask = mask;
  self.operand = operand;
  self.meet = meet;
  self.place = place;
  checkMeeting(warp, first);
  warp.waiting |= 1u << (current_ - first);
  // Only __syncwarp orders memory; shuffles and votes move their values and nothing else.
  char* const tag = meet != Meet::syncwarp ? nullptr : mask == ~0u ? &warp.tags[warp.phase % 2] : &warp.tags[2];
  if (tag) release(tag);
  const uint32_t group = mask & warp.live;
  if ((warp.waiting & group) == group) meetComplete(first, group);
  wait();
  if (tag) acquire(tag);
  return self.result;
}

void Block::checkMeeting(const Warp& warp, unsigned first) {
  const Thread& self = threads_[current_];
  const auto here = [&] { return describe(self.meet) + " at " + describe(self.place); };
  if (!(self.mask >> (current_ - first) & 1)) {
    fail(Misuse::mixedCollectives, here() + " with a mask without its own lane");
    abandon();
  }
  const uint32_t width = self.operand >> 8;
  if (isShuffle(self.meet) && (width == 0 || width > kLanes || (width & (width - 1)) != 0)) {
    fail(Misuse::badCall, here() + " with a width of " + std::to_string(width));
    abandon();
  }
  // Lanes with full masks have been checked against each other when they came.
  for (uint32_t rest = warp.waiting; rest != 0; rest = self.mask == ~0u ? 0 : rest & (rest - 1)) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const Thread& other = threads_[first + lane];
    if (other.meet == self.meet && other.mask == self.mask) continue;
    if (!(self.mask >> lane & 1) && !(other.mask >> (current_ - first) & 1)) continue;
    fail(Misuse::mixedCollectives, here() + " meets " + describe(other.meet) + " at " + describe(other.place) +
                                       (other.mask == self.mask ? "" : " with another mask"));
    abandon();
  }
}

void Block::meetComplete(unsigned first, uint32_t group) {
  Thread* const lanes = threads_ + first;
  Warp& warp = warps_[first / kLanes];
  const Thread& any = lanes[__builtin_ctz(group)];
  if (any.meet == Meet::syncwarp) {
    if (any.mask == ~0u) ++warp.phase;
    if (isWatched_) fences_.meetWarp(first, group);
  } else if (const unsigned reader = meetResults(lanes, group); reader != kNone) {
    fail(Misuse::absentLane, describe(any.meet) + " at " + describe(lanes[reader].place) + ": lane " +
                                 std::to_string(reader) + " reads from a lane that takes no part");
    abandon();
  }
  warp.waiting &= ~group;
  for (uint32_t rest = group; rest != 0; rest &= rest - 1) push(first + static_cast<unsigned>(__builtin_ctz(rest)));
}

std::string Block::whoWaits() const {
  std::string text;
  if (barrier_.waiting != 0) {
    const Thread& one = threads_[atBarrier_[0]];
    text +=
        std::to_string(barrier_.waiting) + " threads wait at " + describe(one.meet) + " (" + describe(one.place) + ")";
  }
  unsigned lanes = 0;
  const Thread* one = nullptr;
  for (unsigned warp = 0; warp * kLanes < count_; ++warp) {
    const uint32_t waiting = warps_[warp].waiting;
    lanes += static_cast<unsigned>(__builtin_popcount(waiting));
    if (waiting != 0 && !one) one = &threads_[warp * kLanes + static_cast<unsigned>(__builtin_ctz(waiting))];
  }
  if (one) {
    text += (text.empty() ? "" : ", ") + std::to_string(lanes) + " in collectives of their warps, one at " +
            describe(one->meet) + " (" + describe(one->place) + ")";
  }
  return text.empty() ? "no thread waits" : text;
}

}  // namespace simt
