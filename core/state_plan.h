// What a method declares of its state, so that whoever owns the control block can place, clear, save and check it
// without knowing what it means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/method_state.h"

namespace sparsecoll {

// Whether a checkpoint has it.
enum class Saved {
  kNo,
  kYes,
  kOfAllRanks,  // it has a place a rank: where the ranks are others it starts anew
  kAgreed,      // the ranks computed it together: it starts anew wherever they may have come to differ
};

// What every step leaves it to be.
enum class Sound {
  kMagnitude,  // a double that is finite and not negative
  kFinite,     // a double
  kShare,      // a double from 0 to 1
  kSide,       // a double from -1 to 1
  kFlag,       // an integer, 0 or 1
  kBounds,     // rising integers from 0 to `end`, or all 0
};

// Some numbers of a state.
struct StatePart {
  uint32_t at;  // in the struct: where they stand, or the pointer to the table that they are
  bool table;
  uint32_t elementBytes;
  uint64_t count;
  Saved saved;
  Sound sound;
  uint64_t end;

  uint64_t bytes() const { return count * elementBytes; }
};

// A table of a state that kernels fill. The state only has a pointer to it.
template <class T>
struct StateTable {
  uint32_t at = kNone;  // where that pointer stands in the struct

  T* in(const MethodState& state) const {
    T* table = nullptr;
    if (at != kNone) std::memcpy(&table, state.bytes + at, sizeof table);
    return table;
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
};

class StatePlan {
 public:
  template <class State>
  State& start() {
    return start_.as<State>();
  }
  // Part of State, saved.
  template <class State, class T>
  void keep(T State::*number, Sound sound, Saved saved = Saved::kYes) {
    parts_.push_back({at(number), false, sizeof(T), 1, saved, sound, 0});
  }
  // A table of `count` elements, all 0 at first.
  template <class State, class T>
  StateTable<T> table(T* State::*pointer, uint64_t count) {
    parts_.push_back({at(pointer), true, sizeof(T), count, Saved::kNo, Sound::kFlag, 0});
    return {at(pointer)};
  }
  // The same, saved: where each rank's part of [0, end) begins, and the end.
  template <class State, class T>
  void bounds(T* State::*pointer, uint64_t ranks, uint64_t end) {
    parts_.push_back({at(pointer), true, sizeof(T), ranks + 1, Saved::kOfAllRanks, Sound::kBounds, end});
  }

  const MethodState& fresh() const { return start_; }
  const std::vector<StatePart>& parts() const { return parts_; }

 private:
  template <class State, class T>
  uint32_t at(T State::*member) const {
    const auto* const field = reinterpret_cast<const std::byte*>(&(start_.as<State>().*member));
    return static_cast<uint32_t>(field - start_.bytes);
  }

  MethodState start_{};
  std::vector<StatePart> parts_;
};

}  // namespace sparsecoll
