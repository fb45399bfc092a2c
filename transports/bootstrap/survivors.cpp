#include "transports/bootstrap/survivors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

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

bool isLost(const Control& control, int peer) {
  return control.stateOf(peer) == PeerState::kLost || control.hasLeft(peer);
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

// Everyone tells everyone whom it takes for gone, again whenever that grows, until all who are left say the same. Sets
// only grow, so it ends after at most as many changes as there are ranks.
Result<Survivors> agreeOnSurvivors(Control& control, std::vector<bool> excluded, uint64_t call, uint64_t own,
                                   const Deadline& deadline) {
  const int ranks = control.ranks();
  const auto self = static_cast<size_t>(control.rank());
  View mine{call, own, std::move(excluded)};
  std::vector<View> latest(mine.gone.size());
  bool tell = true;
  for (;;) {
    if (tell)  // also those who are left out: they may be waiting
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != control.rank()) control.write(peer, FrameType::kView, writeView(mine));
    tell = false;
    bool agreed = false;
    const bool moved = control.await(deadline, [&] {
      agreed = true;
      for (int peer = 0; peer < ranks; ++peer) {
        const auto p = static_cast<size_t>(peer);
        auto& mail = control.mail(peer);
        for (auto letter = mail.begin(); letter != mail.end();) {
          auto view = letter->type == FrameType::kView ? readView(letter->payload, ranks) : Result<View>(View{});
          if (letter->type != FrameType::kView || !view.ok() || view->call > call) {
            ++letter;
            continue;
          }
          if (view->call == call) latest[p] = std::move(*view);
          letter = mail.erase(letter);
        }
        if (mine.gone[p]) continue;
        const bool lost = peer != control.rank() && (control.gone(peer) || isLost(control, peer));
        if (lost) mine.gone[p] = tell = true;
      }
      for (size_t p = 0; p < latest.size(); ++p) {
        if (p == self || mine.gone[p] || latest[p].gone.empty()) continue;
        for (size_t r = 0; r < mine.gone.size(); ++r)
          if (latest[p].gone[r] && !mine.gone[r]) mine.gone[r] = tell = true;
      }
      for (size_t p = 0; p < latest.size(); ++p)
        if (p != self && !mine.gone[p]) agreed = agreed && latest[p].gone == mine.gone;
      return agreed || tell;
    });
    if (mine.gone[self]) return failBy(control.rank(), sparsecollPeerFailed, "the other ranks go on without this one");
    if (agreed && !tell) break;
    if (moved) continue;
    std::vector<int> missing;
    for (int peer = 0; peer < ranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      if (p != self && !mine.gone[p] && latest[p].gone != mine.gone) missing.push_back(peer);
    }
    return failBy(missing.empty() ? -1 : missing[0], sparsecollTimeout, "rank(s) {} have not called CommShrink in time",
                  listOf(missing));
  }
  Survivors left{{}, own, 0};
  for (int peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (mine.gone[p]) continue;
    left.members.push_back(peer);
    if (p != self) left.lowest = std::min(left.lowest, latest[p].own);
  }
  // Tries of one call differ in how many are left, so a later one's tag is greater.
  const uint64_t gone = mine.gone.size() - left.members.size();
  const uint64_t hash = XXH3_64bits(left.members.data(), left.members.size() * sizeof(int));
  left.tag = kSurvivorsTag | call << 40 | gone << 28 | (hash & 0xfffffff);
  return left;
}

}  // namespace sparsecoll::bootstrap
