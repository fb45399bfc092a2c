// What the benchmarks of one vector length work on, and the bandwidths that they are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/memory.h"
#include "core/kernels.h"
#include "selectors/selection.h"

namespace bench {

sparsecoll::Kernels& hostKernels();

// How often to time a loop over n elements for its best time.
int runsFor(uint64_t n);

class Data;

// Exact top-k with error feedback as a reducer runs it: select, then clear what was selected from the residual.
class TopKLoop {
 public:
  // In its steady state.
  TopKLoop(const Data& data, double density);

  void step();
  const float* acc() const { return acc_.as<float>(); }
  double density() const { return density_; }
  uint64_t k() const { return selection_->k(); }
  uint64_t candidates() const { return selection_->control()->candidates; }
  uint64_t fallbacks() const { return selection_->control()->fallbacks; }

 private:
  const Data& data_;
  double density_;
  std::unique_ptr<sparsecoll::Selection> selection_;
  Memory acc_;
  Memory indices_;
  Memory values_;
  uint32_t count_ = 0;
  uint64_t steps_ = 0;
};

class Data {
 public:
  explicit Data(uint64_t n);
  // Gradients are from now on those of a file or folder (see bench/common/recording.h) instead of normal noise.
  // Returns how long the first one is.
  static uint64_t useRecording(const std::string& path);
  // The vectors of the latest n asked for; those of the one before are gone.
  static Data& of(uint64_t n);

  uint64_t n() const { return n_; }
  // One of three vectors. Normal noise starts at another place in every step: a residual meets fresh noise each time.
  const float* gradient(uint64_t step) const;
  float* scratch() const { return scratch_.as<float>(); }
  // The key that density * n entries of gradient(0) reach.
  uint32_t keyOf(double density) const;

  // The latest one asked for.
  TopKLoop& topK(double density);

  double addBytesPerSecond() const { return addBytesPerSecond_; }    // r += g, 12 bytes an element
  double readBytesPerSecond() const { return readBytesPerSecond_; }  // 4 bytes an element

 private:
  void measureBandwidths();

  uint64_t n_;
  uint64_t shifts_;
  std::vector<Memory> gradients_;
  Memory scratch_;
  std::unique_ptr<TopKLoop> topK_;
  double addBytesPerSecond_ = 0;
  double readBytesPerSecond_ = 0;
};

// A control block with one window over the whole vector.
class OneWindow {
 public:
  // room: candidates that there is space for.
  OneWindow(uint64_t n, uint32_t key, uint64_t room);
  sparsecoll::PassArgs passOver(uint64_t n);
  uint64_t found() const { return window_.found; }

 private:
  sparsecoll::Control control_{};
  sparsecoll::Window window_{};
  Memory indices_;
  Memory values_;
};

}  // namespace bench
