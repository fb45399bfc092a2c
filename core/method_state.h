// What a method keeps in the control block: a struct of its own, and tables that it points at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/portable.h"

namespace sparsecoll {

// The struct, which only the rules of the selector, or of the collective, know.
struct MethodState {
  alignas(8) std::byte bytes[128];

  template <class State>
  SC_BOTH State& as() {
    check<State>();
    return *reinterpret_cast<State*>(bytes);
  }
  template <class State>
  SC_BOTH const State& as() const {
    check<State>();
    return *reinterpret_cast<const State*>(bytes);
  }

 private:
  template <class State>
  SC_BOTH static constexpr void check() {
    static_assert(sizeof(State) <= sizeof bytes && alignof(State) <= 8);
    static_assert(std::is_trivially_copyable_v<State> && std::is_standard_layout_v<State>);
  }
};

}  // namespace sparsecoll
