#include "transports/bootstrap/survivors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"

namespace sparsecoll::bootstrap {

using engine::PeerState;

namespace {

// Above what tells exchanges of a communicator that lives apart: the number of an operation.
constexpr uint64_t kSurvivorsTag = uint64_t{1} << 62;

struct PartHead {
  uint64_t tag;
  uint32_t turn;
};

Result<PartHead> readPartHead(Reader& reader) {
  PartHead head{};
  SC_TRY(head.tag, reader.read<uint64_t>());
  SC_TRY(head.turn, reader.read<uint32_t>());
  return head;
}

// Also one that had aborted before, as survivors have.
bool isLost(const Control& control, int peer) {
  return control.stateOf(peer) == PeerState::kLost || control.hasLeft(peer) || control.hasEnded(peer);
}

}  // namespace

MembersExchange::MembersExchange(std::shared_ptr<Control> control, std::vector<int> members, uint64_t tag,
                                 Aborts aborts)
    : control_(std::move(control)), members_(std::move(members)), tag_(tag), aborts_(aborts) {
  rank_ = static_cast<int>(std::ranges::find(members_, control_->rank()) - members_.begin());
}

bool MembersExchange::isGone(int rank) const {
  const int peer = members_[static_cast<size_t>(rank)];
  if (peer == control_->rank()) return false;
  return isLost(*control_, peer) || (aborts_ == Aborts::kEnd && control_->stateOf(peer) == PeerState::kAborted);
}

// Survivors go on without one of them that dies. One that has left may have met all others before.
int MembersExchange::lost() const {
  if (aborts_ == Aborts::kEnd) return -1;
  const auto hasDied = [&](int peer) {
    return peer != control_->rank() && isLost(*control_, peer) && !control_->hasLeft(peer);
  };
  const auto died = std::ranges::find_if(members_, hasDied);
  return died != members_.end() ? static_cast<int>(died - members_.begin()) : -1;
}

// Takes what has come; letters of exchanges that are over are dropped on the way. Whether all is there.
bool MembersExchange::collect(Parts& parts, std::vector<bool>& here) {
  bool all = true;
  for (size_t m = 0; m < members_.size(); ++m) {
    auto& mail = control_->mail(members_[m]);
    for (auto letter = mail.begin(); letter != mail.end() && !here[m];) {
      Reader reader(letter->payload);
      auto head = readPartHead(reader);
      const bool part = letter->type == FrameType::kPart;
      if (!part || (head.ok() && head->tag > tag_)) {
        ++letter;
        continue;
      }
      if (head.ok() && head->tag == tag_ && head->turn == turn_) {
        const Bytes body = Bytes(letter->payload).last(reader.left());
        parts[m].assign(body.begin(), body.end());
        here[m] = true;
      }
      letter = mail.erase(letter);
    }
    all = all && here[m];
  }
  return all;
}

Result<Parts> MembersExchange::allgather(Bytes own, const Deadline& deadline) {
  ++turn_;
  Writer writer;
  writer.write(tag_);
  writer.write(turn_);
  writer.append(own.data(), own.size());
  Parts parts(members_.size());
  std::vector<bool> here(members_.size(), false);
  for (const int member : members_)
    if (member != control_->rank()) control_->write(member, FrameType::kPart, writer.bytes());
  parts[static_cast<size_t>(rank_)].assign(own.begin(), own.end());
  here[static_cast<size_t>(rank_)] = true;
  int gone = -1;
  bool aborted = false;
  const bool met = control_->await(deadline, [&] {
    if (collect(parts, here)) return true;
    for (size_t m = 0; m < members_.size(); ++m)
      if (!here[m] && (control_->gone(members_[m]) || isGone(static_cast<int>(m)))) gone = members_[m];
    if (const int died = lost(); died >= 0) gone = members_[static_cast<size_t>(died)];
    aborted = isAborted();
    return aborted || gone >= 0;
  });
  if (aborted) return fail(sparsecollAborted, "the communicator was aborted");
  if (gone >= 0) return failBy(gone, sparsecollPeerFailed, "rank {} went away while ranks were connected", gone);
  if (met) return parts;
  std::vector<int> missing;
  for (size_t m = 0; m < members_.size(); ++m)
    if (!here[m]) missing.push_back(members_[m]);
  return failBy(missing[0], sparsecollTimeout, "nothing came in time from rank(s) {}", listOf(missing));
}

std::vector<std::byte> writeView(const View& view) {
  Writer writer;
  writer.write(view.call);
  writer.write(view.own);
  std::vector<uint8_t> bits((view.gone.size() + 7) / 8, 0);
  for (size_t r = 0; r < view.gone.size(); ++r)
    if (view.gone[r]) bits[r / 8] = static_cast<uint8_t>(bits[r / 8] | 1u << (r % 8));
  writer.append(bits.data(), bits.size());
  return writer.bytes();
}

Result<View> readView(Bytes payload, int ranks) {
  Reader reader(payload);
  View view;
  SC_TRY(view.call, reader.read<uint64_t>());
  SC_TRY(view.own, reader.read<uint64_t>());
  const auto size = static_cast<size_t>(ranks);
  SC_TRY(const Bytes bits, reader.take((size + 7) / 8));
  if (reader.left() != 0) return fail(sparsecollCorrupted, "a view with {} bytes too many", reader.left());
  for (size_t r = 0; r < size; ++r) view.gone.push_back((std::to_integer<unsigned>(bits[r / 8]) >> (r % 8) & 1u) != 0);
  return view;
}

RollCall::RollCall(int rank, std::vector<bool> excluded, uint64_t call, uint64_t own)
    : rank_(rank), mine_{call, own, std::move(excluded)}, latest_(mine_.gone.size()) {}

void RollCall::lose(int peer) {
  tells_ = tells_ || !isGone(peer);
  mine_.gone[static_cast<size_t>(peer)] = true;
}

void RollCall::hear(int peer, View view) {
  if (view.call == mine_.call) latest_[static_cast<size_t>(peer)] = std::move(view);
}

bool RollCall::conclude() {
  for (size_t p = 0; p < latest_.size(); ++p) {
    if (mine_.gone[p] || latest_[p].gone.empty()) continue;
    for (size_t r = 0; r < mine_.gone.size(); ++r)
      if (latest_[p].gone[r]) lose(static_cast<int>(r));
  }
  return tells_ || isAgreed();
}

const View* RollCall::news() { return std::exchange(tells_, false) ? &mine_ : nullptr; }

std::vector<int> RollCall::missing() const {
  std::vector<int> ranks;
  for (size_t p = 0; p < latest_.size(); ++p)
    if (static_cast<int>(p) != rank_ && !mine_.gone[p] && latest_[p].gone != mine_.gone)
      ranks.push_back(static_cast<int>(p));
  return ranks;
}

Survivors RollCall::survivors() const {
  Survivors left{{}, mine_.own, 0};
  for (size_t p = 0; p < latest_.size(); ++p) {
    if (mine_.gone[p]) continue;
    left.members.push_back(static_cast<int>(p));
    if (static_cast<int>(p) != rank_) left.lowest = std::min(left.lowest, latest_[p].own);
  }
  // Tries of one call differ in how many are left, so a later one's tag is greater.
  const uint64_t gone = mine_.gone.size() - left.members.size();
  const uint64_t hash = XXH3_64bits(left.members.data(), left.members.size() * sizeof(int));
  left.tag = kSurvivorsTag | mine_.call << 40 | gone << 28 | (hash & 0xfffffff);
  return left;
}

Result<Survivors> agreeOnSurvivors(Control& control, RollCall& roll, const Deadline& deadline) {
  // Words of later calls stay where they are.
  const auto listen = [&](int peer) {
    auto& mail = control.mail(peer);
    for (auto letter = mail.begin(); letter != mail.end();) {
      auto view = letter->type == FrameType::kView ? readView(letter->payload, control.ranks()) : Result<View>(View{});
      if (letter->type != FrameType::kView || !view.ok() || view->call > roll.call()) {
        ++letter;
        continue;
      }
      roll.hear(peer, std::move(*view));
      letter = mail.erase(letter);
    }
    if (!roll.isGone(peer) && (control.gone(peer) || isLost(control, peer))) roll.lose(peer);
  };
  for (bool moved = true; moved;) {
    if (const View* const view = roll.news())
      for (int peer = 0; peer < control.ranks(); ++peer)
        if (peer != control.rank()) control.write(peer, FrameType::kView, writeView(*view));
    moved = control.await(deadline, [&] {
      for (int peer = 0; peer < control.ranks(); ++peer)
        if (peer != control.rank()) listen(peer);
      return roll.conclude();
    });
    if (roll.isLeftOut()) return failBy(control.rank(), sparsecollPeerFailed, "the other ranks go on without this one");
    if (roll.isAgreed()) return roll.survivors();
  }
  const std::vector<int> missing = roll.missing();
  return failBy(missing.empty() ? -1 : missing[0], sparsecollTimeout, "rank(s) {} have not called CommShrink in time",
                listOf(missing));
}

}  // namespace sparsecoll::bootstrap
