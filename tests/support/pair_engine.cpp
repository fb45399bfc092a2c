#include "tests/support/pair_engine.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "tests/support/memory_exempt.h"

namespace sparsecoll::test {

namespace {

constexpr size_t kEager = 4096;   // longer messages are sent when the receiver has taken them
constexpr uint64_t kTaken = 255;  // the tag of what tells so

struct Header {
  uint64_t tag, bytes, id;
};

std::mutex misuseMutex;
std::string misuseText;

void misuse(const char* text) {
  const std::lock_guard lock(misuseMutex);
  if (misuseText.size() < 1000) misuseText += std::string(text) + "\n";
}

}  // namespace

std::string pairEngineMisuse() {
  const std::lock_guard lock(misuseMutex);
  return misuseText;
}

PairMesh::PairMesh(int ranks) : ranks_(ranks), sockets_(static_cast<size_t>(ranks)) {
  for (auto& sockets : sockets_) sockets.assign(static_cast<size_t>(ranks), -1);
  for (size_t a = 0; a < sockets_.size(); ++a)
    for (size_t b = a + 1; b < sockets_.size(); ++b) {
      int ends[2] = {-1, -1};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) misuse("no socket pair");
      sockets_[a][b] = ends[0];
      sockets_[b][a] = ends[1];
    }
}

PairMesh::~PairMesh() {
  for (const auto& sockets : sockets_)
    for (const int socket : sockets)
      if (socket >= 0) close(socket);
}

std::vector<int> PairMesh::takeSockets(int rank) {
  std::vector<int> taken(sockets_.size(), -1);
  taken.swap(sockets_[static_cast<size_t>(rank)]);
  return taken;
}

struct PairEngine::Request {
  enum Kind { kSend, kReceive } kind;
  Peer* peer;
  int tag;
  std::byte* data;
  size_t capacity;
  size_t received = 0;
  bool done = false, failed = false, cancelled = false;
  const std::byte* kept = nullptr;
  std::vector<std::byte> sent = {};  // what it was when it was sent: the caller's memory stays so until test says done
  int late = 0;
};

struct PairEngine::Message {
  int tag;
  uint64_t id;
  std::vector<std::byte> bytes;
};

struct PairEngine::Peer {
  int socket = -1;
  bool gone = false;
  struct Outgoing {
    Request* request;  // nullptr: cancelled, or none
    Header header;
    const std::byte* data;  // the library's, or own
    std::vector<std::byte> own;
    size_t written = 0;

    void copy() {
      if (own.empty() && header.bytes != 0) own.assign(data, data + header.bytes);
      data = own.data();
    }
  };
  std::deque<Outgoing> outgoing;
  std::map<uint64_t, Request*> notTaken;
  uint64_t lastId = 0;
  std::deque<Request*> receives;  // posted, in order
  std::deque<Message> unexpected;
  std::vector<std::byte> partial;
};

PairEngine::PairEngine(int rank, std::vector<int> sockets, Mischief* mischief) : rank_(rank), mischief_(mischief) {
  for (const int socket : sockets) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = socket;
  }
}

PairEngine::~PairEngine() {
  for (const auto& peer : peers_)
    if (peer->socket >= 0) close(peer->socket);
}

bool PairEngine::failsNow() {
  if (mischief_ == nullptr || mischief_->callsUntilFailure.load() < 0) return false;
  return mischief_->callsUntilFailure.fetch_sub(1) == 0;
}

void PairEngine::flush(Peer& peer) {
  while (!peer.outgoing.empty() && !peer.gone) {
    Peer::Outgoing& next = peer.outgoing.front();
    const bool inHeader = next.written < sizeof(Header);
    const std::byte* const from = inHeader ? reinterpret_cast<const std::byte*>(&next.header) + next.written
                                           : next.data + (next.written - sizeof(Header));
    const size_t end = inHeader ? sizeof(Header) : sizeof(Header) + next.header.bytes;
    const ssize_t n = end == next.written ? 0 : ::send(peer.socket, from, end - next.written, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) {
      peer.gone = true;
      break;
    }
    next.written += static_cast<size_t>(n);
    if (next.written < sizeof(Header) + next.header.bytes) continue;
    if (next.request != nullptr && next.header.id == 0) next.request->done = true;
    peer.outgoing.pop_front();
  }
  if (!peer.gone) return;
  for (const auto& message : peer.outgoing)
    if (message.request != nullptr) message.request->done = message.request->failed = true;
  peer.outgoing.clear();
  for (const auto& [id, request] : peer.notTaken) request->done = request->failed = true;
  peer.notTaken.clear();
}

void PairEngine::deliver(Peer& peer, Request& receive, uint64_t id, const std::byte* data, size_t bytes) {
  receive.done = true;
  receive.failed = bytes > receive.capacity;
  receive.received = std::min(bytes, receive.capacity);
  if (!receive.failed && bytes != 0) std::memcpy(receive.data, data, bytes);
  if (id == 0 || peer.gone) return;
  peer.outgoing.push_back({nullptr, {kTaken, 0, id}, nullptr, {}});
  flush(peer);
}

bool PairEngine::readSome(Peer& peer) {
  std::byte buffer[65536];
  const ssize_t n = ::recv(peer.socket, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n <= 0) {
    peer.gone = true;
    return false;
  }
  peer.partial.insert(peer.partial.end(), buffer, buffer + n);
  return true;
}

void PairEngine::drain(Peer& peer) {
  while (!peer.gone && readSome(peer)) continue;
  size_t at = 0;
  Header header;
  while (peer.partial.size() - at >= sizeof header) {
    std::memcpy(&header, peer.partial.data() + at, sizeof header);
    if (peer.partial.size() - at - sizeof header < header.bytes) break;
    const std::byte* const data = peer.partial.data() + at + sizeof header;
    at += sizeof header + header.bytes;
    if (header.tag == kTaken) {
      const auto taken = peer.notTaken.find(header.id);
      if (taken == peer.notTaken.end()) continue;
      taken->second->done = true;
      peer.notTaken.erase(taken);
      continue;
    }
    const auto match = std::find_if(peer.receives.begin(), peer.receives.end(),
                                    [&](const Request* one) { return one->tag == static_cast<int>(header.tag); });
    if (match == peer.receives.end()) {
      peer.unexpected.push_back({static_cast<int>(header.tag), header.id, {data, data + header.bytes}});
      continue;
    }
    Request& receive = **match;
    peer.receives.erase(match);
    deliver(peer, receive, header.id, data, header.bytes);
  }
  peer.partial.erase(peer.partial.begin(), peer.partial.begin() + static_cast<std::ptrdiff_t>(at));
  if (!peer.gone) return;
  for (Request* const receive : peer.receives) receive->done = receive->failed = true;
  peer.receives.clear();
}

struct PairEngine::Calls {
  // One call at a time.
  class Inside {
   public:
    explicit Inside(void* user) : engine(*static_cast<PairEngine*>(user)), lock_(engine.inside_, std::try_to_lock) {
      if (!lock_.owns_lock()) misuse("two calls at once");
    }
    PairEngine& engine;

   private:
    memory::Exempt exempt_;
    std::unique_lock<std::mutex> lock_;
  };

  static Peer* peerOf(PairEngine& engine, int peer, int tag, size_t bytes) {
    if (peer < 0 || peer >= static_cast<int>(engine.peers_.size()) || peer == engine.rank_) misuse("no such peer");
    if (tag < 0 || tag >= SPARSECOLL_ENGINE_TAGS) misuse("no such tag");
    if (bytes > SPARSECOLL_ENGINE_MESSAGE_BYTES) misuse("a message that is too long");
    return engine.peers_[static_cast<size_t>(peer)].get();
  }

  static int isend(void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
    const Inside inside(user);
    PairEngine& engine = inside.engine;
    Peer& to = *peerOf(engine, peer, tag, bytes);
    if (to.gone || engine.failsNow()) return 7;
    const auto* const from = static_cast<const std::byte*>(data);
    auto* const made = new Request{Request::kSend, &to, tag, nullptr, 0};
    made->kept = from;
    made->sent.assign(from, from + bytes);
    if (engine.mischief_ != nullptr && engine.mischief_->toldLate) made->late = engine.mischief_->toldLate(peer, tag);
    Peer::Outgoing message{made, {static_cast<uint64_t>(tag), bytes, 0}, from, {}};
    if (engine.mischief_ != nullptr && engine.mischief_->spoil) {
      message.copy();
      engine.mischief_->spoil(peer, tag, message.own);
      message.data = message.own.data();
      message.header.bytes = message.own.size();
    }
    if (bytes > kEager) {
      message.header.id = ++to.lastId;
      to.notTaken[message.header.id] = made;
    }
    to.outgoing.push_back(std::move(message));
    ++engine.requests_;
    *request = made;
    engine.flush(to);
    return 0;
  }

  static int irecv(void* user, int peer, int tag, void* data, size_t capacity, void** request) {
    const Inside inside(user);
    PairEngine& engine = inside.engine;
    Peer& from = *peerOf(engine, peer, tag, capacity);
    if (engine.failsNow()) return 7;
    auto* const made = new Request{Request::kReceive, &from, tag, static_cast<std::byte*>(data), capacity};
    *request = made;
    ++engine.requests_;
    const auto early = std::find_if(from.unexpected.begin(), from.unexpected.end(),
                                    [&](const Message& message) { return message.tag == tag; });
    if (early != from.unexpected.end()) {
      const Message message = std::move(*early);
      from.unexpected.erase(early);
      engine.deliver(from, *made, message.id, message.bytes.data(), message.bytes.size());
    } else if (from.gone) {
      made->done = made->failed = true;
    } else {
      from.receives.push_back(made);
    }
    return 0;
  }

  static int test(void* user, void** request, int* done, size_t* receivedBytes) {
    const Inside inside(user);
    PairEngine& engine = inside.engine;
    auto* const one = static_cast<Request*>(*request);
    if (one == nullptr) {
      misuse("a request that is done is tested");
      return 9;
    }
    if (!one->done) {
      engine.flush(*one->peer);
      engine.drain(*one->peer);
    }
    if (one->done && !one->failed && !one->cancelled && one->late-- > 0) {
      *done = 0;
      return 0;
    }
    *done = one->done ? 1 : 0;
    if (one->done && !one->failed && !one->cancelled && !std::equal(one->sent.begin(), one->sent.end(), one->kept))
      misuse("a message was changed while it was sent");
    const bool failed = one->failed || engine.failsNow();
    if (failed && !one->done) engine.forget(*one);
    if (!one->done && !failed) return 0;
    *receivedBytes = one->received;
    delete one;
    *request = nullptr;
    --engine.requests_;
    return failed ? 7 : 0;
  }

  static int cancel(void* user, void** request) {
    const Inside inside(user);
    auto* const one = static_cast<Request*>(*request);
    if (!one->done) inside.engine.forget(*one);
    one->done = one->cancelled = true;
    return 0;
  }

  static int progress(void* user) {
    const Inside inside(user);
    for (const auto& peer : inside.engine.peers_) {
      if (peer->socket < 0) continue;
      inside.engine.flush(*peer);
      inside.engine.drain(*peer);
    }
    return 0;
  }

  static void release(void* user) {
    const memory::Exempt exempt;
    auto* const engine = static_cast<PairEngine*>(user);
    if (engine->requests_ != 0) misuse("requests are left at release");
    delete engine;
  }
};

// No memory of the caller's is used for the request any more.
void PairEngine::forget(Request& request) {
  for (Peer::Outgoing& message : request.peer->outgoing)
    if (message.request == &request) {
      message.copy();
      message.request = nullptr;
    }
  std::erase_if(request.peer->notTaken, [&](const auto& one) { return one.second == &request; });
  std::erase(request.peer->receives, &request);
}

sparsecollEngine_t PairEngine::table() {
  sparsecollEngine_t table = SPARSECOLL_INIT(sparsecollEngine_t);
  table.user = this;
  table.isend = Calls::isend;
  table.irecv = Calls::irecv;
  table.test = Calls::test;
  table.cancel = Calls::cancel;
  table.progress = Calls::progress;
  table.release = Calls::release;
  return table;
}

namespace {

// make(rank, comm): a rank's result.
template <class Make>
sparsecollResult_t makeOnThreads(sparsecollComm_t* comms, int ranks, Make make) {
  std::vector<sparsecollResult_t> results(static_cast<size_t>(ranks), sparsecollInternalError);
  std::vector<sparsecollComm_t> made(results.size(), nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank, r = static_cast<size_t>(rank)] { results[r] = make(rank, &made[r]); });
  for (std::thread& thread : threads) thread.join();
  const auto bad = std::find_if(results.begin(), results.end(), [](auto one) { return one != sparsecollSuccess; });
  if (bad == results.end()) {
    std::copy(made.begin(), made.end(), comms);
    return sparsecollSuccess;
  }
  const sparsecollResult_t result = *bad;
  for (const sparsecollComm_t comm : made) (void)sparsecollCommDestroy(comm);
  return result;
}

}  // namespace

sparsecollResult_t makeOverPairs(sparsecollComm_t* comms, int ranks, const sparsecollConfig_t* config,
                                 Mischief* mischief, const int* devices) {
  setenv("SPARSECOLL_SHARED_MEMORY", "0", 0);  // its messages are what tests want, unless they say otherwise
  if (ranks < 1) return sparsecollInvalidArgument;
  PairMesh mesh(ranks);
  std::vector<std::vector<int>> sockets;
  for (int rank = 0; rank < ranks; ++rank) sockets.push_back(mesh.takeSockets(rank));
  return makeOnThreads(comms, ranks, [&](int rank, sparsecollComm_t* comm) {
    auto engine = std::make_unique<PairEngine>(rank, std::move(sockets[static_cast<size_t>(rank)]), mischief);
    const sparsecollEngine_t table = engine->table();
    const int device = devices != nullptr ? devices[rank] : -1;
    const sparsecollResult_t result = sparsecollCommInitEngine(comm, ranks, rank, device, &table, config);
    if (result == sparsecollSuccess) (void)engine.release();
    return result;
  });
}

sparsecollResult_t makeOverMessages(sparsecollComm_t* comms, int ranks, const sparsecollConfig_t* config,
                                    const int* devices) {
  if (std::getenv("SPARSECOLL_TEST_TCP") == nullptr) return makeOverPairs(comms, ranks, config, nullptr, devices);
  sparsecollConfig_t own = SPARSECOLL_INIT(sparsecollConfig_t);
  if (config != nullptr) own = *config;
  own.transport = sparsecollTransportTcp;
  sparsecollUniqueId_t id{};
  if (const sparsecollResult_t result = sparsecollGetUniqueId(&id, &own); result != sparsecollSuccess) return result;
  return makeOnThreads(comms, ranks, [&](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitRank(comm, ranks, &id, rank, devices != nullptr ? devices[rank] : -1, &own);
  });
}

}  // namespace sparsecoll::test
