// Device kernels that a test does not need.
#include "cuda/dense.h"
#include "cuda/frames.h"

namespace sparsecoll::cuda {

void seal(const SealArgs&, DeviceContext&, Stream) {}
void open(const OpenArgs&, DeviceContext&, Stream) {}
void packChunks(const ListView&, uint64_t, std::byte*, const FrameLayout&, sparsecollDataType_t, DeviceContext&,
                Stream) {}
void unpackChunks(const std::byte*, const FrameLayout&, uint64_t, const uint64_t*, sparsecollDataType_t, const List&,
                  DeviceContext&, Stream) {}
void checkCounts(const ListView&, const uint64_t*, const uint64_t*, uint32_t, DeviceContext&, Stream) {}
void checkOrder(const ListView&, uint64_t, DeviceContext&, Stream) {}
void cutRegions(const ListView&, Control*, DeviceContext&, Stream) {}
void countStreams(const uint32_t*, uint32_t, uint64_t, Control*, DeviceContext&, Stream) {}
void countBlocks(std::span<const ListView>, Control*, DeviceContext&, Stream) {}
void tally(const ListView&, const uint64_t*, uint32_t, Control*, DeviceContext&, Stream) {}

void denseSum(const DenseSumArgs&, DeviceContext&, Stream) {}
void clearNonFinite(void*, sparsecollDataType_t, uint64_t, const Control*, DeviceContext&, Stream) {}
void addFinite(void*, sparsecollDataType_t, const void*, sparsecollDataType_t, uint64_t, double, DeviceContext&,
               Stream) {}
void flush(void*, sparsecollDataType_t, void*, sparsecollDataType_t, uint64_t, DeviceContext&, Stream) {}

}  // namespace sparsecoll::cuda
