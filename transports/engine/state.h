// What a rank's engine consists of, shared by the transport and the windows that may outlive it.
#pragma once

#include <memory>
#include <mutex>

#include "core/memory.h"
#include "transports/engine.h"
#include "transports/engine/lanes.h"
#include "transports/engine/port.h"

namespace sparsecoll::engine {

struct State {
  State(const Place& where, const sparsecollEngine_t& table)
      : place(where), port(table), lanes(port, where.rank, where.ranks) {}

  const Place place;
  std::mutex mutex;  // guards what follows: whoever holds it may use the table
  Port port;
  Lanes lanes;
};

class Window final : public FrameWindow {
 public:
  explicit Window(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Window() override {
    if (!expected_) return;
    const std::lock_guard lock(state_->mutex);
    state_->port.retire(std::move(memory_));
  }
  // To be called once the port expects this window's retirement.
  void hold(Buffer memory) {
    memory_ = std::move(memory);
    expected_ = true;
  }
  std::byte* data() const override { return memory_.as<>(); }

 private:
  const std::shared_ptr<State> state_;
  Buffer memory_;
  bool expected_ = false;
};

}  // namespace sparsecoll::engine
