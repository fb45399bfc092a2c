// Copies by kernels: see Kernels::copy.
#include "cuda/copy.h"

#include <cstddef>
#include <cstring>

#include "core/wait.h"
#include "cuda/device.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kAtOnce = 4;  // words of a thread that are under way together
constexpr uint64_t kTransferMs = 60000;

// The bytes behind the last whole word are a thread's each.
template <class Word>
__global__ void __launch_bounds__(kThreads) copyWords(std::byte* to, const std::byte* from, uint64_t bytes) {
  auto* const toWords = reinterpret_cast<Word*>(to);
  const auto* const fromWords = reinterpret_cast<const Word*>(from);
  const uint64_t words = bytes / sizeof(Word);
  const uint64_t stride = globalThreads();
  uint64_t i = globalThread();
  for (; i + (kAtOnce - 1) * stride < words; i += kAtOnce * stride) {
    Word held[kAtOnce];
    for (uint32_t a = 0; a < kAtOnce; ++a) held[a] = fromWords[i + a * stride];
    for (uint32_t a = 0; a < kAtOnce; ++a) toWords[i + a * stride] = held[a];
  }
  for (; i < words; i += stride) toWords[i] = fromWords[i];
  const uint64_t last = words * sizeof(Word) + globalThread();
  if (last < bytes) to[last] = from[last];
}

template <class Word>
__global__ void __launch_bounds__(kThreads) clearWords(std::byte* to, uint64_t bytes) {
  const uint64_t words = bytes / sizeof(Word);
  for (uint64_t i = globalThread(); i < words; i += globalThreads()) reinterpret_cast<Word*>(to)[i] = Word{};
  const uint64_t last = words * sizeof(Word) + globalThread();
  if (last < bytes) to[last] = std::byte{0};
}

// A few bytes of the host travel as an argument: without a copy engine, and in a graph without the host's memory.
struct Payload {
  uint8_t bytes[kThreads];
};
__global__ void __launch_bounds__(kThreads) putBytes(uint8_t* to, Payload payload, uint32_t bytes) {
  if (threadIdx.x < bytes) to[threadIdx.x] = payload.bytes[threadIdx.x];
}

cudaMemoryType typeOf(const void* address) {
  cudaPointerAttributes attributes{};
  const bool known = taken(cudaPointerGetAttributes(&attributes, address)) == cudaSuccess;
  return known ? attributes.type : cudaMemoryTypeUnregistered;
}
bool isOfHost(cudaMemoryType type) { return type == cudaMemoryTypeUnregistered || type == cudaMemoryTypeHost; }

struct alignas(16) Wide16 {
  uint64_t at[2];
};

// Calls use(a word of the widest type) that may lie at all of these addresses.
template <class Use>
void withWord(uint64_t addresses, Use use) {
  if (addresses % sizeof(Wide16) == 0) return use(Wide16{});
  if (addresses % sizeof(uint32_t) == 0) return use(uint32_t{});
  if (addresses % sizeof(uint16_t) == 0) return use(uint16_t{});
  use(uint8_t{});
}

uint64_t numberOf(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

void copy(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream) {
  if (bytes == 0) return;
  withWord(numberOf(to) | numberOf(from), [&]<class Word>(Word) {
    device.launch<copyWords<Word>>("copy", bytes, device.gridFor(bytes / sizeof(Word), kThreads * kAtOnce), stream,
                                   static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  });
}

void transfer(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream) {
  const cudaMemoryType ofTo = typeOf(to), ofFrom = typeOf(from);
  if (bytes <= sizeof(Payload) && !isOfHost(ofTo) && isOfHost(ofFrom)) {
    Payload payload{};
    std::memcpy(payload.bytes, from, bytes);
    device.launch<putBytes>("transfer", bytes, {1, kThreads}, stream, static_cast<uint8_t*>(to), payload,
                            static_cast<uint32_t>(bytes));
    return;
  }
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  device.note("transfer", bytes, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle));
  // Pinned memory is read and written later, the host's other memory before the call returns.
  if ((ofTo == cudaMemoryTypeHost || ofFrom == cudaMemoryTypeHost) && !isCaptured(handle, true))
    device.note("transfer", bytes, untilDone(handle, Deadline::in(kTransferMs)));
}

void fillZero(void* data, uint64_t bytes, DeviceContext& device, Stream stream) {
  if (bytes == 0) return;
  withWord(numberOf(data), [&]<class Word>(Word) {
    device.launch<clearWords<Word>>("fillZero", bytes, device.gridFor(bytes / sizeof(Word), kThreads * kAtOnce), stream,
                                    static_cast<std::byte*>(data), bytes);
  });
}

}  // namespace sparsecoll::cuda
