// Which barriers and fences a kernel comes to, and one of them left out. Without locks and what else orders memory: the
// race checker is to see what is missing.
#include "tests/simt/engine.h"

namespace simt {
namespace {

constexpr unsigned kMost = 256;
struct Places {
  BarrierPlace met[kMost];
  unsigned count;
  bool isWatched;
  BarrierPlace absent;
};
Places barriers, fences;

bool same(const BarrierPlace& a, const BarrierPlace& b) {
  if (a.line != b.line || a.file == nullptr || b.file == nullptr) return false;
  const char *x = a.file, *y = b.file;  // a header's name has an address in every source that includes it
  while (*x != 0 && *x == *y) ++x, ++y;
  return *x == *y;
}

bool isAbsent(Places& places, const Place& place) {
  const BarrierPlace here{place.file_name(), place.line()};
  if (places.isWatched) {
    unsigned known = 0;
    while (known < places.count && !same(places.met[known], here)) ++known;
    if (known == places.count && known < kMost) places.met[places.count++] = here;
  }
  return places.absent.file != nullptr && same(here, places.absent);
}

void watch(Places& places) {
  places.count = 0;
  places.isWatched = true;
}

std::vector<BarrierPlace> metOf(Places& places) {
  places.isWatched = false;
  return {places.met, places.met + places.count};
}

}  // namespace

bool isLeftOut(const Place& place) { return isAbsent(barriers, place); }
bool isLeftOutFence(const Place& place) { return isAbsent(fences, place); }

void watchBarriers() { watch(barriers); }
std::vector<BarrierPlace> barriersMet() { return metOf(barriers); }
void leaveOut(const BarrierPlace& place) { barriers.absent = place; }

void watchFences() { watch(fences); }
std::vector<BarrierPlace> fencesMet() { return metOf(fences); }
void leaveOutFence(const BarrierPlace& place) { fences.absent = place; }

}  // namespace simt
