#include "transports/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "core/checked.h"
#include "core/text.h"

namespace sparsecoll {

namespace {

constexpr const char* kName = "sparsecoll";
constexpr uint64_t kPage = 4096;

// At the beginning of each rank's memory; what it has for its peers stands behind it.
struct alignas(64) Head {
  uint64_t id = 0;
  uint64_t rank = 0;
  uint64_t bytes = 0;
};

Status failed(const char* function, int error) {
  return fail(sparsecollSystemError, "{}: {}", function, std::strerror(error));
}

std::byte* mapAll(int descriptor, uint64_t bytes, int protection) {
  void* const data = mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return nullptr;
  (void)madvise(data, bytes, MADV_DONTFORK);  // a forked process is none of the ranks
  return static_cast<std::byte*>(data);
}

}  // namespace

SharedMemory::SharedMemory(uint64_t id, int rank, int ranks, uint64_t bytes)
    : process_(getpid()),
      id_(id),
      rank_(rank),
      bytes_(bytes),
      dataAt_(alignUp(sizeof(Head) + static_cast<uint64_t>(ranks) * sizeof(ForPeer), kPage)),
      peers_(static_cast<size_t>(ranks)),
      announced_(peers_.size()) {}

Result<std::shared_ptr<SharedMemory>> SharedMemory::make(uint64_t id, int rank, int ranks, uint64_t bytes) {
  std::shared_ptr<SharedMemory> made(new SharedMemory(id, rank, ranks, bytes));
  const auto size = static_cast<off_t>(made->dataAt_ + bytes);
  made->descriptor_ = memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made->descriptor_ < 0) return failed("memfd_create", errno);
  rlimit most{};  // beyond it a signal would end the process
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < static_cast<uint64_t>(size))
    return fail(sparsecollSystemError, "files may have {} bytes, {} are wanted", most.rlim_cur, size);
  if (ftruncate(made->descriptor_, size) != 0) return failed("ftruncate", errno);
  // Whoever reads what is not there dies: so it is there before anybody may read it, and never gets shorter.
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(made->descriptor_, 0, size);
  if (error != 0) return failed("posix_fallocate", error);
  made->mapped_ = mapAll(made->descriptor_, made->dataAt_ + bytes, PROT_READ | PROT_WRITE);
  if (made->mapped_ == nullptr) return failed("mmap", errno);
  if (fcntl(made->descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0)
    return failed("fcntl", errno);
  new (made->mapped_) Head{id, static_cast<uint64_t>(rank), bytes};
  for (int peer = 0; peer < ranks; ++peer) new (&wordsIn(made->mapped_, peer)) ForPeer;
  return made;
}

SharedMemory::~SharedMemory() {
  if (getpid() == process_) {  // else the addresses may be something else's by now
    unmap(mapped_);
    for (std::byte* const peer : peers_) unmap(peer);
  }
  conceal();
}

void SharedMemory::unmap(std::byte* memory) const {
  if (memory != nullptr) (void)munmap(memory, dataAt_ + bytes_);
}

uint64_t SharedMemory::spaceOfProcess() {
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) != 0) return 0;
  return (static_cast<uint64_t>(space.st_ino) << 32 | geteuid()) + 1;
}

uint64_t SharedMemory::place() const {
  return static_cast<uint64_t>(static_cast<uint32_t>(process_)) << 32 | static_cast<uint32_t>(descriptor_);
}

Status SharedMemory::map(int peer, uint64_t place) {
  const auto path = Text<64>::format("/proc/{}/fd/{}", place >> 32, place & UINT32_MAX);
  // Nothing else is opened: that might have effects of its own.
  char target[64] = {};
  if (readlink(path.c_str(), target, sizeof target - 1) < 0) return failed("readlink", errno);
  if (!std::string_view(target).starts_with(Text<64>::format("/memfd:{}", kName).view()))
    return fail(sparsecollSystemError, "{} is {}", path, target);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return failed("open", errno);
  struct stat found {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  const bool whole = fstat(descriptor, &found) == 0 && found.st_size == static_cast<off_t>(dataAt_ + bytes_) &&
                     seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  std::byte* const memory = whole ? mapAll(descriptor, dataAt_ + bytes_, PROT_READ) : nullptr;
  const int error = errno;
  (void)close(descriptor);
  if (!whole) return fail(sparsecollSystemError, "{} is not of rank {}", path, peer);
  if (memory == nullptr) return failed("mmap", error);
  const Head& head = *reinterpret_cast<const Head*>(memory);
  if (head.id != id_ || head.rank != static_cast<uint64_t>(peer) || head.bytes != bytes_) {
    unmap(memory);
    return fail(sparsecollSystemError, "{} is not of rank {}", path, peer);
  }
  peers_[static_cast<size_t>(peer)] = memory;
  return {};
}

void SharedMemory::conceal() {
  if (descriptor_ >= 0) (void)close(std::exchange(descriptor_, -1));
}

SharedMemory::ForPeer& SharedMemory::wordsIn(std::byte* memory, int peer) {
  return reinterpret_cast<ForPeer*>(memory + sizeof(Head))[peer];
}

// Whoever reads a word of it sees the odd version afterwards, or a later one.
void SharedMemory::announce(int peer, const Announcement& announcement) {
  Announced& mine = announced_[static_cast<size_t>(peer)];
  Slot& slot = wordsIn(mapped_, peer).slots[mine.count++ % kAnnouncements];
  mine.version += 2;
  const auto words = std::bit_cast<std::array<uint64_t, sizeof(Announcement) / sizeof(uint64_t)>>(announcement);
  slot.version.store(mine.version - 1, std::memory_order_relaxed);
  for (size_t at = 0; at < words.size(); ++at) slot.words[at].store(words[at], std::memory_order_release);
  slot.version.store(mine.version, std::memory_order_release);
}

std::optional<SharedMemory::Announcement> SharedMemory::announced(int peer, size_t which) const {
  const Slot& slot = wordsIn(peers_[static_cast<size_t>(peer)], rank_).slots[which];
  const uint64_t version = slot.version.load(std::memory_order_acquire);
  if (version == 0 || version % 2 != 0) return {};
  std::array<uint64_t, sizeof(Announcement) / sizeof(uint64_t)> words;
  for (size_t at = 0; at < words.size(); ++at) words[at] = slot.words[at].load(std::memory_order_acquire);
  if (slot.version.load(std::memory_order_relaxed) != version) return {};
  return std::bit_cast<Announcement>(words);
}

Result<void*> SharedMemory::allocate(uint64_t bytes) {
  if (bytes > bytes_) return fail(sparsecollInternalError, "{} bytes of {} are shared", bytes, bytes_);
  return static_cast<void*>(mapped_ + dataAt_);
}

}  // namespace sparsecoll
