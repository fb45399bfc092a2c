// The exchange that a caller brings: MPI's all-gather, a key-value store, a file system.
#pragma once

#include "transports/bootstrap/exchange.h"

namespace sparsecoll::bootstrap {

class OobExchange final : public Exchange {
 public:
  // oob: checked.
  OobExchange(const sparsecollOob_t& oob, int rank, int ranks) : oob_(oob), rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Result<Parts> allgather(Bytes own, const Deadline& deadline) override;

 private:
  Status call(Bytes own, std::vector<std::byte>& all, const Deadline& deadline);

  const sparsecollOob_t oob_;
  const int rank_;
  const int ranks_;
};

}  // namespace sparsecoll::bootstrap
