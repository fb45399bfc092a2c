// Copies by kernels: see Kernels::copy.
#include "cuda/copy.h"

#include <cstring>

#include "cuda/device.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kAtOnce = 4;  // words of a thread that are under way together

// As wide as all addresses and the length allow.
template <class Word>
__global__ void __launch_bounds__(kThreads) copyWords(Word* to, const Word* from, uint64_t words) {
  const uint64_t stride = globalThreads();
  uint64_t i = globalThread();
  for (; i + (kAtOnce - 1) * stride < words; i += kAtOnce * stride) {
    Word held[kAtOnce];
    for (uint32_t a = 0; a < kAtOnce; ++a) held[a] = from[i + a * stride];
    for (uint32_t a = 0; a < kAtOnce; ++a) to[i + a * stride] = held[a];
  }
  for (; i < words; i += stride) to[i] = from[i];
}

template <class Word>
__global__ void __launch_bounds__(kThreads) clearWords(Word* to, uint64_t words) {
  for (uint64_t i = globalThread(); i < words; i += globalThreads()) to[i] = Word{};
}

// A few bytes of the host travel as an argument: without a copy engine, and in a graph without the host's memory.
struct Payload {
  uint8_t bytes[kThreads];
};
__global__ void __launch_bounds__(kThreads) putBytes(uint8_t* to, Payload payload, uint32_t bytes) {
  if (threadIdx.x < bytes) to[threadIdx.x] = payload.bytes[threadIdx.x];
}

bool isOfDevice(const void* address) {
  cudaPointerAttributes attributes{};
  return taken(cudaPointerGetAttributes(&attributes, address)) == cudaSuccess &&
         (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
}

struct alignas(16) Wide16 {
  uint64_t at[2];
};

// Calls use(a word of the widest type) for whose size all of these are multiples.
template <class Use>
void withWord(uint64_t numbers, Use use) {
  if (numbers % sizeof(Wide16) == 0) return use(Wide16{});
  if (numbers % sizeof(uint32_t) == 0) return use(uint32_t{});
  use(uint8_t{});
}

uint64_t numberOf(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

void copy(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream) {
  if (bytes == 0) return;
  withWord(numberOf(to) | numberOf(from) | bytes, [&]<class Word>(Word) {
    const uint64_t words = bytes / sizeof(Word);
    device.launch<copyWords<Word>>("copy", bytes, device.gridFor(words, kThreads * kAtOnce), stream,
                                   static_cast<Word*>(to), static_cast<const Word*>(from), words);
  });
}

void transfer(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream) {
  if (bytes <= sizeof(Payload) && isOfDevice(to) && !isOfDevice(from)) {
    Payload payload{};
    std::memcpy(payload.bytes, from, bytes);
    device.launch<putBytes>("transfer", bytes, {1, kThreads}, stream, static_cast<uint8_t*>(to), payload,
                            static_cast<uint32_t>(bytes));
    return;
  }
  device.note("transfer", bytes,
              cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream.handle)));
}

void fillZero(void* data, uint64_t bytes, DeviceContext& device, Stream stream) {
  if (bytes == 0) return;
  withWord(numberOf(data) | bytes, [&]<class Word>(Word) {
    const uint64_t words = bytes / sizeof(Word);
    device.launch<clearWords<Word>>("fillZero", bytes, device.gridFor(words, kThreads * kAtOnce), stream,
                                    static_cast<Word*>(data), words);
  });
}

}  // namespace sparsecoll::cuda
