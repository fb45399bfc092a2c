// States of reducers, as ReducerImport and ReducerImportFrom take them.
#include <sparsecoll/sparsecoll.h>

#include <memory>
#include <thread>

#include "core/crc32c.h"
#include "tests/fuzz/target.h"

namespace sparsecoll::fuzz {

namespace {

constexpr int kRanks = 2;
constexpr uint64_t kLength = 100;

// One of each kind of state that a selection keeps.
struct Method {
  const char* preset;
  double momentum;
};
constexpr Method kMethods[] = {{"topka", 0},   {"micro", 0},       {"exdyna", 0},    {"oktopk", 0},
                               {"dgc", 0.9},   {"deft", 0},        {"sage", 0},      {"cltk", 0},
                               {"sidco-e", 0}, {"spardl-rsag", 0}, {"gaussiank", 0}, {"auto", 0}};

void check(sparsecollResult_t result, const char* what) {
  if (result == sparsecollSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, sparsecollGetLastError());
  std::abort();
}
#define CHECK_CALL(call) check(call, #call)

template <class Body>
void onEach(const Body& body) {
  std::thread other(body, 1);
  body(0);
  other.join();
}

// Two ranks with a reducer each, some steps old.
class Pair {
 public:
  explicit Pair(const Method& method) {
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.opTimeoutMs = 20000;
    CHECK_CALL(sparsecollCommInitAll(comms_, kRanks, nullptr, &config));
    onEach([&](int rank) {
      sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
      CHECK_CALL(sparsecollPreset(method.preset, &params));
      params.density = 0.05;
      if (method.momentum != 0) params.momentum = method.momentum;
      CHECK_CALL(sparsecollReducerCreate(&reducers_[rank], kLength, sparsecollFloat32, &params, nullptr, comms_[rank]));
      for (int step = 0; step < 3; ++step) CHECK_CALL(run(rank, step));
    });
    pristine_ = state();
    other_ = stateOf(1);
  }
  ~Pair() {
    onEach([&](int rank) { (void)sparsecollReducerDestroy(reducers_[rank]); });
    for (sparsecollComm_t comm : comms_) (void)sparsecollCommDestroy(comm);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  const Bytes& pristine() const { return pristine_; }
  sparsecollReducer_t first() const { return reducers_[0]; }

  Bytes state() const { return stateOf(0); }
  void putBack() {
    CHECK_CALL(sparsecollReducerImport(reducers_[0], pristine_.data(), pristine_.size(), nullptr));
    CHECK_CALL(sparsecollReducerImport(reducers_[1], other_.data(), other_.size(), nullptr));
  }

  // A step of both ranks, of which one goes on from a state that somebody made up. It may be refused; it ends.
  void step(sparsecollResult_t* results) {
    onEach([&](int rank) { results[rank] = run(rank, 3); });
  }

 private:
  Bytes stateOf(int rank) const {
    size_t size = 0;
    CHECK_CALL(sparsecollReducerExport(reducers_[rank], nullptr, &size, nullptr));
    Bytes blob(size);
    CHECK_CALL(sparsecollReducerExport(reducers_[rank], blob.data(), &size, nullptr));
    return blob;
  }

  sparsecollResult_t run(int rank, int step) {
    float gradient[kLength], out[kLength];
    for (uint64_t i = 0; i < kLength; ++i)
      gradient[i] = static_cast<float>((i * 2654435761u + static_cast<uint64_t>(rank * 97 + step * 31)) % 1009) - 504;
    return sparsecollReducerRun(reducers_[rank], gradient, out, nullptr);
  }

  sparsecollComm_t comms_[kRanks] = {};
  sparsecollReducer_t reducers_[kRanks] = {};
  Bytes pristine_, other_;  // the two ranks' states
};

std::unique_ptr<Pair>& pairOf(size_t method) {
  static std::unique_ptr<Pair> pairs[std::size(kMethods)];
  if (pairs[method] == nullptr) pairs[method] = std::make_unique<Pair>(kMethods[method]);
  return pairs[method];
}

bool fatal(sparsecollResult_t result) {
  return result != sparsecollSuccess && result != sparsecollMismatch && result != sparsecollNonFinite &&
         result != sparsecollCapacity;
}

}  // namespace

// Input: the method, the call (bit 0: ImportFrom, 1: adds, 2: leaves out), the blob.
std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (size_t method = 0; method < std::size(kMethods); ++method) {
    Bytes seed = {static_cast<std::byte>(method), static_cast<std::byte>(method % 4)};
    const Bytes& blob = pairOf(method)->pristine();
    seed.insert(seed.end(), blob.begin(), blob.end());
    all.push_back(std::move(seed));
  }
  return all;
}

void repair(Bytes& input) {
  if (input.size() < 2 + sizeof(uint32_t)) return;
  const std::span<const std::byte> body(input.data() + 2, input.size() - 2 - sizeof(uint32_t));
  const uint32_t sum = crc32c(body);
  std::memcpy(input.data() + input.size() - sizeof sum, &sum, sizeof sum);
}

void look(std::span<const std::byte> input) {
  Taker taker(input);
  const size_t method = taker.take<uint8_t>() % std::size(kMethods);
  const unsigned call = taker.take<uint8_t>();
  const bool from = (call & 1) != 0;
  const int merge = (call & 4) != 0 ? 2 : (call & 2) != 0 ? 1 : 0;
  const Exact blob(taker.rest());
  const size_t size = taker.rest().size();
  Pair& pair = *pairOf(method);
  const sparsecollResult_t result =
      from ? sparsecollReducerImportFrom(pair.first(), blob.data(), size, merge, nullptr)
           : sparsecollReducerImport(pair.first(), blob.data(), size, nullptr);
  const Bytes now = pair.state();
  if (result != sparsecollSuccess) {
    FUZZ_PROMISE(result == sparsecollInvalidArgument || result == sparsecollCorrupted ||
                 result == sparsecollUnsupported);
    FUZZ_PROMISE(now == pair.pristine());
    return;
  }
  FUZZ_PROMISE(from || (now.size() == size && std::memcmp(now.data(), blob.data(), size) == 0));
  sparsecollResult_t results[kRanks];
  pair.step(results);
  FUZZ_PROMISE(results[0] != sparsecollTimeout && results[1] != sparsecollTimeout);
  FUZZ_PROMISE(results[0] != sparsecollInternalError && results[1] != sparsecollInternalError);
  if (fatal(results[0]) || fatal(results[1])) {
    pairOf(method).reset();  // the communicator is dead
    return;
  }
  pair.putBack();
}

}  // namespace sparsecoll::fuzz
