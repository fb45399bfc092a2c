#include <sched.h>
#include <time.h>

#include "tests/simt/block.h"

namespace simt {
namespace {

unsigned sourceOf(Meet meet, unsigned lane, uint32_t operand) {
  const unsigned width = operand >> 8, by = operand & 31;
  const unsigned begin = lane & ~(width - 1), last = begin + width - 1;
  switch (meet) {
    case Meet::shuffle:
      return begin + (by & (width - 1));
    case Meet::shuffleUp:
      return by > lane - begin ? lane : lane - by;
    case Meet::shuffleDown:
      return lane + by > last ? lane : lane + by;
    default:  // reads from segments before its own, but from none behind
      return (lane ^ by) > last ? lane : lane ^ by;
  }
}

uint64_t combine(Meet meet, uint64_t a, uint64_t b) {
  const auto signedA = static_cast<int64_t>(a), signedB = static_cast<int64_t>(b);
  switch (meet) {
    case Meet::reduceAdd:
      return a + b;
    case Meet::reduceMin:
      return b < a ? b : a;
    case Meet::reduceMax:
      return a < b ? b : a;
    case Meet::reduceMinSigned:
      return signedB < signedA ? b : a;
    case Meet::reduceMaxSigned:
      return signedA < signedB ? b : a;
    case Meet::reduceAnd:
    case Meet::all:
      return a & b;
    case Meet::reduceXor:
      return a ^ b;
    default:
      return a | b;
  }
}

template <class F>
void forLanes(uint32_t group, F visit) {
  for (uint32_t rest = group; rest != 0; rest &= rest - 1) visit(static_cast<unsigned>(__builtin_ctz(rest)));
}

}  // namespace

unsigned meetResults(Thread* lanes, uint32_t group) {
  const Meet meet = lanes[__builtin_ctz(group)].meet;
  if (meet >= Meet::shuffle && meet <= Meet::shuffleXor) {
    unsigned reader = kNone;
    forLanes(group, [&](unsigned lane) {
      const unsigned source = sourceOf(meet, lane, lanes[lane].operand);
      if (!(group >> source & 1)) reader = lane;
      lanes[lane].result = lanes[source].value;
    });
    return reader;
  }
  if (meet == Meet::matchAny) {
    forLanes(group, [&](unsigned lane) {
      lanes[lane].result = 0;
      forLanes(group, [&](unsigned other) {
        lanes[lane].result |= static_cast<uint64_t>(lanes[other].value == lanes[lane].value) << other;
      });
    });
    return kNone;
  }
  uint64_t result = 0;
  bool first = true;
  forLanes(group, [&](unsigned lane) {
    const uint64_t value = meet == Meet::ballot ? lanes[lane].value << lane : lanes[lane].value;
    result = first ? value : combine(meet, result, value);
    first = false;
  });
  forLanes(group, [&](unsigned lane) { lanes[lane].result = result; });
  return kNone;
}

void restOfMachine(unsigned nanoseconds) {
  constexpr unsigned longest = 50'000;
  if (nanoseconds == 0) {
    sched_yield();
    return;
  }
  const timespec time{0, static_cast<long>(nanoseconds < longest ? nanoseconds : longest)};
  nanosleep(&time, nullptr);
}

std::string describe(Meet meet) {
  static constexpr const char* names[] = {
      "__syncthreads",     "__syncthreads_or",  "__syncthreads_and", "__syncthreads_count", "__syncwarp",
      "__ballot_sync",     "__any_sync",        "__all_sync",        "__shfl_sync",         "__shfl_up_sync",
      "__shfl_down_sync",  "__shfl_xor_sync",   "__reduce_add_sync", "__reduce_min_sync",   "__reduce_max_sync",
      "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync",    "__reduce_xor_sync",
      "__match_any_sync"};
  return names[static_cast<unsigned>(meet)];
}

std::string describe(const Place& place) {
  std::string file = place.file_name();
  file.erase(0, file.rfind('/') + 1);
  return file + ":" + std::to_string(place.line());
}

}  // namespace simt
