#include "bench/common/errors.h"
#include "bench/perf/device.h"

namespace bench {

namespace {

[[noreturn]] void refuse() { throw EnvironmentError("this program was built without CUDA"); }

}  // namespace

void useDevice(int) { refuse(); }
std::string deviceName(int) { refuse(); }
DeviceMemory::DeviceMemory(uint64_t) { refuse(); }
void DeviceMemory::Free::operator()(void*) const {}
void DeviceMemory::load(const void*, uint64_t) const { refuse(); }
void copyToHost(void*, const void*, uint64_t) { refuse(); }
DeviceStream::DeviceStream() { refuse(); }
DeviceStream::~DeviceStream() = default;
DeviceGraph::DeviceGraph(const DeviceStream&, const std::function<void()>&) { refuse(); }
void DeviceGraph::launch(const DeviceStream&) const { refuse(); }
DeviceMoment::DeviceMoment() { refuse(); }
DeviceMoment::DeviceMoment(DeviceMoment&& other) noexcept : event_(other.event_) {}
DeviceMoment::~DeviceMoment() = default;
void DeviceMoment::take(const DeviceStream&) const { refuse(); }
double DeviceMoment::nsSince(const DeviceMoment&) const { refuse(); }
DeviceRate deviceRate(uint64_t) { refuse(); }

}  // namespace bench
