#include "transports/bootstrap/search.h"

#include <algorithm>

#include "core/poll.h"
#include "transports/bootstrap/lobby.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint64_t kLookUpMs = 3000;
constexpr uint64_t kFirstLookUpMs = 300;  // while there is no address
constexpr uint64_t kDoubtMs = 5000;       // a stranger at one port does not keep ranks from rank 0 at the next

}  // namespace

Status Search::lookUp() {
  if (!lookAgain_.expired()) return {};
  auto found = candidates_();
  lookAgain_ = Deadline::in(found.ok() || !calls_.empty() ? kLookUpMs : kFirstLookUpMs);
  if (!found.ok()) {
    Status why = found.takeStatus();
    if (why.result() == sparsecollInvalidUsage) return why;
    if (calls_.empty()) last_ = Text<256>::format("{}", why.failure().text);
    return {};
  }
  std::erase_if(calls_, [&](const Call& one) { return std::ranges::find(*found, one.to) == found->end(); });
  for (const Address& to : *found)
    if (std::ranges::none_of(calls_, [&](const Call& one) { return one.to == to; }))
      calls_.push_back({to, std::nullopt, Deadline::in(0), kFirstRetryMs});
  return {};
}

void Search::begin(Call& call, const Deadline& deadline) {
  if (call.stranger || !call.again.expired()) return;
  auto socket = socketFor(call.to);
  if (!socket.ok()) return putOff(call, socket.takeStatus());
  if (const Status begun = connectTo(*socket, call.to); !begun.ok()) return putOff(call, begun);
  call.stranger.emplace(std::move(*socket), Hello::asClient(self_), Deadline::earlier(deadline, Deadline::in(kHelloMs)),
                        true);
}

bool Search::advance(Call& call) {
  if (!call.stranger) return false;
  const Stranger::State state = call.stranger->advance();
  if (state == Stranger::State::kGone) putOff(call, call.stranger->why());
  return state == Stranger::State::kProven;
}

void Search::putOff(Call& call, const Status& why) {
  const bool answered = call.stranger && call.stranger->reached();
  if (answered || !answered_) {
    last_ = Text<256>::format("{}: {}", call.to.text(), why.failure().text);
    answered_ = answered;
  }
  const bool refused = why.result() == sparsecollAuthFailed || why.result() == sparsecollMismatch;
  if (refused && refused_.ok()) doubted_ = Deadline::in(calls_.size() == 1 ? 0 : kDoubtMs);
  if (refused) refused_ = Status(why.failure());
  call.stranger.reset();
  call.again = Deadline::in(call.retryMs);
  call.retryMs = std::min(2 * call.retryMs, kLastRetryMs * std::clamp<uint64_t>(calls_.size() / 4, 1, 4));
}

void Search::sleep(const Deadline& deadline) const {
  std::vector<pollfd> watched;
  Deadline until = Deadline::earlier(deadline, lookAgain_);
  if (!refused_.ok()) until = Deadline::earlier(until, doubted_);
  for (const Call& call : calls_) {
    if (call.stranger) watched.push_back(call.stranger->watch());
    until = Deadline::earlier(until, call.stranger ? call.stranger->deadline() : call.again);
  }
  (void)awaitAny(watched, until);
}

Result<Link> Search::run(const Deadline& deadline) {
  for (;;) {
    SC_TRY(lookUp());
    for (Call& call : calls_) {
      begin(call, deadline);
      if (!advance(call)) continue;
      Link link = call.stranger->intoLink(0);
      for (Call& other : calls_) other.stranger.reset();
      call.again = Deadline::in(call.retryMs);
      return link;
    }
    if (!refused_.ok() && (doubted_.expired() || deadline.expired())) return Status(refused_.failure());
    if (deadline.expired()) return failBy(0, sparsecollTimeout, "rank 0 was not reached at {}: {}", where_, last_);
    sleep(deadline);
  }
}

}  // namespace sparsecoll::bootstrap
