// Memory that ranks of one host share, without the ranks.
#include "transports/shared_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "tests/support/catch.h"

namespace sparsecoll {
namespace {

constexpr uint64_t kId = 77;
constexpr uint64_t kBytes = 1 << 16;

std::shared_ptr<SharedMemory> made(uint64_t id, int rank, uint64_t bytes = kBytes) {
  auto memory = SharedMemory::make(id, rank, 2, bytes);
  REQUIRE(memory.ok());
  return *memory;
}

}  // namespace

TEST_CASE("a rank reads what its peer has written") {
  const auto a = made(kId, 0), b = made(kId, 1);
  CHECK(!a->reaches(1));
  REQUIRE(a->map(1, b->place()).ok());
  REQUIRE(a->reaches(1));
  a->conceal();
  b->conceal();
  auto taken = takeBuffer(b, kBytes, nullptr);
  REQUIRE(taken.ok());
  const Buffer data = std::move(*taken);
  std::memset(data.as<>(), 5, kBytes);
  b->own(0).contributed.store(3, std::memory_order_release);
  CHECK(a->theirs(1).contributed == 3);
  CHECK(a->of(1)[0] == std::byte{5});
  CHECK(a->of(1)[kBytes - 1] == std::byte{5});
}

TEST_CASE("of a rank's announcements the last two are read, each as a whole") {
  const auto a = made(kId, 0), b = made(kId, 1);
  REQUIRE(a->map(1, b->place()).ok());
  const auto announcedOf = [](uint64_t sequence) {
    return SharedMemory::Announcement{{sequence, sequence + 1, 2, 3, 4, 5, 6}, sequence + 7};
  };
  CHECK(!a->announced(1, 0));
  CHECK(!a->announced(1, 1));
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
    b->announce(0, announcedOf(sequence));
    std::set<uint64_t> seen;
    for (size_t which = 0; which < SharedMemory::kAnnouncements; ++which) {
      const auto announced = a->announced(1, which);
      if (!announced) continue;
      const SharedMemory::Announcement expected = announcedOf(announced->header.sequence);
      CHECK(std::memcmp(&*announced, &expected, sizeof expected) == 0);
      seen.insert(announced->header.sequence);
    }
    CHECK(seen == (sequence == 1 ? std::set<uint64_t>{1} : std::set<uint64_t>{sequence - 1, sequence}));
  }
}

TEST_CASE("an announcement that is withdrawn leaves the one before it, and its place to the next") {
  const auto a = made(kId, 0), b = made(kId, 1);
  REQUIRE(a->map(1, b->place()).ok());
  const auto sequences = [&] {
    std::set<uint64_t> seen;
    for (size_t which = 0; which < SharedMemory::kAnnouncements; ++which)
      if (const auto announced = a->announced(1, which)) seen.insert(announced->header.sequence);
    return seen;
  };
  for (const uint64_t sequence : {1, 2, 3}) {
    b->announce(0, {{sequence, 0, 0, 0, 0, 0, 0}, 0});
    if (sequence == 2) b->withdraw(0);
  }
  CHECK(sequences() == std::set<uint64_t>{1, 3});
  b->announce(0, {{4, 0, 0, 0, 0, 0, 0}, 0});
  CHECK(sequences() == std::set<uint64_t>{3, 4});
}

TEST_CASE("an announcement that is read while another one takes its place is never a mixture") {
  const auto a = made(kId, 0), b = made(kId, 1);
  REQUIRE(a->map(1, b->place()).ok());
  constexpr uint64_t kLast = 20000;
  std::thread writer([&] {
    for (uint64_t at = 1; at <= kLast; ++at)
      b->announce(0, {{at, at, static_cast<uint32_t>(at), 0, 0, static_cast<uint32_t>(at), 0}, at});
  });
  uint64_t mixtures = 0;
  for (uint64_t latest = 0; latest != kLast;) {
    for (size_t which = 0; which < SharedMemory::kAnnouncements; ++which) {
      const auto announced = a->announced(1, which);
      if (!announced) continue;
      const uint64_t at = announced->header.sequence;
      mixtures += announced->header.plan != at || announced->header.count != at || announced->header.threshold != at ||
                  announced->round != at;
      latest = std::max(latest, at);
    }
  }
  writer.join();
  CHECK(mixtures == 0);
}

TEST_CASE("what is not the peer's memory is not mapped") {
  const auto a = made(kId, 0), b = made(kId, 1);
  CHECK(!a->map(1, made(kId + 1, 1)->place()).ok());          // of other ranks
  CHECK(!a->map(1, a->place()).ok());                         // of another rank
  CHECK(!a->map(1, made(kId, 1, 2 * kBytes)->place()).ok());  // of another size
  CHECK(!a->map(1, b->place() | UINT32_MAX).ok());            // no descriptor
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const uint64_t process = b->place() >> 32 << 32;
  CHECK(!a->map(1, process | static_cast<uint32_t>(null)).ok());  // a file of another kind
  close(null);
  const uint64_t place = b->place();
  b->conceal();
  CHECK(!a->map(1, place).ok());
  CHECK(!a->reaches(1));
}

TEST_CASE("nobody but its rank writes to it, and nobody makes it shorter") {
  const auto a = made(kId, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(a->place() & UINT32_MAX);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  CHECK(ftruncate(descriptor, 0) != 0);
  CHECK(write(descriptor, "x", 1) < 0);
  close(descriptor);
}

TEST_CASE("where files may not be so long the process goes on, and is told so") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit little{4096, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  const Status refused = SharedMemory::make(kId, 0, 2, kBytes).takeStatusOrOk();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(refused.result() == sparsecollSystemError);
  CHECK_THAT(refused.failure().text.c_str(), Catch::StartsWith("files may have 4096 bytes"));
  CHECK(made(kId, 0) != nullptr);
}

TEST_CASE("a forked process has nothing of it, and takes nothing from its parent") {
  auto a = made(kId, 0);
  const auto b = made(kId, 1);
  REQUIRE(a->map(1, b->place()).ok());
  const pid_t child = fork();
  if (child == 0) {
    a.reset();
    _exit(0);
  }
  int how = -1;
  REQUIRE(waitpid(child, &how, 0) == child);
  CHECK(how == 0);
  b->own(0).summed.store(9, std::memory_order_release);
  CHECK(a->theirs(1).summed == 9);
}

}  // namespace sparsecoll
