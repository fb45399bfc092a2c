#include "transports/bootstrap/star.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/poll.h"
#include "transports/bootstrap/search.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr size_t kMostPartBytes = kMostPayloadBytes - sizeof(uint32_t);

// The other side is told by the connection, which is closed.
Status starved(int peer) { return fail(sparsecollOutOfMemory, "no memory for what goes to rank {}", peer); }

Status tooLong(size_t bytes) { return fail(sparsecollInternalError, "{} bytes to exchange at once", bytes); }

class StarHub final : public Exchange {
 public:
  // at: where it listens; any address: where somebody has reached it is told by the connections.
  StarHub(Lobby lobby, const Address& at, int ranks)
      : lobby_(std::move(lobby)), links_(static_cast<size_t>(ranks)), offers_(links_.size()) {
    if (!at.isAny()) at_ = at.withPort(0);
  }

  int rank() const override { return 0; }
  int ranks() const override { return static_cast<int>(links_.size()); }
  std::optional<Address> reachedAt() const override { return at_; }

  // All ranks. The door is shut behind them.
  Status gather(const Deadline& deadline) {
    const Status met = gatherUntil(deadline);
    if (!met.ok()) giveUp(met.failure());
    lobby_.close();
    for (size_t r = 1; r < links_.size() && !at_; ++r)
      if (auto here = localAddress(links_[r].socket()); here.ok() && !here->isLoopback()) at_ = here->withPort(0);
    return Status(met.failure());
  }

  Result<Parts> allgather(Bytes own, const Deadline& deadline) override {
    if (own.size() > kMostPartBytes) return tooLong(own.size());
    const Status collected = collect(deadline);
    if (!collected.ok()) {
      giveUp(collected.failure());
      return Status(collected.failure());
    }
    Parts parts(links_.size());
    parts[0].assign(own.begin(), own.end());
    for (size_t r = 1; r < links_.size(); ++r) {
      parts[r] = std::move(offers_[r].front());
      offers_[r].pop_front();
    }
    for (size_t r = 0; r < parts.size(); ++r) {
      Writer writer;
      writer.write(static_cast<uint32_t>(r));
      writer.append(parts[r].data(), parts[r].size());
      for (Link& link : links_) link.send(FrameType::kTable, writer.bytes());
    }
    SC_TRY(drain(deadline));
    return parts;
  }

  void giveUp(const Failure& why) override {
    for (Link& link : links_) link.send(FrameType::kVerdict, writeVerdict(toldToOthers(why)));
  }

 private:
  Status gatherUntil(const Deadline& deadline) {
    for (;;) {
      for (Guest& guest : lobby_.serve()) SC_TRY(seat(std::move(guest)));
      for (size_t r = 1; r < links_.size(); ++r) {
        if (!links_[r].open()) continue;
        SC_TRY(listen(r));
        if (links_[r].closed()) {  // whoever comes as this rank again is welcome
          links_[r] = Link();
          offers_[r].clear();
        }
      }
      const std::vector<int> missing = notHere();
      if (missing.empty()) return {};
      if (deadline.expired()) return failBy(missing[0], sparsecollTimeout, "rank(s) {} have not come", listOf(missing));
      sleep(deadline);
    }
  }

  // What a proven guest claims: ranks that mean different jobs end all of it, a rank that is here already is sent away.
  Status seat(Guest guest) {
    const uint32_t rank = guest.claim.rank;
    const auto size = static_cast<uint32_t>(links_.size());
    if (guest.claim.ranks != size) {
      const Status differs = disagree(static_cast<int>(rank), "nRanks", "rank {} was told {} ranks, rank 0 {}", rank,
                                      guest.claim.ranks, size);
      guest.link.send(FrameType::kVerdict, writeVerdict(differs.failure()));
      return differs;
    }
    if (rank == 0 || rank >= size || links_[rank].open()) {
      const Status taken =
          failBy(static_cast<int>(rank), sparsecollInvalidUsage, "rank {} is taken, or not one of {}", rank, size);
      guest.link.send(FrameType::kVerdict, writeVerdict(taken.failure()));
      return {};
    }
    links_[rank] = std::move(guest.link);
    links_[rank].send(FrameType::kVerdict, writeVerdict({sparsecollSuccess, -1, {}, {}}));
    return {};
  }

  Status listen(size_t r) {
    return links_[r].receive([&](FrameType type, Bytes payload) -> Status {
      if (type == FrameType::kVerdict) {
        SC_TRY(Failure why, readVerdict(payload));
        if (why.peer < 0) why.peer = static_cast<int>(r);
        return Status(why);
      }
      if (type != FrameType::kOffer || offers_[r].size() > 1 || payload.size() > kMostPartBytes)
        return failBy(static_cast<int>(r), sparsecollCorrupted, "rank {} says what was not asked", r);
      offers_[r].emplace_back(payload.begin(), payload.end());
      return {};
    });
  }

  Status collect(const Deadline& deadline) {
    for (;;) {
      std::vector<int> missing;
      for (size_t r = 1; r < links_.size(); ++r) {
        SC_TRY(listen(r));
        if (!offers_[r].empty()) continue;
        if (links_[r].closed())
          return failBy(static_cast<int>(r), sparsecollPeerFailed, "rank {} went away while ranks were connected", r);
        missing.push_back(static_cast<int>(r));
      }
      if (missing.empty()) return {};
      if (deadline.expired())
        return failBy(missing[0], sparsecollTimeout, "nothing came in time from rank(s) {}", listOf(missing));
      sleep(deadline);
    }
  }

  // Until everything that was said has left.
  Status drain(const Deadline& deadline) {
    for (;;) {
      std::vector<pollfd> watched;
      for (Link& link : links_) {
        link.flush();
        if (link.starved()) return starved(link.peer());
        if (link.open() && link.pending()) watched.push_back({link.socket().get(), POLLOUT, 0});
      }
      if (watched.empty()) return {};
      if (deadline.expired()) return fail(sparsecollTimeout, "a rank does not take what it asked for");
      (void)awaitAny(watched, deadline);
    }
  }

  void sleep(const Deadline& deadline) {
    std::vector<pollfd> watched;
    lobby_.watch(watched);
    for (const Link& link : links_)
      if (link.open()) watched.push_back(link.watch());
    (void)awaitAny(watched, lobby_.open() ? Deadline::earlier(deadline, lobby_.next()) : deadline);
    for (Link& link : links_) link.flush();
  }

  std::vector<int> notHere() const {
    std::vector<int> missing;
    for (size_t r = 1; r < links_.size(); ++r)
      if (!links_[r].open()) missing.push_back(static_cast<int>(r));
    return missing;
  }

  Lobby lobby_;
  std::optional<Address> at_;
  std::vector<Link> links_;  // by rank; rank 0's is not open
  std::vector<std::deque<std::vector<std::byte>>> offers_;
};

class StarSpoke final : public Exchange {
 public:
  StarSpoke(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::optional<Address> reachedAt() const override { return at_; }

  Status join(Search search, const Deadline& deadline) {
    for (;;) {
      SC_TRY(link_, search.run(deadline));
      SC_TRY(const Address here, localAddress(link_.socket()));
      at_ = here.withPort(0);
      Status status = hearVerdict(deadline);
      // Without a word of rank 0's the proof may have come too late for it.
      if (status.ok() || answered_ || !link_.closed() || deadline.expired()) return status;
    }
  }

  Result<Parts> allgather(Bytes own, const Deadline& deadline) override {
    if (own.size() > kMostPartBytes) return tooLong(own.size());
    link_.send(FrameType::kOffer, own);
    Parts parts;
    while (parts.size() < static_cast<size_t>(ranks_)) {
      SC_TRY(listen([&](FrameType type, Bytes payload) -> Status {
        Reader reader(payload);
        auto rank = reader.read<uint32_t>();
        if (type != FrameType::kTable || !rank.ok() || *rank != parts.size() || parts.size() == size_t(ranks_))
          return failBy(0, sparsecollCorrupted, "rank 0 says what was not asked");
        SC_TRY(const Bytes part, reader.take(reader.left()));
        parts.emplace_back(part.begin(), part.end());
        return {};
      }));
      if (parts.size() < static_cast<size_t>(ranks_)) SC_TRY(sleep(deadline));
    }
    return parts;
  }

  void giveUp(const Failure& why) override { link_.send(FrameType::kVerdict, writeVerdict(toldToOthers(why))); }

 private:
  Status hearVerdict(const Deadline& deadline) {
    while (!admitted_) {
      SC_TRY(listen([](FrameType, Bytes) { return failBy(0, sparsecollCorrupted, "rank 0 says what was not asked"); }));
      if (!admitted_) SC_TRY(sleep(deadline));
    }
    return {};
  }

  template <class OnFrame>
  Status listen(OnFrame onFrame) {
    return link_.receive([&](FrameType type, Bytes payload) -> Status {
      if (type != FrameType::kVerdict) return onFrame(type, payload);
      answered_ = true;
      SC_TRY(const Failure why, readVerdict(payload));
      if (why.result != sparsecollSuccess) return Status(why);
      admitted_ = true;
      return {};
    });
  }

  Status sleep(const Deadline& deadline) {
    if (link_.starved()) return starved(0);
    if (link_.closed()) return failBy(0, sparsecollPeerFailed, "rank 0 went away while ranks were connected");
    if (deadline.expired()) return failBy(0, sparsecollTimeout, "rank 0 has not brought the ranks together in time");
    std::array<pollfd, 1> watched = {link_.watch()};
    (void)awaitAny(watched, deadline);
    link_.flush();
    return {};
  }

  const int rank_;
  const int ranks_;
  Link link_;
  std::optional<Address> at_;
  bool answered_ = false;
  bool admitted_ = false;
};

}  // namespace

Text<128> listOf(std::span<const int> ranks) {
  Text<128> text;
  for (const int rank : ranks) text.append("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

Failure toldToOthers(Failure own) {
  if (own.result == sparsecollOutOfMemory) own.result = sparsecollPeerFailed;
  return own;
}

std::vector<std::byte> writeVerdict(const Failure& failure) {
  Writer writer;
  writer.write(static_cast<int32_t>(failure.result));
  writer.write(static_cast<int32_t>(failure.peer));
  const std::string_view parts[] = {failure.field.c_str(), failure.text.c_str()};
  for (const std::string_view part : parts) {
    writer.write(static_cast<uint16_t>(part.size()));
    writer.append(part.data(), part.size());
  }
  return writer.bytes();
}

Result<Failure> readVerdict(Bytes payload) {
  Reader reader(payload);
  Failure failure;
  SC_TRY(const auto result, reader.read<int32_t>());
  SC_TRY(const auto peer, reader.read<int32_t>());
  if (result < 0 || result > sparsecollAuthFailed) return fail(sparsecollCorrupted, "a verdict of result {}", result);
  failure.result = static_cast<sparsecollResult_t>(result);
  failure.peer = peer;
  SC_TRY(const auto fieldBytes, reader.read<uint16_t>());
  SC_TRY(const Bytes field, reader.take(fieldBytes));
  SC_TRY(const auto textBytes, reader.read<uint16_t>());
  SC_TRY(const Bytes text, reader.take(textBytes));
  failure.field = std::string_view(reinterpret_cast<const char*>(field.data()), field.size());
  failure.text = std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
  return failure;
}

namespace {

Result<std::unique_ptr<Exchange>> asHub(Fd listener, const Identity& self, const Address& at,
                                        const Deadline& deadline) {
  auto hub = std::make_unique<StarHub>(Lobby(std::move(listener), self), at, self.ranks);
  SC_TRY(hub->gather(deadline));
  return std::unique_ptr<Exchange>(std::move(hub));
}

Result<std::unique_ptr<Exchange>> asSpoke(Search search, const Identity& self, const Deadline& deadline) {
  auto spoke = std::make_unique<StarSpoke>(self.rank, self.ranks);
  SC_TRY(spoke->join(std::move(search), deadline));
  return std::unique_ptr<Exchange>(std::move(spoke));
}

}  // namespace

Result<std::unique_ptr<Exchange>> meet(const Invitation& invitation, int rank, int ranks, const Deadline& deadline,
                                       const std::function<bool()>& withdrawn) {
  SC_TRY(cryptoReady());
  const Identity self{invitation.key, invitation.job, Purpose::kRendezvous, rank, ranks};
  if (rank != 0) {
    if (invitation.address.isLoopback() && invitation.host != hostId())
      return fail(sparsecollInvalidUsage,
                  "the unique id is for ranks on one host, and not this one: name an interface where it is made "
                  "(config.interfaceName or SPARSECOLL_INTERFACE)");
    SC_TRY(useOnce(invitation, rank));
    const Address only = invitation.address;
    Search search(self, only.text().c_str(), [only, withdrawn]() -> Result<std::vector<Address>> {
      if (withdrawn()) return fail(sparsecollInvalidUsage, "the unique id is of ranks that have started again since");
      return std::vector<Address>{only};
    });
    return asSpoke(std::move(search), self, deadline);
  }
  SC_TRY(Claimed claimed, claim(invitation));
  SC_TRY(listen(claimed.port, kBacklog));
  return asHub(std::move(claimed.port), self, invitation.address, Deadline::earlier(deadline, claimed.expires));
}

Result<std::unique_ptr<Exchange>> meetAt(const Place& place, const Key& key, const JobId& job, int rank, int ranks,
                                         const Deadline& deadline) {
  SC_TRY(cryptoReady());
  const Identity self{key, job, Purpose::kRendezvous, rank, ranks};
  if (rank != 0)
    return asSpoke(Search(self, place.text().c_str(), [place] { return addressesOf(place); }), self, deadline);
  SC_TRY(Fd listener, listenAt(place, kBacklog));
  SC_TRY(const Address at, localAddress(listener));
  return asHub(std::move(listener), self, at, deadline);
}

}  // namespace sparsecoll::bootstrap
