// A message engine of the tests' own: a pair of Unix sockets between every two ranks, for threads of one process or for
// processes. What a test wants to go wrong it says in Mischief.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sparsecoll::test {

// The sockets of all ranks; a rank's are taken out by its engine.
class PairMesh {
 public:
  explicit PairMesh(int ranks);
  ~PairMesh();
  PairMesh(const PairMesh&) = delete;
  PairMesh& operator=(const PairMesh&) = delete;

  int ranks() const { return ranks_; }
  // By peer; the own rank's is -1.
  std::vector<int> takeSockets(int rank);

 private:
  int ranks_;
  std::vector<std::vector<int>> sockets_;
};

struct Mischief {
  // Called with every message that is sent, as it will arrive.
  std::function<void(int peer, int tag, std::vector<std::byte>& bytes)> spoil;
  // How many more calls of test find this send under way once it is done; 0 where there is none.
  std::function<int(int peer, int tag)> toldLate;
  // Counts down with every call of isend, irecv and test; at 0 that call returns 7. Negative: never.
  std::atomic<int64_t> callsUntilFailure{-1};
};

// What the engine found the library do wrong, in all engines of the process. "" if nothing.
std::string pairEngineMisuse();

// Requests on one rank. The table's release deletes it.
class PairEngine {
 public:
  PairEngine(int rank, std::vector<int> sockets, Mischief* mischief = nullptr);
  ~PairEngine();
  PairEngine(const PairEngine&) = delete;
  PairEngine& operator=(const PairEngine&) = delete;

  sparsecollEngine_t table();

 private:
  struct Request;
  struct Message;
  struct Peer;
  struct Calls;
  friend struct Calls;

  bool failsNow();
  void forget(Request& request);
  void flush(Peer& peer);
  void drain(Peer& peer);
  void deliver(Peer& peer, Request& receive, uint64_t id, const std::byte* data, size_t bytes);
  bool readSome(Peer& peer);

  const int rank_;
  Mischief* const mischief_;
  std::vector<std::unique_ptr<Peer>> peers_;
  size_t requests_ = 0;  // that were not told to be done
  std::mutex inside_;    // held by whoever is in a call: there may be one
};

// Communicators of all ranks in this process over a new mesh, made on a thread each. devices: where each has its
// vectors; nullptr: in host memory. The first result that is no success.
sparsecollResult_t makeOverPairs(sparsecollComm_t* comms, int ranks, const sparsecollConfig_t* config,
                                 Mischief* mischief = nullptr, const int* devices = nullptr);
// The same; with SPARSECOLL_TEST_TCP in the environment over the library's TCP engine, by an id.
sparsecollResult_t makeOverMessages(sparsecollComm_t* comms, int ranks, const sparsecollConfig_t* config,
                                    const int* devices = nullptr);

}  // namespace sparsecoll::test
