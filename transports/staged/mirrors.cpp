#include "transports/staged/mirrors.h"

#include <algorithm>

namespace sparsecoll::staged {

namespace {
constexpr uint64_t kLateMs = 1000;  // that an engine may take to end what is past its time
}  // namespace

// The thread leaves the mirror first, then streams do, for which the device's memory waits when it goes back.
class Mirrors::MirroredWindow final : public FrameWindow {
 public:
  MirroredWindow(std::shared_ptr<Mirrors> mirrors, Buffer memory, std::unique_ptr<FrameWindow> mirror)
      : mirrors_(std::move(mirrors)), mirror_(std::move(mirror)), memory_(std::move(memory)) {}
  ~MirroredWindow() override {
    if (mirror_ != nullptr) mirrors_->remove(*this);
  }
  std::byte* data() const override { return memory_.as<>(); }

 private:
  friend class Mirrors;
  const std::shared_ptr<Mirrors> mirrors_;
  std::unique_ptr<FrameWindow> mirror_;
  Buffer memory_;
};

std::unique_ptr<FrameWindow> Mirrors::add(Buffer memory, std::unique_ptr<FrameWindow> mirror) {
  auto window = std::make_unique<MirroredWindow>(shared_from_this(), std::move(memory), std::move(mirror));
  if (window->mirror_ == nullptr) return window;
  const std::byte* const begin = window->data();
  const std::lock_guard lock(mutex_);
  pairs_.push_back({begin, begin + window->memory_.bytes(), window->mirror_->data()});
  return window;
}

std::byte* Mirrors::of(const std::byte* place) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(pairs_.begin(), pairs_.end(),
                                  [place](const Pair& pair) { return place >= pair.begin && place < pair.end; });
  return found == pairs_.end() ? nullptr : found->mirror + (place - found->begin);
}

void Mirrors::useUntil(const Deadline& deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
}

void Mirrors::remove(MirroredWindow& window) {
  Deadline deadline = Deadline::in(0);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(pairs_, [&window](const Pair& pair) { return pair.begin == window.data(); });
    deadline = deadline_;
  }
  if (!service_->idle(deadline) && !service_->idle(Deadline::in(kLateMs))) service_->keep(std::move(window.mirror_));
}

}  // namespace sparsecoll::staged
