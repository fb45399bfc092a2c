// When messages may leave at a rate, by a clock that is made up: exact to the nanosecond. And how the rate is written.
#include "transports/pace.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "src/engines.h"
#include "src/rate.h"
#include "tests/support/catch.h"

namespace sparsecoll::engine {
namespace {

using namespace std::chrono_literals;
using Time = Pace::Time;

const Time kStart = Time(1000s);
const Time kNever = Time::max();

// Of a message that is ready now: when it leaves.
Time sendAt(Pace& pace, uint64_t bytes, Time now) {
  pace.begin(bytes, now, now);
  const Time due = pace.due();
  pace.left();
  return due;
}

TEST_CASE("a message waits until its last bit has had its time") {
  Pace pace(1000000);  // 8 us a byte
  CHECK(pace.due() == kNever);
  Time now = kStart;
  for (const uint64_t bytes : {1ull, 1000ull, 1000000ull, 40ull, 0ull}) {
    pace.begin(bytes, kStart, now);
    CHECK(pace.due() == now + bytes * 8us);
    now = pace.due();
    pace.left();
    CHECK(pace.due() == kNever);
  }
}

TEST_CASE("a link that has had nothing to send does not catch up") {
  Pace pace(1000000);
  CHECK(sendAt(pace, 1000, kStart) == kStart + 8000us);
  CHECK(sendAt(pace, 1, kStart + 8000us) == kStart + 8008us);
  CHECK(sendAt(pace, 1, kStart + 8010us) == kStart + 8018us);
  CHECK(sendAt(pace, 1000, kStart + 1h) == kStart + 1h + 8000us);
}

TEST_CASE("who looks late catches up by 32 KiB, on fast links by a millisecond") {
  const struct {
    uint64_t rate;
    std::chrono::nanoseconds burst, each;  // each: of 1000 bytes
  } cases[] = {{1000000000, 1ms, 8us}, {100000000, 2621440ns, 80us}, {1000000, 262144us, 8ms}};
  for (const auto& one : cases) {
    CAPTURE(one.rate);
    Pace pace(one.rate);
    Time due = sendAt(pace, 1000, kStart);
    for (const auto late : {0ns, 1ns, one.burst - 1ns, one.burst}) {
      pace.begin(1000, kStart, due + late);
      CHECK(pace.due() == due + one.each);
      due = pace.due();
      pace.left();
    }
    pace.begin(1000, kStart, due + one.burst + 5ns);
    CHECK(pace.due() == due + 5ns + one.each);
    due = pace.due();
    pace.left();
    pace.begin(1000, due + 7ns, due + one.burst);  // it was not ready before
    CHECK(pace.due() == due + 7ns + one.each);
  }
}

TEST_CASE("parts of nanoseconds add up") {
  Pace pace(3000000000);  // a byte takes 8/3 ns
  Time last = kStart;
  for (int message = 0; message < 3000; ++message) {
    pace.begin(1, kStart, kStart);
    CHECK(pace.due() - kStart == std::chrono::nanoseconds((message + 1) * 8 / 3));
    last = pace.due();
    pace.left();
  }
  CHECK(last == kStart + 8000ns);
}

TEST_CASE("what never leaves takes nothing") {
  Pace pace(1000000);
  pace.begin(1000000, kStart, kStart);
  CHECK(pace.due() == kStart + 8s);
  pace.giveUp();
  CHECK(pace.due() == kNever);
  CHECK(sendAt(pace, 10, kStart) == kStart + 80us);
  pace.begin(1000000, kStart, kStart + 80us);
  pace.begin(20, kStart, kStart + 80us);  // in its place
  CHECK(pace.due() == kStart + 240us);
}

TEST_CASE("between no two looks does more leave than the burst and the rate allow") {
  const uint64_t rate = GENERATE(uint64_t{1000}, uint64_t{64001}, uint64_t{100000000}, uint64_t{2500000000});
  CAPTURE(rate);
  Pace pace(rate);
  const double bytesPerSecond = static_cast<double>(rate) / 8;
  const double burst = std::max(32768.0, bytesPerSecond / 1000);
  Time now = kStart;
  double sent = 0, least = 0;  // least: of what was sent beyond the rate, at any look
  uint64_t state = 12345;
  for (int message = 0; message < 2000; ++message) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bytes = (state >> 33) % 100000;
    pace.begin(bytes, std::max(kStart, now - std::chrono::microseconds((state >> 40) % 9000)), now);
    now = std::max(now, pace.due()) + std::chrono::microseconds((state >> 20) % 2000);
    pace.left();
    sent += static_cast<double>(bytes);
    const double most = bytesPerSecond * std::chrono::duration<double>(now - kStart).count();
    REQUIRE(sent <= most + 1);
    REQUIRE(sent - most - least <= burst + 1);
    least = std::min(least, sent - most);
  }
}

TEST_CASE("the longest message at the slowest rate, and a byte at the fastest") {
  Pace slow(kSlowestRate);
  slow.begin((uint64_t{1} << 31) - 1, kStart, kStart);
  CHECK(slow.due() - kStart == 17179869176ms);
  Pace fast(kFastestRate);
  CHECK(sendAt(fast, 1, kStart) == kStart);
}

TEST_CASE("how a rate is written") {
  const auto read = [](const char* text) {
    auto rate = readRate(text);
    return rate.ok() ? *rate : 0;
  };
  CHECK(read("100M") == 100000000);
  CHECK(read("1G") == 1000000000);
  CHECK(read("2.5G") == 2500000000);
  CHECK(read("0.0025T") == 2500000000);
  CHECK(read("64k") == 64000);
  CHECK(read("1000") == 1000);
  CHECK(read("1000T") == kFastestRate);
  for (const char* const wrong :
       {"",    "0",   "999",   "0.9k", "1001T", "-1M",   "+1M",  " 1M",
        "1M ", "1 M", "1Mbit", "1m",   "1g",    "1K",    "1e9",  "0x10M",
        "inf", "nan", "infG",  "M",    ".",     "1..5G", "1,5G", "99999999999999999999999G"}) {
    CAPTURE(wrong);
    auto refused = readRate(wrong);
    REQUIRE_FALSE(refused.ok());
    const Status why = refused.takeStatus();
    CHECK(why.result() == sparsecollInvalidArgument);
    CHECK(std::string(why.failure().text.view()).find("SPARSECOLL_RATE is '" + std::string(wrong) + "'") == 0);
  }
}

TEST_CASE("ranks with a rate do not meet over NCCL, which would not keep to it") {
  setenv("SPARSECOLL_RATE", "1G", 1);
  auto limited = abilityHere(sparsecollTransportNccl, true);
  auto tcp = abilityHere(sparsecollTransportTcp, false);
  unsetenv("SPARSECOLL_RATE");
  REQUIRE(limited.ok());
  CHECK(limited->lack.view() == "it cannot keep to SPARSECOLL_RATE");
  REQUIRE(tcp.ok());
  CHECK(tcp->lack.view().find("SPARSECOLL_RATE") == std::string::npos);
  auto free = abilityHere(sparsecollTransportNccl, true);
  REQUIRE(free.ok());
  CHECK(free->lack.view().find("SPARSECOLL_RATE") == std::string::npos);
}

}  // namespace
}  // namespace sparsecoll::engine
