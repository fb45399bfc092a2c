#include "transports/bootstrap/control.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/bytes.h"
#include "core/poll.h"
#include "core/signals.h"

namespace sparsecoll::bootstrap {

using engine::PeerState;

namespace {

constexpr uint64_t kFarewellMs = 1000;  // for the last words to leave
constexpr size_t kMostLetters = 4096;
constexpr uint64_t kHearsayMs = 100;  // for what a peer said here to be heard, once its last message has come

std::array<std::byte, sizeof(int32_t)> asPayload(int rank) {
  return std::bit_cast<std::array<std::byte, sizeof(int32_t)>>(static_cast<int32_t>(rank));
}

}  // namespace

ControlTimes ControlTimes::of(uint64_t silenceMs) {
  return {std::clamp<uint64_t>(silenceMs / 10, 10, ControlTimes().heartbeatMs), silenceMs};
}

Result<std::shared_ptr<Control>> Control::make(Mesh mesh, const ControlTimes& times) {
  std::shared_ptr<Control> made(new Control(std::move(mesh), times));
  SC_TRY(made->wakeUp_, WakeUp::make());
  const WithoutSignals blocked;
  made->thread_ = std::thread([raw = made.get()] { raw->serveOrGiveUp(); });
  return made;
}

Control::Control(Mesh mesh, const ControlTimes& times)
    : times_(times),
      process_(getpid()),
      states_(static_cast<size_t>(mesh.ranks)),
      left_(states_.size()),
      ended_(states_.size()),
      mesh_(std::move(mesh)),
      peers_(states_.size()) {
  const auto now = Clock::now();
  for (Peer& peer : peers_) peer.heard = now;
}

Control::~Control() {
  if (!thread_.joinable()) return;
  if (forked()) {
    // The thread lives in the other process, and so does the right to speak.
    thread_.detach();
    return;
  }
  announce(false);
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wakeUp_.wake();
  thread_.join();
}

Reason Control::reasonOf(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<size_t>(peer)].reason;
}

uint64_t Control::missedBeatsOf(int peer) const {
  const std::lock_guard lock(mutex_);
  const auto silent = Clock::now() - peers_[static_cast<size_t>(peer)].heard;
  return static_cast<uint64_t>(silent / std::chrono::milliseconds(times_.heartbeatMs));
}

int Control::blameOf(int peer) const {
  const std::lock_guard lock(mutex_);
  const int blamed = peers_[static_cast<size_t>(peer)].blamed;
  return blamed >= 0 ? blamed : peer;
}

Status Control::goneRank() const {
  if (forked()) return {};
  const std::lock_guard lock(mutex_);
  Status found;
  for (int peer = 0; peer < ranks(); ++peer) {
    const Peer& one = peers_[static_cast<size_t>(peer)];
    const PeerState state = stateOf(peer);
    if (state == PeerState::kLost) return failBy(peer, sparsecollPeerFailed, "{}", one.reason);
    if (state == PeerState::kLeft && found.ok()) found = failBy(peer, sparsecollSuccess, "{}", one.reason);
    if (state != PeerState::kAborted || found.result() == sparsecollPeerFailed) continue;
    const bool ended = one.blamed >= 0 || gone(peer);
    if (found.ok() || ended)
      found = failBy(one.blamed >= 0 ? one.blamed : peer, ended ? sparsecollPeerFailed : sparsecollAborted, "{}",
                     one.reason);
  }
  return found;
}

void Control::listenTo(int peer) {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  try {
    hear(static_cast<size_t>(peer));
  } catch (const std::bad_alloc&) {
    link(static_cast<size_t>(peer)).close();  // the thread that watches finds it so
    wakeUp_.wake();
  }
  if (stateOf(peer) != PeerState::kHere) wakeUp_.wake();
  changed_.wake();
}

void Control::blame(int peer) {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  blamed_ = peer;
}

void Control::announce(bool aborted) {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  if (toldLeave_ || (aborted && toldAbort_)) return;
  if (aborted)
    toldAbort_.store(true, std::memory_order_release);
  else
    toldLeave_ = true;
  int blamed = blamed_;
  for (size_t peer = 0; aborted && blamed < 0 && peer < peers_.size(); ++peer)
    if (stateOf(static_cast<int>(peer)) == PeerState::kLost) blamed = static_cast<int>(peer);
  for (size_t peer = 0; aborted && blamed < 0 && peer < peers_.size(); ++peer)
    if (stateOf(static_cast<int>(peer)) == PeerState::kAborted) blamed = peers_[peer].blamed;
  if (aborted)
    tellAll(FrameType::kAborted, asPayload(blamed));
  else
    tellAll(FrameType::kLeft, {});
  wakeUp_.wake();
}

bool Control::gone(int peer) const { return !mesh_.links[static_cast<size_t>(peer)].open(); }

bool Control::reaches(int peer) const {
  if (forked()) return false;  // before the lock, which the other process may have held when it forked
  const std::lock_guard lock(mutex_);
  return !gone(peer);
}

void Control::write(int peer, FrameType type, Bytes payload) {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  link(static_cast<size_t>(peer)).send(type, payload);
  wakeUp_.wake();
}

void Control::tellAll(FrameType type, Bytes payload) {
  for (Link& one : mesh_.links) one.send(type, payload);
}

// Nobody above this thread catches anything. A rank that cannot watch its peers any more has lost them, and they it.
void Control::serveOrGiveUp() {
  try {
    serve();
  } catch (const std::exception& thrown) {
    const Reason reason = Reason::format("this rank cannot watch it any more: {}", thrown.what());
    const std::lock_guard lock(mutex_);
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      link(peer).close();
      if (static_cast<int>(peer) != mesh_.rank) set(peer, PeerState::kLost, reason, -1);
    }
    changed_.wake();
  }
}

void Control::serve() {
  std::vector<pollfd> watched;
  bool stops = false;
  Deadline farewell = Deadline::in(SPARSECOLL_NO_TIMEOUT);
  for (;;) {
    const Deadline next = attend();
    watched.assign(1, {wakeUp_.fd(), POLLIN, 0});
    bool pending = false;
    {
      const std::lock_guard lock(mutex_);
      for (const Link& one : mesh_.links)
        if (one.open()) watched.push_back(one.watch());
      for (const Link& one : mesh_.links) pending = pending || (one.open() && one.pending());
      if (stops_ && !stops) farewell = Deadline::in(kFarewellMs);
      stops = stops_;
    }
    if (stops && (!pending || farewell.expired())) return;
    (void)awaitAny(watched, Deadline::earlier(next, farewell));
  }
}

// One round of duties; returns by when the next one is due.
Deadline Control::attend() {
  wakeUp_.clear();
  const std::lock_guard lock(mutex_);
  for (size_t peer = 0; peer < peers_.size(); ++peer) hear(peer);
  const auto silent = Clock::now() - std::chrono::milliseconds(times_.silenceMs);
  for (size_t peer = 0; peer < peers_.size(); ++peer)
    if (link(peer).open() && peers_[peer].heard < silent)
      lose(peer, Reason::format("rank {} has been silent for {} ms", peer, times_.silenceMs));
  if (beat_.expired()) {
    for (Link& one : mesh_.links)
      if (!one.pending()) one.send(FrameType::kHeartbeat, {});
    beat_ = Deadline::in(times_.heartbeatMs);
  }
  for (Link& one : mesh_.links) one.flush();
  loseClosed();
  changed_.wake();
  return beat_;
}

void Control::hear(size_t peer) {
  Link& from = link(peer);
  if (!from.open()) return;
  const Status status = from.receive([&](FrameType type, Bytes payload) {
    peers_[peer].heard = Clock::now();
    return onFrame(peer, type, payload);
  });
  if (!status.ok()) return lose(peer, Reason::format("rank {}: {}", peer, status.failure().text));
  if (from.closed()) lose(peer, Reason::format("rank {} closed its connection: its process has ended", peer));
}

// A frame that finds no memory closes the connection on this side, where nothing more comes to tell of it. What is told
// of one loss may close the next.
void Control::loseClosed() {
  for (size_t peer = 0; peer < peers_.size();) {
    const int rank = static_cast<int>(peer);
    const bool closed = rank != mesh_.rank && !link(peer).open() && stateOf(rank) == PeerState::kHere;
    if (closed) lose(peer, Reason::format("no memory for a word to rank {}", peer));
    peer = closed ? 0 : peer + 1;
  }
}

Status Control::onFrame(size_t peer, FrameType type, Bytes payload) {
  if (type == FrameType::kHeartbeat) return {};
  if (type == FrameType::kView || type == FrameType::kPart) {
    if (peers_[peer].mail.size() >= kMostLetters) return fail(sparsecollCorrupted, "letters that nobody reads");
    peers_[peer].mail.push_back({type, {payload.begin(), payload.end()}});
    return {};
  }
  if (type == FrameType::kLeft) {
    left_[peer].store(true, std::memory_order_release);
    set(peer, PeerState::kLeft, Reason::format("rank {} destroyed its communicator", peer), -1);
    return {};
  }
  Reader reader(payload);
  SC_TRY(const auto about, reader.read<int32_t>());
  if (about < -1 || about >= mesh_.ranks) return fail(sparsecollCorrupted, "it speaks of rank {}", about);
  if (type == FrameType::kAborted) {
    const bool other = about >= 0 && about != static_cast<int>(peer);
    set(peer, PeerState::kAborted,
        other ? Reason::format("rank {} gave up because of rank {}", peer, about)
              : Reason::format("rank {} aborted its communicator", peer),
        other && about != mesh_.rank ? about : -1);
    return {};
  }
  if (type != FrameType::kLost || about < 0) return fail(sparsecollCorrupted, "a frame of no use here");
  if (about == mesh_.rank) return fail(sparsecollCorrupted, "it has lost this rank");
  const auto lost = static_cast<size_t>(about);
  // Its own connection may still stand, as the one to a host that is cut off from some only.
  set(lost, PeerState::kLost, Reason::format("rank {} has lost rank {}", peer, about), -1);
  return {};
}

bool Control::set(size_t peer, PeerState state, const Reason& reason, int blamed) {
  if (stateOf(static_cast<int>(peer)) != PeerState::kHere) return false;
  peers_[peer].reason = reason;
  peers_[peer].blamed = blamed;
  states_[peer].store(static_cast<int>(state), std::memory_order_release);
  return true;
}

void Control::lose(size_t peer, const Reason& reason) {
  link(peer).close();
  ended_[peer].store(true, std::memory_order_release);
  if (set(peer, PeerState::kLost, reason, -1)) tellAll(FrameType::kLost, asPayload(static_cast<int>(peer)));
}

int Watch::blameOf(int peer) const {
  for (const Deadline deadline = Deadline::in(kHearsayMs);; pause(deadline)) {
    control_->listenTo(peer);
    if (control_->stateOf(peer) != PeerState::kHere || deadline.expired()) return control_->blameOf(peer);
  }
}

}  // namespace sparsecoll::bootstrap
