// Ranks that agree on something over their control connections, when the communicator's own network is of no use any
// more, or is not to be disturbed.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "transports/bootstrap/control.h"
#include "transports/bootstrap/exchange.h"

namespace sparsecoll::bootstrap {

// What an abort of the mesh's communicator means to ranks that meet anew: survivors have it behind them.
enum class Aborts { kEnd, kMeanNothing };

// An exchange of some of the ranks. tag: which one; the same on all members, greater than that of any before.
class MembersExchange final : public Exchange {
 public:
  // members: ranks of the mesh, by new rank; this one is among them.
  MembersExchange(std::shared_ptr<Control> control, std::vector<int> members, uint64_t tag, Aborts aborts);

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(members_.size()); }
  std::optional<Address> reachedAt() const override { return control_->at(); }
  bool isGone(int rank) const override;
  bool isAborted() const override { return aborts_ == Aborts::kEnd && control_->hasAborted(); }
  Result<Parts> allgather(Bytes own, const Deadline& deadline) override;

 private:
  bool collect(Parts& parts, std::vector<bool>& here);

  const std::shared_ptr<Control> control_;
  const std::vector<int> members_;
  const uint64_t tag_;
  const Aborts aborts_;
  int rank_ = 0;
  uint32_t turn_ = 0;
};

// Who is left of a mesh.
struct Survivors {
  std::vector<int> members;
  uint64_t lowest = 0;  // of what each of them brought
  uint64_t tag = 0;     // for their exchange
};

// Collective over the ranks that are not excluded and are still there. call: counts the agreements of this mesh, tries
// of one agreement included. excluded: of all ranks. own: a number of this rank's. Errors: PeerFailed (a survivor takes
// this rank for gone), Timeout (names who has not called).
Result<Survivors> agreeOnSurvivors(Control& control, std::vector<bool> excluded, uint64_t call, uint64_t own,
                                   const Deadline& deadline);

// A view as it travels. Errors: Corrupted.
struct View {
  uint64_t call = 0;
  uint64_t own = 0;
  std::vector<bool> gone;
};
std::vector<std::byte> writeView(const View& view);
Result<View> readView(Bytes payload, int ranks);

}  // namespace sparsecoll::bootstrap
