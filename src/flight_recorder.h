// The flight recorder: the last operations of a communicator on this rank, to be written to a file when something goes
// wrong, so that the files of all ranks tell who held up whom (tools/flight, docs/decisions/0056).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/flight_record.h"
#include "core/status.h"

namespace sparsecoll {

inline constexpr uint32_t kDefaultFlightEntries = 64;
inline constexpr uint32_t kMostFlightEntries = 65536;

// What the environment says of it. Errors: InvalidArgument (no such number, no folder that can be written to).
Result<uint32_t> flightEntries();
Result<std::string> flightFolder();

class FlightRecorder {
 public:
  explicit FlightRecorder(uint32_t entries)
      : size_(entries), records_(entries != 0 ? std::make_unique<FlightRecord[]>(entries) : nullptr) {}

  bool on() const { return size_ != 0; }
  // One thread at a time. Valid until so many others have begun. nullptr: it is off.
  FlightRecord* begin(uint64_t sequence, uint64_t plan, const OperationLabel* label) {
    if (!on()) return nullptr;
    const uint64_t before = count_.load(std::memory_order_relaxed);
    FlightRecord& record = records_[before % size_];
    record.begin(before + 1, sequence, plan, label != nullptr ? *label : OperationLabel());
    count_.store(before + 1, std::memory_order_release);
    return &record;
  }

  // Any thread.
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  // visit(facts) of those that are remembered, the oldest first.
  template <class Visit>
  void each(Visit visit) const {
    const uint64_t last = count();
    for (uint64_t number = last > size_ ? last - size_ + 1 : 1; number <= last; ++number) {
      FlightFacts facts;
      if (records_[(number - 1) % size_].read(facts) && facts.number == number) visit(facts);
    }
  }

 private:
  const uint32_t size_;
  const std::unique_ptr<FlightRecord[]> records_;
  std::atomic<uint64_t> count_{0};
};

// Whose recorder it is.
struct FlightSource {
  uint64_t id = 0;  // of the communicator, the same on its ranks
  std::string_view name;
  int rank = 0, ranks = 1;
  int device = SPARSECOLL_HOST;
  sparsecollTransport_t transport = sparsecollTransportAuto;
  uint64_t opTimeoutMs = 0;
  sparsecollFailure_t failure{};
  bool failed = false;  // that is why it is written
};

using FlightPath = Text<1024>;
// The file's usual place. It has host, rank and process in its name, so no two ranks have the same.
FlightPath flightPathIn(std::string_view folder, const FlightSource& source);

// Writes JSON to a file of another name, which then takes the place of what is at path. Takes no memory and no lock.
// Errors: InvalidArgument (what is at path is no plain file), SystemError (it cannot be written).
Status writeFlight(const FlightRecorder& recorder, const FlightSource& source, const char* path);

}  // namespace sparsecoll
