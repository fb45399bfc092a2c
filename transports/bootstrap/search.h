// How a rank finds rank 0 among the addresses at which it may listen, and strangers as well. All are called at once, so
// whoever is silent there costs nothing; whoever cannot prove that it is of this job is called again later.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "transports/bootstrap/link.h"

namespace sparsecoll::bootstrap {

class Search {
 public:
  // May fail and succeed later, as a name may get its address late. InvalidUsage: it never will; the search ends.
  using Candidates = std::function<Result<std::vector<Address>>()>;

  // where: of the candidates, in words.
  Search(const Identity& self, const char* where, Candidates candidates)
      : self_(self), where_(Text<320>::format("{}", where)), candidates_(std::move(candidates)) {}

  // A connection to rank 0, proven on this side. May be called again when that one has failed. Errors: Timeout;
  // AuthFailed and Mismatch: at once if there is one candidate, else when nobody better was found for a while.
  Result<Link> run(const Deadline& deadline);

 private:
  struct Call {
    Address to;
    std::optional<Stranger> stranger;
    Deadline again;
    uint64_t retryMs;
  };

  Status lookUp();
  void begin(Call& call, const Deadline& deadline);
  // Whether rank 0 has proven itself.
  bool advance(Call& call);
  void putOff(Call& call, const Status& why);
  void sleep(const Deadline& deadline) const;

  Identity self_;
  Text<320> where_;
  Candidates candidates_;
  std::vector<Call> calls_;
  Deadline lookAgain_ = Deadline::in(0);
  Text<256> last_ = "nobody listens";
  bool answered_ = false;  // last_ is what somebody there did
  Status refused_;         // by somebody with another key or version
  Deadline doubted_;       // refused_ counts from then on
};

}  // namespace sparsecoll::bootstrap
