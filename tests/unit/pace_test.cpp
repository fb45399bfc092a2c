// When messages may leave at a rate, by a clock that is made up: exact to the nanosecond. And how the rate is written.
#include "transports/pace.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "src/rate.h"
#include "tests/support/catch.h"

namespace sparsecoll::engine {
namespace {

using namespace std::chrono_literals;
using Time = Pace::Time;

constexpr uint64_t kBurst = 32u << 10;
const Time kStart = Time(1000s);
const Time kNever = Time::max();

// The message leaves as soon as it may, if that is not before now.
Time sendAt(Pace& pace, uint64_t bytes, Time now) {
  pace.begin(bytes, now);
  const Time due = pace.due();
  pace.left();
  return std::max(now, due);
}

TEST_CASE("a message waits until its last bit has had its time") {
  Pace pace(1000000);  // 8 us a byte
  CHECK(pace.due() == kNever);
  CHECK(sendAt(pace, kBurst, kStart) == kStart);  // the whole burst at once
  Time now = kStart;
  for (const uint64_t bytes : {1ull, 1000ull, 1000000ull, 40ull}) {
    pace.begin(bytes, now);
    CHECK(pace.due() == now + bytes * 8us);
    now = pace.due();
    pace.left();
    CHECK(pace.due() == kNever);
  }
}

TEST_CASE("after a rest the burst has grown back, and no further") {
  Pace pace(1000000);
  REQUIRE(sendAt(pace, kBurst, kStart) == kStart);
  const Time soon = kStart + 8000us;  // 1000 bytes
  CHECK(sendAt(pace, 1000, soon) == soon);
  CHECK(sendAt(pace, 1, soon) == soon + 8us);
  const Time late = kStart + 1h;
  CHECK(sendAt(pace, kBurst, late) == late);
  CHECK(sendAt(pace, 1, late) == late + 8us);
}

TEST_CASE("fast links burst for a millisecond, slow ones by 32 KiB") {
  Pace fast(1000000000);
  CHECK(sendAt(fast, 125000, kStart) == kStart);
  CHECK(sendAt(fast, 1, kStart) == kStart + 8ns);
  Pace slow(100000000);
  CHECK(sendAt(slow, kBurst, kStart) == kStart);
  CHECK(sendAt(slow, 1, kStart) == kStart + 80ns);
}

TEST_CASE("who looks late loses nothing within the burst") {
  Pace pace(100000000);  // 10,000 bytes in 800 us
  REQUIRE(sendAt(pace, kBurst, kStart) == kStart);
  for (int message = 1; message <= 1000; ++message) {
    const Time due = kStart + message * 800us;
    pace.begin(10000, due - 800us + 300us);  // the one before was seen to leave 300 us late
    CHECK(pace.due() == due);
    pace.left();
  }
}

TEST_CASE("parts of nanoseconds add up") {
  Pace pace(3000000000);  // a byte takes 8/3 ns
  const uint64_t burst = 375000;
  REQUIRE(sendAt(pace, burst, kStart) == kStart);
  Time last = kStart;
  for (int message = 0; message < 3000; ++message) {
    pace.begin(1, kStart);
    CHECK(pace.due() - kStart == std::chrono::nanoseconds((message + 1) * 8 / 3));
    last = pace.due();
    pace.left();
  }
  CHECK(last == kStart + 8000ns);
}

TEST_CASE("what never leaves takes nothing") {
  Pace pace(1000000);
  REQUIRE(sendAt(pace, kBurst, kStart) == kStart);
  pace.begin(1000000, kStart);
  CHECK(pace.due() == kStart + 8s);
  pace.giveUp();
  CHECK(pace.due() == kNever);
  CHECK(sendAt(pace, 10, kStart) == kStart + 80us);
  pace.begin(1000000, kStart + 80us);
  pace.begin(20, kStart + 80us);  // in its place
  CHECK(pace.due() == kStart + 240us);
}

TEST_CASE("in no time does more leave than the burst and the rate allow") {
  const uint64_t rate = GENERATE(uint64_t{1000}, uint64_t{64001}, uint64_t{100000000}, uint64_t{2500000000});
  CAPTURE(rate);
  Pace pace(rate);
  const double burst = std::max(static_cast<double>(kBurst), static_cast<double>(rate) / 8000);
  Time now = kStart;
  double sent = 0;
  uint64_t state = 12345;
  for (int message = 0; message < 2000; ++message) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bytes = (state >> 33) % 100000;
    now = sendAt(pace, bytes, now) + std::chrono::microseconds((state >> 20) % 2000);
    sent += static_cast<double>(bytes);
    const double seconds = std::chrono::duration<double>(now - kStart).count();
    REQUIRE(sent <= burst + static_cast<double>(rate) / 8 * seconds + 1);
  }
}

TEST_CASE("the longest message at the slowest rate, and a byte at the fastest") {
  Pace slow(kSlowestRate);
  slow.begin((uint64_t{1} << 31) - 1, kStart);
  CHECK(slow.due() > kStart + 198h);
  CHECK(slow.due() < kStart + 4800h);
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

}  // namespace
}  // namespace sparsecoll::engine
