// A gradient's tensors, some of which are sent dense.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <array>
#include <cstdint>

namespace sparsecoll::test {

class SentDense {
 public:
  explicit SentDense(uint64_t n, bool transactional = false)
      : tensors_{{{n / 10, 0, 1, 0},
                  {n / 3, 0, 0, 0},
                  {n / 20, 0, 1, 0},
                  {n / 15, 0, 1, 0},
                  {n - n / 10 - n / 3 - n / 20 - n / 15 - 1, 0, 0, 0},
                  {1, 0, 1, 0}}} {
    config_.transactional = transactional ? 1 : 0;
    config_.segments = tensors_.data();
    config_.segmentCount = tensors_.size();
  }
  SentDense(const SentDense&) = delete;
  SentDense& operator=(const SentDense&) = delete;

  const sparsecollReducerConfig_t* config() const { return &config_; }

 private:
  std::array<sparsecollSegment_t, 6> tensors_;
  sparsecollReducerConfig_t config_ = SPARSECOLL_INIT(sparsecollReducerConfig_t);
};

}  // namespace sparsecoll::test
