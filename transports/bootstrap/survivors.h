// Ranks that agree on something over their control connections, when the communicator's own network is of no use any
// more, or is not to be disturbed.
#pragma once

#include <compare>
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
  int lost() const override;
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

// What a rank says of the others.
struct View {
  uint64_t call = 0;
  uint64_t own = 0;
  std::vector<bool> gone;
  auto operator<=>(const View&) const = default;
};
// As it travels. Errors: Corrupted.
std::vector<std::byte> writeView(const View& view);
Result<View> readView(Bytes payload, int ranks);

// A rank's part in the agreement on who is left, whatever carries its words. Everyone tells everyone whom it takes for
// gone, again whenever that grows, until all who are left say the same. Sets only grow, so it ends after at most as
// many changes as there are ranks.
class RollCall {
 public:
  // excluded: of all ranks; these are gone from the start. call: counts the agreements of a mesh. own: a number of this
  // rank's.
  RollCall(int rank, std::vector<bool> excluded, uint64_t call, uint64_t own);

  // What has happened: a peer is gone; a peer has said something; words of other calls tell nothing.
  void lose(int peer);
  void hear(int peer, View view);
  // Draws conclusions from it. Whether there is something to tell, or to end with.
  bool conclude();

  // To be told to all others, also to those that are left out: they may be waiting. nullptr: nothing since it was asked
  // last.
  const View* news();
  uint64_t call() const { return mine_.call; }
  bool isGone(int peer) const { return mine_.gone[static_cast<size_t>(peer)]; }
  // The others go on without this rank.
  bool isLeftOut() const { return isGone(rank_); }
  bool isAgreed() const { return !tells_ && missing().empty(); }
  // Who keeps this rank from that.
  std::vector<int> missing() const;
  Survivors survivors() const;

  auto operator<=>(const RollCall&) const = default;

 private:
  int rank_;
  View mine_;
  std::vector<View> latest_;  // of each peer
  bool tells_ = true;
};

// Collective over the ranks that the roll does not take for gone and are still there. Called again with the same roll
// it is another try of the call, when ranks have been lost since. Errors: PeerFailed (a survivor takes this rank for
// gone), Timeout (names who has not called).
Result<Survivors> agreeOnSurvivors(Control& control, RollCall& roll, const Deadline& deadline);

}  // namespace sparsecoll::bootstrap
