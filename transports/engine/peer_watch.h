// What an engine knows about the other ranks besides their messages: whether they are there. Engines that cannot know
// come without one; then a rank that is lost shows as a Timeout.
#pragma once

#include <string>

namespace sparsecoll::engine {

enum class PeerState {
  kHere,
  kLeft,     // destroyed its communicator; what it sent before still comes
  kAborted,  // gave the communicator up
  kLost,     // its process or host is gone
};

class PeerWatch {
 public:
  virtual ~PeerWatch() = default;

  // Once not kHere, never kHere again. Does not wait. Any thread.
  virtual PeerState stateOf(int peer) const = 0;
  // For people, of a peer that is not kHere. Does not wait. Any thread.
  virtual std::string reasonOf(int peer) const = 0;
  // Signs of life that a peer owes this rank. Does not wait. Any thread.
  virtual uint64_t missedBeatsOf(int) const { return 0; }
  // Whose end a peer's is to be blamed on: its own, or another's that made it give up. Waits at most a moment, for a
  // peer that has just been heard of otherwise.
  virtual int blameOf(int peer) const { return peer; }
  // This rank is going to give up because of a peer. Announced when it does.
  virtual void blame(int) {}
  // Tells the peers that this rank has left, or aborted, after which it may still leave. Does not wait, may be called
  // several times. Any thread.
  virtual void announce(bool aborted) = 0;
};

}  // namespace sparsecoll::engine
