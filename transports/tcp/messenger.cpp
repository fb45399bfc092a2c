// Messages over sockets. Nothing moves but inside progress, and where a message is posted that can leave at once: on
// the thread of whoever calls, which never waits there longer than a moment.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/events.h"
#include "transports/tcp.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/room.h"

namespace sparsecoll::tcp {

namespace {

constexpr int kVersion = 2;
constexpr int kFailed = 1;
constexpr uint64_t kStuckMs = 1000;  // hosts that take nothing of the last messages for so long never will

// Looks in vain come at once, for a while; then this thread sleeps until something comes.
constexpr uint32_t kSleepAfter = 32;
constexpr uint64_t kSleepMs = 1;
// To be woken takes as long as a short message between hosts. So a rank whose peers are all on others, and which sends
// no more than so many bytes in a round, does not sleep at first (docs/decisions/0069).
constexpr uint64_t kShort = 128u << 10;
constexpr std::chrono::microseconds kAlert{500};
constexpr int kMostTurns = 64;  // in one call, while a long message is coming
constexpr size_t kMostEvents = 64;

class TcpMessenger final : public engine::Messenger {
 public:
  TcpMessenger() = default;
  ~TcpMessenger() override {
    // In a forked process the connections are the parent's: there only the copies of their descriptors are closed.
    if (getpid() == process_) awaitDelivery();
  }
  TcpMessenger(const TcpMessenger&) = delete;
  TcpMessenger& operator=(const TcpMessenger&) = delete;

  Status open() {
    poll_ = bootstrap::Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!poll_.open()) return fail(sparsecollSystemError, "epoll_create1: {}", std::strerror(errno));
    return {};
  }

  Status connect(bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, const Deadline& deadline) override {
    SC_TRY(std::vector<bootstrap::Fd> sockets, bootstrap::makeDataConnections(exchange, mesh, deadline));
    peers_.resize(sockets.size());
    pending_.reserve(sockets.size());
    for (size_t rank = 0; rank < sockets.size(); ++rank) {
      if (!sockets[rank].open()) continue;
      Peer& peer = peers_[rank];
      peer.connection = std::make_unique<Connection>(std::move(sockets[rank]), tally_);
      epoll_event wanted = eventOf(rank);
      if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, peer.connection->fd(), &wanted) != 0)
        return fail(sparsecollSystemError, "epoll_ctl: {}", std::strerror(errno));
      peer.watched = wanted.events;
      if (room_.add(peer.connection->fd()))
        peer.connection->setLeavesHost();
      else
        alone_ = false;
    }
    makeRequests(std::min(kMostAtFirst, kRequestsPerPeer * sockets.size()));
    return {};
  }

  void wakeFor(std::shared_ptr<const engine::Pace> pace) override { pace_ = std::move(pace); }
  void keepAwake(std::shared_ptr<const std::atomic<bool>> awake) override { awake_ = std::move(awake); }

  engine::MessengerCalls calls() const override {
    return {
        .move = [](void* request, std::byte* to) { static_cast<Request*>(request)->data = to; },
        .hasBegun = [](const void* request) { return static_cast<const Request*>(request)->begun(); },
        .leavesHost =
            [](const void* user, int peer) {
              return static_cast<const TcpMessenger*>(user)->peers_[static_cast<size_t>(peer)].connection->leavesHost();
            },
        .expect = [](void* user, uint64_t bytes, size_t frames) { self(user).expect(bytes, frames); },
        .joinNext = [](void* user) { self(user).joinsNext_ = true; },
        .sleeps = true,
        .closeBy = [](void* user, const Deadline& latest) { self(user).latest_ = latest; }};
  }

  sparsecollEngine_t table() override {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
      return self(user).post({.tag = static_cast<uint16_t>(tag), .peer = peer, .bytes = bytes}, data, request);
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t capacity, void** request) {
      const Request made{.receives = true, .tag = static_cast<uint16_t>(tag), .peer = peer, .bytes = capacity};
      return self(user).post(made, data, request);
    };
    table.test = [](void* user, void** request, int* done, size_t* bytes) {
      return self(user).test(request, done, bytes);
    };
    table.cancel = [](void* user, void** request) { return self(user).cancel(request); };
    table.progress = [](void* user) { return self(user).progress(); };
    table.release = [](void* user) { delete &self(user); };
    return table;
  }

 private:
  struct Peer {
    std::unique_ptr<Connection> connection;  // nullptr: this rank itself
    uint32_t watched = 0;                    // what its socket is watched for
    bool pending = false;                    // is in pending_
  };

  using Time = engine::Pace::Time;

  static TcpMessenger& self(void* user) { return *static_cast<TcpMessenger*>(user); }

  epoll_event eventOf(size_t rank) const {
    epoll_event event{};
    event.events = peers_[rank].connection->interest();
    event.data.u64 = rank;
    return event;
  }

  // So that an operation which has begun takes no memory: what a dense sum has under way with a peer, and envelopes.
  static constexpr size_t kRequestsPerPeer = 26;
  static constexpr size_t kMostAtFirst = 4096;

  void makeRequests(size_t count) {
    all_.reserve(all_.size() + count);
    free_.reserve(all_.capacity());
    for (size_t made = 0; made < count; ++made) {
      all_.push_back(std::make_unique<Request>());
      free_.push_back(all_.back().get());
    }
  }

  Request* take() {
    if (free_.empty()) makeRequests(std::max<size_t>(all_.size(), 1));
    Request* const request = free_.back();
    free_.pop_back();
    return request;
  }

  int post(const Request& wanted, const void* data, void** out) {
    Peer& peer = peers_[static_cast<size_t>(wanted.peer)];
    const bool waits = !wanted.receives && std::exchange(joinsNext_, false);
    if (!peer.connection->open() || (!wanted.receives && peer.connection->mute())) return kFailed;
    Request* const request = take();
    *request = wanted;
    request->data = static_cast<std::byte*>(const_cast<void*>(data));  // a send's is only read
    peer.connection->post(*request);
    *out = request;
    if (wanted.receives) watch(wanted.peer);  // a frame's place lets more come
    // A grant alone can wait for what is sent next.
    if (!wanted.receives && !waits && !peer.connection->full()) write(wanted.peer);
    note(wanted.peer);
    return 0;
  }

  void expect(uint64_t bytes, size_t frames) {
    if (alone_ && pace_ == nullptr) alertUntil_ = bytes <= kShort ? std::chrono::steady_clock::now() + kAlert : Time{};
    if (!room_.limits() || bytes == 0) return;
    uint64_t leaving = 0;  // of rounds before
    for (const Peer& peer : peers_)
      if (peer.connection != nullptr && peer.connection->leavesHost()) leaving += peer.connection->underWay();
    if (room_.expect(leaving, bytes, alone_ ? frames : 0)) forgetDrains();
  }
  void forgetDrains() {
    tally_.drains.clear();
    for (const Peer& peer : peers_)
      if (peer.connection != nullptr) peer.connection->forgetDrain();
  }

  // What a connection could not send yet is sent in progress.
  void note(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.pending || !peer.connection->hasOutput()) return;
    peer.pending = true;
    pending_.push_back(rank);
  }

  int test(void** out, int* done, size_t* bytes) {
    auto* const request = static_cast<Request*>(*out);
    *done = request->ended() ? 1 : 0;
    *bytes = request->receives ? request->moved : 0;
    if (*done == 0) return 0;
    const bool good = request->state == Request::State::kDone || request->cancelled;
    free_.push_back(request);
    return good ? 0 : kFailed;
  }

  int cancel(void** out) {
    auto* const request = static_cast<Request*>(*out);
    if (request->ended()) return 0;
    Peer& peer = peers_[static_cast<size_t>(request->peer)];
    peer.connection->cancel(*request);
    watch(request->peer);
    return 0;
  }

  bool write(int rank) {
    const bool moved = peers_[static_cast<size_t>(rank)].connection->write();
    watch(rank);
    return moved;
  }

  // A connection has moved, or ended: its socket may be watched for something else now.
  void watch(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (!peer.connection->open()) return forget(*peer.connection);
    epoll_event wanted = eventOf(static_cast<size_t>(rank));
    if (wanted.events == peer.watched) return;
    // What is watched for nothing would still be told of its end, again and again.
    const int change = peer.watched == 0 ? EPOLL_CTL_ADD : wanted.events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(poll_.get(), change, peer.connection->fd(), &wanted) == 0) peer.watched = wanted.events;
  }
  void forget(const Connection& connection) { (void)epoll_ctl(poll_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr); }

  bool writePending() {
    bool moved = false;
    for (const int rank : pending_) {
      Peer& peer = peers_[static_cast<size_t>(rank)];
      peer.pending = false;
      if (peer.connection->open() && !peer.connection->full()) moved = write(rank) || moved;
    }
    pending_.clear();
    return moved;
  }

  // Sleeps until something comes; how long epoll is to sleep then. Its milliseconds would end too late for what this
  // rank is to send at a rate.
  uint64_t sleepMs() const {
    if (pace_ == nullptr) return kSleepMs;
    const std::chrono::nanoseconds untilDue = pace_->due() - std::chrono::steady_clock::now();
    awaitAnyEvent(poll_.get(), std::min<std::chrono::nanoseconds>(untilDue, std::chrono::milliseconds(kSleepMs)));
    return 0;
  }

  // Whether anything came or left.
  bool serve(bool sleeps) {
    std::array<epoll_event, kMostEvents> events;
    const size_t count = awaitEvents(poll_.get(), events, Deadline::in(sleeps ? sleepMs() : 0));
    bool moved = false;
    for (const epoll_event& event : std::span(events).first(count)) {
      const auto rank = static_cast<int>(event.data.u64);
      Connection& connection = *peers_[event.data.u64].connection;
      moved = connection.read() || moved;
      if (connection.deaf() && (event.events & (EPOLLERR | EPOLLHUP)) != 0) connection.end();
      const bool writable = (event.events & EPOLLOUT) != 0 || !connection.full();
      if (writable && connection.hasOutput()) moved = connection.write() || moved;
      watch(rank);
    }
    return moved;
  }

  // Looks again and again while it is alert, then sleeps. Ranks that share its processor go first: what they send
  // meanwhile is one look instead of several sleeps.
  bool wait() {
    for (; alertUntil_ != Time(); std::this_thread::yield()) {
      if (serve(false)) return true;
      if (std::chrono::steady_clock::now() >= alertUntil_) alertUntil_ = Time();
    }
    std::this_thread::yield();
    return serve(true);
  }

  int progress() {
    const uint64_t before = tally_.ended;
    if (room_.note(tally_.sent, tally_.drains)) forgetDrains();
    bool came = writePending();
    bool moved = came;
    const bool maySleep = awake_ == nullptr || !awake_->load(std::memory_order_relaxed);
    const Deadline soon = Deadline::in(kSleepMs);
    for (int turn = 0; turn < kMostTurns && tally_.ended == before; ++turn) {
      const bool waits = maySleep && !came && (idle_ >= kSleepAfter || tally_.halfway != 0);
      came = waits ? wait() : serve(false);
      moved = moved || came;
      if ((!came && (tally_.halfway == 0 || !maySleep)) || soon.expired()) break;
    }
    idle_ = moved || tally_.ended != before || !maySleep ? 0 : idle_ + 1;
    return 0;
  }

  // What was sent last may still stand in this host, which forgets it if a connection is closed before all that came on
  // it was read, or if anything comes later.
  void awaitDelivery() {
    const Deadline latest = Deadline::earlier(latest_, Deadline::in(engine::kMostCloseMs));
    Deadline deadline = Deadline::earlier(latest, Deadline::in(kStuckMs));
    for (uint64_t before = UINT64_MAX; !deadline.expired(); pause(deadline)) {
      uint64_t left = 0;
      for (const Peer& peer : peers_) left += peer.connection != nullptr ? peer.connection->undelivered() : 0;
      if (left == 0) return;
      if (left < before) deadline = Deadline::earlier(latest, Deadline::in(kStuckMs));
      before = left;
    }
  }

  Deadline latest_ = Deadline::in(SPARSECOLL_NO_TIMEOUT);  // for what was sent last to reach the peers' hosts
  const pid_t process_ = getpid();
  bootstrap::Fd poll_;
  std::shared_ptr<const engine::Pace> pace_;
  std::shared_ptr<const std::atomic<bool>> awake_;
  Tally tally_;
  Room room_;
  std::vector<Peer> peers_;   // by rank
  std::vector<int> pending_;  // with something to send; never more than there are ranks
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
  bool joinsNext_ = false;  // the next message that is sent leaves with the one after it
  uint32_t idle_ = 0;       // looks in vain
  bool alone_ = true;       // no peer is on this host
  Time alertUntil_{};       // no sleep before
};

}  // namespace

Result<int> version() {
  SC_TRY(bootstrap::cryptoReady());
  return kVersion;
}

Result<std::unique_ptr<engine::Messenger>> makeMessenger() {
  auto made = std::make_unique<TcpMessenger>();
  SC_TRY(made->open());
  return std::unique_ptr<engine::Messenger>(std::move(made));
}

}  // namespace sparsecoll::tcp
