// Windows on a device, each with a mirror in pinned memory, where the engine finds what it sends and puts what comes.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/transport.h"
#include "transports/staged/service.h"

namespace sparsecoll::staged {

class Mirrors : public std::enable_shared_from_this<Mirrors> {
 public:
  explicit Mirrors(std::shared_ptr<Service> service) : service_(std::move(service)) {}

  // Both of the same length. mirror: nullptr where nothing travels.
  std::unique_ptr<FrameWindow> add(Buffer memory, std::unique_ptr<FrameWindow> mirror);
  // Where the mirror of a place in a window lies; nullptr: in none.
  std::byte* of(const std::byte* place) const;

  // Until when the thread may be at work in a mirror.
  void useUntil(const Deadline& deadline);

 private:
  class MirroredWindow;
  struct Pair {
    const std::byte* begin;
    const std::byte* end;
    std::byte* mirror;
  };

  void remove(MirroredWindow& window);

  const std::shared_ptr<Service> service_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Pair> pairs_;
  Deadline deadline_ = Deadline::in(0);
};

}  // namespace sparsecoll::staged
