// Memory, streams and clocks of a CUDA device, as far as ranks need them. Programs that were built without CUDA have
// the same functions, which say so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace bench {

// Throws EnvironmentError where there is no such device, or none at all.
void useDevice(int ordinal);
std::string deviceName(int ordinal);

// Memory on the current device, zeroed. Throws EnvironmentError, as all functions here do.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(uint64_t bytes);

  void* data() const { return data_.get(); }
  void load(const void* from, uint64_t bytes) const;

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_;
};
void copyToHost(void* to, const void* from, uint64_t bytes);

class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// A moment in a stream's work.
class DeviceMoment {
 public:
  DeviceMoment();
  ~DeviceMoment();
  DeviceMoment(DeviceMoment&& other) noexcept;
  DeviceMoment& operator=(DeviceMoment&&) = delete;
  void take(const DeviceStream& stream) const;
  // Of any stream of the device; both have come.
  double nsSince(const DeviceMoment& earlier) const;

 private:
  void* event_ = nullptr;
};

// Steps that were captured once and are launched as often as wanted.
class CudaGraph;
class DeviceGraph {
 public:
  // Captures what `enqueue` puts on the stream; what it throws comes through.
  DeviceGraph(const DeviceStream& stream, const std::function<void()>& enqueue);
  void launch(const DeviceStream& stream) const;

 private:
  std::shared_ptr<const CudaGraph> graph_;
};

// Bytes a second of copies of so many bytes, and of in-place additions: the better one, and its name. The median over a
// few runs.
struct DeviceRate {
  double bytesPerSecond = 0;
  const char* loop = "";
};
DeviceRate deviceRate(uint64_t floats);

}  // namespace bench
