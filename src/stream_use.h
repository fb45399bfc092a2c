// A caller's stream while a call is at work on it: what the call has enqueued is noted when it ends, so that memory
// which it uses stays until then.
#pragma once

#include <utility>

#include "core/kernels.h"

namespace sparsecoll {

class StreamUse {
 public:
  StreamUse(Kernels& kernels, Stream stream) : kernels_(&kernels), stream_(stream) {}
  StreamUse(StreamUse&& other) noexcept : kernels_(std::exchange(other.kernels_, nullptr)), stream_(other.stream_) {}
  StreamUse& operator=(StreamUse&&) = delete;
  ~StreamUse() {
    if (kernels_ != nullptr) kernels_->noteUse(stream_);
  }
  operator Stream() const { return stream_; }

 private:
  Kernels* kernels_;
  Stream stream_;
};

}  // namespace sparsecoll
