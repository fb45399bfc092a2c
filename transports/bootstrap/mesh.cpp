#include "transports/bootstrap/mesh.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "core/poll.h"
#include "transports/bootstrap/lobby.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr const char* kNoRoomText = "this process has no descriptors left for those that call";

Status wentAway(int rank) {
  return failBy(rank, sparsecollPeerFailed, "rank {} went away while ranks were connected", rank);
}

// What keeps one of these from coming: it has ended, or this rank has. Ok: nothing that is known.
Status ended(const Exchange& exchange, std::span<const int> awaited) {
  for (const int rank : awaited)
    if (exchange.isGone(rank)) return wentAway(rank);
  if (const int lost = exchange.lost(); lost >= 0) return wentAway(lost);
  if (exchange.isAborted()) return fail(sparsecollAborted, "the communicator was aborted");
  return {};
}

// Ranks call those below them and are called by those above.
class Connecting {
 public:
  Connecting(const Exchange& exchange, Fd listener, Identity self, std::vector<Address> addresses)
      : exchange_(exchange),
        self_(std::move(self)),
        lobby_(std::move(listener), self_),
        addresses_(std::move(addresses)),
        calls_(static_cast<size_t>(self_.rank)),
        links_(addresses_.size()) {}

  Result<std::vector<Link>> run(const Deadline& deadline) {
    for (;;) {
      for (Guest& guest : lobby_.serve()) seat(std::move(guest));
      for (Link& link : links_)
        if (link.pending()) link.flush();
      for (size_t r = 0; r < calls_.size(); ++r)
        if (!links_[r].open()) SC_TRY(call(r, deadline));
      const std::vector<int> missing = notHere();
      if (missing.empty()) return std::move(links_);
      SC_TRY(ended(exchange_, missing));
      if (deadline.expired()) return notReached(missing);
      SC_TRY(sleep(deadline));
    }
  }

 private:
  struct Call {
    std::optional<Stranger> stranger;
    Link proven;  // until the other side says that it holds its end, too
    Deadline again = Deadline::in(0);
    uint64_t retryMs = kFirstRetryMs;
    Text<128> last;  // why it has not come about so far
  };

  Status notReached(const std::vector<int>& missing) const {
    const auto rank = static_cast<size_t>(missing[0]);
    const auto firstAbove = std::ranges::lower_bound(missing, self_.rank);
    if (firstAbove == missing.begin())
      return failBy(missing[0], sparsecollTimeout, "rank {} was not reached by rank(s) {}{}{}", self_.rank,
                    listOf(missing), lobby_.turnedAway() ? ": " : "", lobby_.turnedAway() ? kNoRoomText : "");
    const Text<128>& why = calls_[rank].last;
    return failBy(missing[0], sparsecollTimeout, "rank(s) {} were not reached by rank {}, the first at {}: {}",
                  listOf(std::span<const int>(missing.begin(), firstAbove)), self_.rank, addresses_[rank].text(),
                  why.empty() ? "nobody answers" : why.c_str());
  }

  void seat(Guest guest) {
    const Claim claim = guest.claim;
    const bool fits = claim.ranks == links_.size() && claim.rank < links_.size() &&
                      claim.rank > static_cast<uint32_t>(self_.rank) && !links_[claim.rank].open();
    if (!fits) return;
    links_[claim.rank] = std::move(guest.link);
    links_[claim.rank].send(FrameType::kHeartbeat, {});
  }

  Status call(size_t r, const Deadline& deadline) {
    Call& call = calls_[r];
    if (call.proven.open()) return awaitWord(r);
    if (!call.stranger) {
      if (!call.again.expired()) return {};
      SC_TRY(Fd socket, socketFor(addresses_[r]));  // without a descriptor waiting helps nobody
      if (const Status begun = connectTo(socket, addresses_[r]); !begun.ok()) return retry(call, begun);
      const Deadline patience = Deadline::earlier(deadline, Deadline::in(kHelloMs));
      call.stranger.emplace(std::move(socket), Hello::asClient(self_), patience, true);
    }
    const Stranger::State state = call.stranger->advance();
    if (state == Stranger::State::kGoing) return {};
    if (state == Stranger::State::kGone) {
      const sparsecollResult_t why = call.stranger->why().result();
      if (why == sparsecollAuthFailed) return failBy(static_cast<int>(r), why, "rank {} has another key", r);
      return retry(call, call.stranger->why());
    }
    if (call.stranger->peer().rank != r) return retry(call, fail(sparsecollPeerFailed, "another rank answers"));
    call.proven = call.stranger->intoLink(static_cast<int>(r));
    call.stranger.reset();
    return awaitWord(r);
  }

  // A connection that is closed before its first frame was proven too late for the other side, which can be called
  // again.
  Status awaitWord(size_t r) {
    Call& call = calls_[r];
    bool heard = false;
    SC_TRY(call.proven.receive([&](FrameType type, Bytes) -> Status {
      if (heard || type != FrameType::kHeartbeat)
        return failBy(static_cast<int>(r), sparsecollCorrupted, "rank {} says what was not asked", r);
      heard = true;
      return {};
    }));
    if (heard && call.proven.closed()) return wentAway(static_cast<int>(r));
    if (heard) {
      links_[r] = std::exchange(call.proven, Link());
    } else if (call.proven.closed()) {
      call.proven = Link();
      return retry(call, fail(sparsecollPeerFailed, "it hung up"));
    }
    return {};
  }

  static Status retry(Call& call, const Status& why) {
    call.last = Text<128>::format("{}", why.failure().text);
    call.stranger.reset();
    call.again = Deadline::in(call.retryMs);
    call.retryMs = std::min(2 * call.retryMs, kLastRetryMs);
    return {};
  }

  std::vector<int> notHere() const {
    std::vector<int> missing;
    for (size_t r = 0; r < links_.size(); ++r)
      if (static_cast<int>(r) != self_.rank && (!links_[r].open() || links_[r].pending()))
        missing.push_back(static_cast<int>(r));
    return missing;
  }

  Status sleep(const Deadline& deadline) {
    std::vector<pollfd> watched;
    for (const Link& link : links_)  // whoever is here already may go again; what it says can wait
      if (link.open())
        watched.push_back({link.socket().get(), static_cast<short>(POLLRDHUP | (link.pending() ? POLLOUT : 0)), 0});
    const size_t here = watched.size();
    lobby_.watch(watched);
    Deadline until = Deadline::earlier(Deadline::earlier(deadline, lobby_.next()), Deadline::in(kLastRetryMs));
    for (size_t r = 0; r < calls_.size(); ++r) {
      if (links_[r].open()) continue;
      if (calls_[r].stranger) watched.push_back(calls_[r].stranger->watch());
      if (calls_[r].proven.open()) watched.push_back(calls_[r].proven.watch());
      if (calls_[r].proven.open()) continue;
      until = Deadline::earlier(until, calls_[r].stranger ? calls_[r].stranger->deadline() : calls_[r].again);
    }
    (void)awaitAny(watched, until);
    for (size_t w = 0; w < here; ++w) {
      if ((watched[w].revents & ~POLLOUT) == 0) continue;
      for (const Link& link : links_)
        if (link.open() && link.socket().get() == watched[w].fd) return wentAway(link.peer());
    }
    return {};
  }

  const Exchange& exchange_;
  Identity self_;
  Lobby lobby_;
  const std::vector<Address> addresses_;
  std::vector<Call> calls_;
  std::vector<Link> links_;
};

struct Hosts {
  bool one = true;                 // all ranks are on one
  std::optional<Address> reached;  // where other hosts have reached some rank of this one
};

Result<Hosts> lookAtHosts(Exchange& exchange, const Deadline& deadline) {
  const uint64_t here = hostId();
  Writer writer;
  writer.write(here);
  writeAddress(writer, exchange.reachedAt().value_or(Address::loopback()));
  SC_TRY(const Parts parts, exchange.allgather(writer.bytes(), deadline));
  Hosts hosts;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    Reader reader(parts[rank]);
    SC_TRY(const uint64_t host, reader.read<uint64_t>());
    SC_TRY(const Address reached, readAddress(reader));
    hosts.one = hosts.one && host == here;
    const bool own = rank == static_cast<size_t>(exchange.rank());
    if (host == here && !reached.isLoopback() && (own || !hosts.reached)) hosts.reached = reached.withPort(0);
  }
  return hosts;
}

// Ranks beside the one that the others look for may have met it at loopback, and what is reached of it leads to them.
Result<Address> placeToListen(const MeshSetup& setup, const Hosts& hosts) {
  if (!setup.interfaceName.empty()) return addressOf(setup.interfaceName.c_str());
  if (hosts.one) return Address::loopback();
  return hosts.reached ? *hosts.reached : addressOf("auto");
}

// Where a rank listens and its card.
Result<Parts> exchangeCards(Exchange& exchange, const Address& at, Bytes card, const Deadline& deadline,
                            std::vector<Address>& addresses) {
  Writer writer;
  writeAddress(writer, at);
  writer.append(card.data(), card.size());
  SC_TRY(Parts parts, exchange.allgather(writer.bytes(), deadline));
  for (auto& part : parts) {
    Reader reader(part);
    SC_TRY(const Address address, readAddress(reader));
    addresses.push_back(address);
    part.erase(part.begin(), part.begin() + Address::kWireBytes);
  }
  return parts;
}

// Whoever is not reached says so while the others still listen, or they would name one another.
Deadline toBeTold(const Deadline& deadline) {
  constexpr uint64_t kToTellMs = 1000;
  const auto left = static_cast<uint64_t>(std::chrono::floor<std::chrono::milliseconds>(deadline.left()).count());
  return Deadline::in(left - std::min(left / 4, kToTellMs));
}

// Every rank's connections of one purpose, and what it told the others on the way.
struct Connections {
  std::vector<Link> links;
  Parts cards;
};

Result<Connections> connectAll(Exchange& exchange, const Identity& self, const Address& at, Bytes card,
                               const Deadline& deadline) {
  Connections made;
  SC_TRY(Fd listener, bindTo(at));
  SC_TRY(listen(listener, kBacklog));
  SC_TRY(const Address heardAt, localAddress(listener));
  std::vector<Address> addresses;
  SC_TRY(made.cards, exchangeCards(exchange, heardAt, card, deadline, addresses));
  SC_TRY(made.links, Connecting(exchange, std::move(listener), self, std::move(addresses)).run(toBeTold(deadline)));
  SC_TRY(const Parts ready, exchange.allgather({}, deadline));
  return made;
}

Result<Mesh> make(Exchange& exchange, const MeshSetup& setup, const Deadline& deadline) {
  Mesh mesh;
  mesh.rank = exchange.rank();
  mesh.ranks = exchange.ranks();
  mesh.key = setup.key;
  mesh.job = setup.job;
  SC_TRY(const Hosts hosts, lookAtHosts(exchange, deadline));
  SC_TRY(mesh.at, placeToListen(setup, hosts));
  SC_TRY(const std::vector<std::byte> card, setup.card(hosts.one, mesh.at));
  const Identity self{setup.key, setup.job, Purpose::kMesh, mesh.rank, mesh.ranks};
  SC_TRY(Connections made, connectAll(exchange, self, mesh.at, card, deadline));
  mesh.links = std::move(made.links);
  mesh.cards = std::move(made.cards);
  return mesh;
}

// Whoever fails tells the others.
template <class Made>
Result<Made> orGiveUp(Exchange& exchange, Result<Made> made) {
  if (made.ok()) return made;
  const Status failed = made.takeStatus();
  exchange.giveUp(failed.failure());
  return Status(failed.failure());
}

}  // namespace

Result<std::vector<Fd>> makeDataConnections(Exchange& exchange, const Mesh& mesh, const Deadline& deadline) {
  const Identity self{mesh.key, mesh.job, Purpose::kData, mesh.rank, mesh.ranks};
  SC_TRY(Connections made, orGiveUp(exchange, connectAll(exchange, self, mesh.at, {}, deadline)));
  std::vector<Fd> sockets;
  for (Link& link : made.links) sockets.push_back(link.takeSocket());
  return sockets;
}

Result<Mesh> makeMesh(Exchange& exchange, const MeshSetup& setup, const Deadline& deadline) {
  SC_TRY(cryptoReady());
  return orGiveUp(exchange, make(exchange, setup, deadline));
}

Status whyUnreachable(const Exchange& exchange, const Mesh& mesh) {
  constexpr uint64_t kNoticeMs = 200, kLookMs = 10;
  const Deadline notice = Deadline::in(kNoticeMs);
  std::vector<int> others;
  for (int rank = 0; rank < mesh.ranks; ++rank)
    if (rank != mesh.rank) others.push_back(rank);
  for (;;) {
    SC_TRY(ended(exchange, others));
    if (notice.expired()) return {};
    std::vector<pollfd> watched;  // what the ranks say can wait
    for (const Link& link : mesh.links) watched.push_back({link.open() ? link.socket().get() : -1, POLLRDHUP, 0});
    (void)awaitAny(watched, Deadline::in(kLookMs));
    for (size_t rank = 0; rank < watched.size(); ++rank)
      if (watched[rank].revents != 0) return wentAway(static_cast<int>(rank));
  }
}

Result<MeshSecret> drawTogether(Exchange& exchange, const Deadline& deadline, const Key& root) {
  SC_TRY(cryptoReady());
  std::array<std::byte, kKeyBytes> drawn;
  const Wiping drawnWiped(drawn);
  fillRandom(drawn);
  SC_TRY(Parts all, exchange.allgather(drawn, deadline));
  std::vector<std::byte> together(all.size() * kKeyBytes);
  const Wiping togetherWiped(together);
  size_t wrong = kKeyBytes;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() == kKeyBytes)
      std::ranges::copy(all[r], together.begin() + static_cast<ptrdiff_t>(r * kKeyBytes));
    else
      wrong = all[r].size();
    wipe(all[r]);
  }
  if (wrong != kKeyBytes) return fail(sparsecollCorrupted, "a secret of {} bytes", wrong);
  const Key drawnKey = deriveKey(root, "sparsecoll drawn together", together);
  MeshSecret made{deriveKey(drawnKey, "sparsecoll key", {}), {}};
  const Key job = deriveKey(drawnKey, "sparsecoll job", {});
  std::copy_n(job.bytes().begin(), made.job.size(), made.job.begin());
  return made;
}

}  // namespace sparsecoll::bootstrap
