// The all-gather that a caller brings (sparsecollOob_t), for ranks that are threads of one process.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <vector>

#include "sparsecoll/sparsecoll.h"

namespace sparsecoll::test {

class Room {
 public:
  explicit Room(int ranks) : parts_(static_cast<size_t>(ranks)), seats_(parts_.size()), meeting_(ranks) {}

  // Good as long as the room.
  sparsecollOob_t of(int rank) {
    Seat& seat = seats_[static_cast<size_t>(rank)];
    seat = {this, static_cast<size_t>(rank)};
    auto oob = SPARSECOLL_INIT(sparsecollOob_t);
    oob.user = &seat;
    oob.allgather = [](void* user, const void* send, void* recv, size_t bytes, uint64_t) {
      const auto* const from = static_cast<const Seat*>(user);
      return from->room->gather(from->rank, static_cast<const std::byte*>(send), static_cast<std::byte*>(recv), bytes);
    };
    return oob;
  }

 private:
  struct Seat {
    Room* room = nullptr;
    size_t rank = 0;
  };

  int gather(size_t rank, const std::byte* send, std::byte* recv, size_t bytes) {
    parts_[rank].assign(send, send + bytes);
    meeting_.arrive_and_wait();
    for (const auto& part : parts_) recv = std::copy(part.begin(), part.end(), recv);
    meeting_.arrive_and_wait();
    return 0;
  }

  std::vector<std::vector<std::byte>> parts_;  // by rank
  std::vector<Seat> seats_;
  std::barrier<> meeting_;
};

}  // namespace sparsecoll::test
