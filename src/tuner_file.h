// The tuner file: what each of auto's candidates takes on these ranks, as sparsecoll-tune has measured it. Reducers of
// ranks that it was made for have few trials, or none. It never changes what a step delivers.
//
//   # sparsecoll tuner file 1           lines that begin with # say where the rest is from
//   ranks,4
//   nodes,4
//   engine,tcp
//   type,f32
//   elements,density,topka,sparcml-split,spardl,dense
//   65536,0.01,1.25,1.5,2.25,4.5        milliseconds, of the slowest rank
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "core/text.h"
#include "src/candidates.h"

namespace sparsecoll {

class TunerFile {
 public:
  struct Maker {
    uint64_t ranks = 0, nodes = 0;
    std::string engine, type;
    bool operator==(const Maker&) const = default;
  };

  // Errors: SystemError (it cannot be read), InvalidArgument (it is no tuner file). Both name path, line and reason.
  static Result<TunerFile> read(const char* path);
  static Result<TunerFile> parse(std::string_view text, const char* path);

  const Maker& maker() const { return maker_; }
  // Of all that it says; never 0.
  uint64_t hash() const { return hash_; }
  // Nanoseconds of a step of kCandidates[candidate]; 0: n or the density is more than twice as far away as anything
  // that was measured. Times grow with n along straight lines from size to size, and with the density likewise; beyond
  // the densities, and below the sizes, they are those of the nearest. Needs no memory.
  double nsOf(size_t candidate, uint64_t n, double density) const;

 private:
  struct Row {
    double density = 0;
    uint64_t elements = 0;
    std::array<double, kCandidateCount> ms{};
  };
  class Reading;

  static double msAt(std::span<const Row> curve, size_t candidate, double n);
  std::span<const Row> curveOf(size_t row) const;

  Maker maker_;
  std::vector<Row> rows_;  // by density, then by elements
  uint64_t hash_ = 0;
};

}  // namespace sparsecoll
