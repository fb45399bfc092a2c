// What arrives at a rank that still has to choose: entries of other ranks, to be added to acc where it is cut.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "core/kernels.h"
#include "core/limits.h"
#include "core/list_span.h"
#include "core/prefetch.h"
#include "host/canonical.h"
#include "host/marks.h"
#include "host/order.h"

namespace sparsecoll::host {

template <class A>
struct ArrivalSums {
  using Key = typename Magnitude<A>::Key;

  const CutArgs& args;

  // The window's arrivals summed list by list into the scratch. Returns how many entries that are.
  uint64_t take(const Window& window) const {
    const uint64_t taken = addUp(window);
    makeCanonical(static_cast<A*>(args.scratch.values), taken);
    return taken;
  }

  uint64_t addUp(const Window& window) const {
    std::array<const uint32_t*, kMaxRanks> at;
    std::array<const uint32_t*, kMaxRanks> end;
    std::array<const A*, kMaxRanks> value;
    const size_t lists = args.arrivals.size();
    for (size_t l = 0; l < lists; ++l) {
      const ListSpan<A> list = spanOf<A>(args.arrivals[l]);
      at[l] = std::lower_bound(list.indices, list.indices + list.count, window.begin);
      end[l] = std::lower_bound(at[l], list.indices + list.count, window.end);
      value[l] = list.values + (at[l] - list.indices);
    }
    if (lists <= 2)
      return addUpPair({at[0], end[0], value[0]}, lists == 2 ? Arrivals{at[1], end[1], value[1]} : Arrivals{});
    uint64_t taken = 0;
    for (;;) {
      uint64_t next = window.end;
      for (size_t l = 0; l < lists; ++l)
        if (at[l] != end[l]) next = std::min<uint64_t>(next, *at[l]);
      if (next == window.end) return taken;
      A sum = 0;
      for (size_t l = 0; l < lists; ++l)
        if (at[l] != end[l] && *at[l] == next) {
          sum += *value[l]++;
          ++at[l];
        }
      args.scratch.indices[taken] = static_cast<uint32_t>(next);
      static_cast<A*>(args.scratch.values)[taken++] = sum;
    }
  }

  struct Arrivals {
    const uint32_t* at = nullptr;
    const uint32_t* end = nullptr;
    const A* value = nullptr;
    uint64_t count() const { return static_cast<uint64_t>(end - at); }
  };

  // The same of two lists without branches.
  uint64_t addUpPair(Arrivals a, Arrivals b) const {
    uint32_t* const indices = args.scratch.indices;
    A* const sums = static_cast<A*>(args.scratch.values);
    uint64_t taken = 0;
    for (uint64_t steps = std::min(a.count(), b.count()); steps != 0; steps = std::min(a.count(), b.count()))
      for (; steps != 0; --steps, ++taken) {
        const auto [fromA, fromB] = orderOf(*a.at, *b.at);
        indices[taken] = fromA != 0 ? *a.at : *b.at;
        sums[taken] = (A{0} + valueIf(fromA, *a.value)) + valueIf(fromB, *b.value);
        a.at += fromA;
        a.value += fromA;
        b.at += fromB;
        b.value += fromB;
      }
    for (Arrivals* const rest : {&a, &b})
      for (; rest->at != rest->end; ++taken) {
        indices[taken] = *rest->at++;
        sums[taken] = A{0} + *rest->value++;
      }
    return taken;
  }

  // The window's candidates become those of acc + arrivals. Too many for their room counts as a list that overflowed.
  void joinCandidates(Window& window, uint64_t arrived) const {
    if (window.listed > window.slots) return;
    if (window.listed + arrived > window.slots) {
      window.listed = window.slots + 1;
      return;
    }
    uint32_t* const indices = args.candidateIndices + window.firstSlot;
    A* const values = static_cast<A*>(args.candidateValues) + window.firstSlot;
    const uint32_t* const sumIndices = args.scratch.indices;
    const A* const sums = static_cast<const A*>(args.scratch.values);
    const A* const acc = static_cast<const A*>(args.acc);
    A* const joined = static_cast<A*>(args.scratch.values) + arrived;
    for (uint64_t s = 0; s < arrived; ++s) {
      askFor(acc + sumIndices[std::min(s + kAhead, arrived - 1)]);
      joined[s] = canonical(acc[sumIndices[s]] + sums[s]);
    }
    // Two halves take turns, because what a step does waits for the one before. Each half's candidates are moved up by
    // the number of its arrivals, so that they are read before their place is written.
    const uint64_t arrivedBelow = arrived / 2;
    const uint64_t listedBelow =
        static_cast<uint64_t>(std::lower_bound(indices, indices + window.listed, sumIndices[arrivedBelow]) - indices);
    const uint64_t middle = arrivedBelow + listedBelow;
    Half halves[] = {{0, arrivedBelow, arrivedBelow, middle, 0},
                     {arrivedBelow, arrived, arrived + listedBelow, arrived + window.listed, middle}};
    for (const Half& half : {halves[1], halves[0]}) {
      const uint64_t from = half.candidate - half.arrivalsEnd;
      const uint64_t to = half.candidatesEnd - half.arrivalsEnd;
      std::copy_backward(indices + from, indices + to, indices + half.candidatesEnd);
      std::copy_backward(values + from, values + to, values + half.candidatesEnd);
    }
    const Joiner join{sumIndices, joined, indices, values, static_cast<Key>(window.key)};
    join.template together<2>(halves);
    for (Half& half : halves) join.rest(half);
    const uint64_t above = halves[1].written - middle;
    std::copy_n(indices + middle, above, indices + halves[0].written);
    std::copy_n(values + middle, above, values + halves[0].written);
    window.listed = halves[0].written + above;
  }

  // What is left to join of one half: arrivals, candidates, and where the next entry goes.
  struct Half {
    uint64_t arrival, arrivalsEnd, candidate, candidatesEnd, written;
    uint64_t bothHave() const { return std::min(arrivalsEnd - arrival, candidatesEnd - candidate); }
  };

  struct Joiner {
    const uint32_t* sumIndices;
    const A* joined;
    uint32_t* indices;
    A* values;
    Key key;

    // Until one of the halves has no more of one kind.
    template <size_t kHalves>
    void together(Half* all) const {
      Half halves[kHalves];  // in registers
      std::copy_n(all, kHalves, halves);
      for (;;) {
        uint64_t steps = ~uint64_t{0};
        for (size_t h = 0; h < kHalves; ++h) steps = std::min(steps, halves[h].bothHave());
        if (steps == 0) break;
        for (; steps != 0; --steps)
#pragma GCC unroll 2
          for (size_t h = 0; h < kHalves; ++h) {
            Half& half = halves[h];
            const uint32_t index = sumIndices[half.arrival];
            const auto [arrival, candidate] = orderOf(index, indices[half.candidate]);
            add(half, arrival != 0 ? index : indices[half.candidate],
                arrival != 0 ? joined[half.arrival] : values[half.candidate]);
            half.arrival += arrival;
            half.candidate += candidate;
          }
      }
      std::copy_n(halves, kHalves, all);
    }
    void rest(Half& half) const {
      together<1>(&half);
      for (; half.arrival < half.arrivalsEnd; ++half.arrival) add(half, sumIndices[half.arrival], joined[half.arrival]);
      for (; half.candidate < half.candidatesEnd; ++half.candidate)
        add(half, indices[half.candidate], values[half.candidate]);
    }

   private:
    void add(Half& half, uint32_t index, A value) const {
      indices[half.written] = index;
      values[half.written] = value;
      half.written += Magnitude<A>::of(value) >= key ? 1 : 0;
    }
  };

  void dropRest(uint64_t arrived, std::span<const uint32_t> kept) const {
    auto* const values = static_cast<A*>(args.dropped.values);
    const A* const sums = static_cast<const A*>(args.scratch.values);
    const uint32_t* const arrivals = args.scratch.indices;
    uint32_t count = *args.dropped.count;
    MarkedTile tile;
    const auto drop = [&](uint64_t s, uint64_t dropped) {
      args.dropped.indices[count] = arrivals[s];
      values[count] = sums[s];
      count += static_cast<uint32_t>(dropped);
    };
    uint64_t s = 0;
    for (uint64_t k = 0; k < kept.size();) {
      const uint64_t end = tile.mark(kept.data(), k, kept.size());
      for (; s < arrived && arrivals[s] < tile.low(); ++s) drop(s, 1);
      for (; s < arrived && tile.holds(arrivals[s]); ++s) drop(s, tile.isMarked(arrivals[s]) ^ 1);
      tile.clear(kept.data(), k, end);
      k = end;
    }
    for (; s < arrived; ++s) drop(s, 1);
    *args.dropped.count = count;
  }
};

}  // namespace sparsecoll::host
