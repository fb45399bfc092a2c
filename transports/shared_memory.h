// Memory of one rank that other ranks of its host read, and where they see how far it is. Only the rank itself writes
// there. It is in no file system, so nothing is left of it once its processes have ended, however they ended.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/frame.h"
#include "core/memory.h"

namespace sparsecoll {

class SharedMemory final : public MemorySource {
 public:
  // What a rank has done for a peer in dense sums since the communicator was made, in segments. It alone writes them,
  // and releases by them what it has written before.
  struct alignas(64) Progress {
    std::atomic<uint64_t> contributed{0};  // to the peer's part, ready to be read
    std::atomic<uint64_t> consumed{0};     // of the peer's contributions to this rank's part
    std::atomic<uint64_t> summed{0};       // of this rank's part, ready to be read
    std::atomic<uint64_t> taken{0};        // of the sums of the peer's part
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  // That a rank is in an operation, where ranks meet in it.
  struct Announcement {
    FrameHeader header;
    uint64_t round;
  };

  // bytes: for the rank itself, the same on all ranks. id: the same on all ranks, and on no other ones.
  // Errors: SystemError.
  static Result<std::shared_ptr<SharedMemory>> make(uint64_t id, int rank, int ranks, uint64_t bytes);
  ~SharedMemory() override;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Ranks whose numbers differ cannot map each other's memory. 0: nobody can map this one's.
  static uint64_t spaceOfProcess();
  // Where other processes find it until conceal, in one number.
  uint64_t place() const;
  // Reads the peer's memory from now on. Errors: SystemError (it cannot be opened from here, or is something else).
  Status map(int peer, uint64_t place);
  // Nobody maps it from now on.
  void conceal();

  bool reaches(int peer) const { return peers_[static_cast<size_t>(peer)] != nullptr; }
  // Data, of a rank that this one reaches.
  const std::byte* of(int peer) const { return peers_[static_cast<size_t>(peer)] + dataAt_; }
  // What this rank has done for the peer, and the peer for it.
  Progress& own(int peer) const { return wordsIn(mapped_, peer).progress; }
  const Progress& theirs(int peer) const { return wordsIn(peers_[static_cast<size_t>(peer)], rank_).progress; }

  // To a peer, and releases what this rank has written before. The last two stay: a rank cannot be further ahead of one
  // that it meets, since the next meeting of both takes both. withdraw: the last one does not count as one of them, as
  // the ranks did not meet; the next one takes its place.
  void announce(int peer, const Announcement& announcement);
  void withdraw(int peer) { --announced_[static_cast<size_t>(peer)].count; }
  static constexpr size_t kAnnouncements = 2;
  // One of the peer's last two to this rank; nothing where there is none, or another one is being written.
  std::optional<Announcement> announced(int peer, size_t which) const;

  // This rank's data, once.
  Result<void*> allocate(uint64_t bytes) override;
  void release(void*, uint64_t) noexcept override {}

 private:
  SharedMemory(uint64_t id, int rank, int ranks, uint64_t bytes);
  // Its version is odd while it is written.
  struct alignas(64) Slot {
    std::atomic<uint64_t> version{0};
    std::array<std::atomic<uint64_t>, sizeof(Announcement) / sizeof(uint64_t)> words{};
  };
  // What a rank has for a peer.
  struct ForPeer {
    Progress progress;
    Slot slots[kAnnouncements];
  };
  static ForPeer& wordsIn(std::byte* memory, int peer);
  struct Announced {
    uint64_t count = 0, version = 0;
  };
  void unmap(std::byte* memory) const;

  const pid_t process_;
  const uint64_t id_;
  const int rank_;
  const uint64_t bytes_;   // of data
  const uint64_t dataAt_;  // in each rank's memory
  int descriptor_ = -1;
  std::byte* mapped_ = nullptr;       // this rank's own memory
  std::vector<std::byte*> peers_;     // by rank, to be read only; nullptr: not reached
  std::vector<Announced> announced_;  // by rank
};

}  // namespace sparsecoll
