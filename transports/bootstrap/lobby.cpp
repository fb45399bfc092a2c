#include "transports/bootstrap/lobby.h"

#include <algorithm>
#include <iterator>

namespace sparsecoll::bootstrap {

namespace {
constexpr uint64_t kRestMs = 50;
}

void Lobby::close() {
  listener_.close();
  strangers_.clear();
}

void Lobby::watch(std::vector<pollfd>& into) const {
  if (!open()) return;
  const bool room = strangers_.size() < kMostStrangers ||
                    !std::ranges::all_of(strangers_, [](const Stranger& one) { return one.greeted(); });
  if (rests_.expired() && room) into.push_back({listener_.get(), POLLIN, 0});
  for (const Stranger& one : strangers_) into.push_back(one.watch());
}

Deadline Lobby::next() const {
  Deadline first = rests_.expired() ? Deadline::in(SPARSECOLL_NO_TIMEOUT) : rests_;
  if (!strangers_.empty()) first = Deadline::earlier(first, strangers_.front().deadline());
  return first;
}

// Who has been here longest without a word that only ranks know.
std::list<Stranger>::iterator Lobby::idlest() {
  return std::ranges::find_if(strangers_, [](const Stranger& one) { return !one.greeted(); });
}

// Whoever is new takes the place of the idlest: a rank's hello is there a few milliseconds after its connection, so a
// crowd of silent ones never keeps it out. Where all have said hello the rest wait for places.
void Lobby::admit() {
  if (!rests_.expired()) return;
  auto newcomer = strangers_.end();  // the first that has not been listened to
  for (size_t admitted = 0; admitted < kMostStrangers; ++admitted) {
    const auto leaves = strangers_.size() == kMostStrangers ? idlest() : strangers_.end();
    if (strangers_.size() == kMostStrangers && leaves == newcomer) return;
    Fd came;
    const Arrival arrival = accept(listener_, came);
    if (arrival == Arrival::kNone) return;
    if (arrival == Arrival::kNoRoom) {
      rests_ = Deadline::in(kRestMs);
      turnedAway_ = true;
      if (const auto idle = idlest(); idle != strangers_.end()) strangers_.erase(idle);
      return;
    }
    turnedAway_ = false;
    if (leaves != strangers_.end()) strangers_.erase(leaves);
    strangers_.emplace_back(std::move(came), Hello::asServer(self_), Deadline::in(kHelloMs), false);
    if (newcomer == strangers_.end()) newcomer = std::prev(strangers_.end());
  }
}

void Lobby::advance(std::vector<Guest>& proven) {
  for (auto one = strangers_.begin(); one != strangers_.end();) {
    const Stranger::State state = one->advance();
    if (state == Stranger::State::kGoing) {
      ++one;
      continue;
    }
    if (state == Stranger::State::kProven) {
      const Claim claim = one->peer();
      proven.push_back({claim, one->intoLink(static_cast<int>(claim.rank))});
    }
    one = strangers_.erase(one);
  }
}

std::vector<Guest> Lobby::serve() {
  std::vector<Guest> proven;
  advance(proven);  // before any of them has to make room
  admit();
  advance(proven);
  return proven;
}

}  // namespace sparsecoll::bootstrap
