// The ranks of a communicator watch each other over one small connection a pair: a closed socket tells of a death at
// once, heartbeats that stop tell of a host or a link. One thread of the library's waits for all of them; it takes no
// lock of a communicator's and never waits for a rank. UCX 1.13 cannot do this: it reports a dead peer only in an error
// mode that rules out shared memory, even then a receive from it never ends, and it notices no stopped process or cut
// link. The price is P - 1 sockets a rank, hence at most 256 ranks.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transports/bootstrap/mesh.h"
#include "transports/engine/peer_watch.h"

namespace sparsecoll::bootstrap {

struct ControlTimes {
  uint64_t heartbeatMs = 500;
  uint64_t silenceMs = 30000;  // so long without a word, and a rank is lost

  // With heartbeats as frequent as that needs.
  static ControlTimes of(uint64_t silenceMs);
};

using Reason = Text<256>;

struct Letter {
  FrameType type = FrameType::kView;
  std::vector<std::byte> payload;
};

class Control {
 public:
  static Result<std::shared_ptr<Control>> make(Mesh mesh, const ControlTimes& times);
  // Says that this rank leaves.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int rank() const { return mesh_.rank; }
  int ranks() const { return mesh_.ranks; }
  const Key& key() const { return mesh_.key; }
  const Address& at() const { return mesh_.at; }
  const Parts& cards() const { return mesh_.cards; }

  engine::PeerState stateOf(int peer) const {
    return static_cast<engine::PeerState>(states_[static_cast<size_t>(peer)].load(std::memory_order_acquire));
  }
  // Whether it has destroyed its communicator, and whether its connection has ended, whatever its state was before.
  bool hasLeft(int peer) const { return left_[static_cast<size_t>(peer)].load(std::memory_order_acquire); }
  bool hasEnded(int peer) const { return ended_[static_cast<size_t>(peer)].load(std::memory_order_acquire); }
  Reason reasonOf(int peer) const;
  // Since its last word.
  uint64_t missedBeatsOf(int peer) const;
  // Hears on this thread what has come from a peer: the thread that watches may not have had its turn since.
  void listenTo(int peer);
  // One of the peers that are gone: PeerFailed by a rank whose process has ended, or that has made others give up, else
  // Aborted by one that has given up and is still there, else Success by one that has left. Does not wait. Any thread.
  Status goneRank() const;
  // The rank that a peer's end is to be blamed on: itself, or the one whose end made it give up.
  int blameOf(int peer) const;
  // Blames its end, if that is an abort, on whom blame() named last, else on who ended first; if nobody did, on itself.
  // Who has aborted may still leave. Does not wait. Any thread.
  void announce(bool aborted);
  bool hasAborted() const { return toldAbort_.load(std::memory_order_acquire); }
  void blame(int peer);
  // Whether this process was forked from the one that made it: then nothing here works.
  bool forked() const { return getpid() != process_; }

  // For ranks that agree on something without the communicator's network. Whether a peer can still be written to and
  // heard; what came from it, letter by letter.
  bool reaches(int peer) const;
  void write(int peer, FrameType type, Bytes payload);
  // Waits until done() holds, which looks at mail(); false at the deadline. done() holds mail's lock.
  template <class Done>
  bool await(const Deadline& deadline, Done done) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, deadline, done);
  }
  std::deque<Letter>& mail(int peer) { return peers_[static_cast<size_t>(peer)].mail; }
  bool gone(int peer) const;  // inside of done()

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Reason reason;
    int blamed = -1;
    Clock::time_point heard;
    std::deque<Letter> mail;
  };

  Control(Mesh mesh, const ControlTimes& times);
  void serveOrGiveUp();
  void serve();
  Deadline attend();
  void hear(size_t peer);
  void loseClosed();
  Status onFrame(size_t peer, FrameType type, Bytes payload);
  void lose(size_t peer, const Reason& reason);
  bool set(size_t peer, engine::PeerState state, const Reason& reason, int blamed);
  void tellAll(FrameType type, Bytes payload);
  Link& link(size_t peer) { return mesh_.links[peer]; }

  const ControlTimes times_;
  const pid_t process_;
  std::vector<std::atomic<int>> states_;  // by rank
  std::vector<std::atomic<bool>> left_, ended_;
  WakeUp wakeUp_;
  mutable std::mutex mutex_;  // guards what follows
  WaitPoint changed_;
  Mesh mesh_;
  std::vector<Peer> peers_;
  int blamed_ = -1;
  std::atomic<bool> toldAbort_{false};  // read without the mutex
  bool toldLeave_ = false;
  bool stops_ = false;
  Deadline beat_ = Deadline::in(0);
  std::thread thread_;
};

// A communicator's view of it.
class Watch final : public engine::PeerWatch {
 public:
  explicit Watch(std::shared_ptr<Control> control) : control_(std::move(control)) {}
  engine::PeerState stateOf(int peer) const override { return control_->stateOf(peer); }
  std::string reasonOf(int peer) const override { return control_->reasonOf(peer).c_str(); }
  uint64_t missedBeatsOf(int peer) const override { return control_->missedBeatsOf(peer); }
  int blameOf(int peer) const override;
  void blame(int peer) override { control_->blame(peer); }
  void announce(bool aborted) override { control_->announce(aborted); }

 private:
  const std::shared_ptr<Control> control_;
};

}  // namespace sparsecoll::bootstrap
