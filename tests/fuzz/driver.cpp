// Feeds a target without libFuzzer: every seed, each with every bit flipped and cut off everywhere, then seeds changed
// at random. The same inputs in every run; with --seconds it goes on and on. Where it ends badly, PROGRAM.input is why.
// usage: PROGRAM [--runs N] [--seconds N] [--seed N] [--write-seeds FOLDER] [FILE...]      FILE: look at these only
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "core/random.h"
#include "tests/fuzz/target.h"

namespace {

using sparsecoll::mixBits;
using sparsecoll::fuzz::Bytes;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : mixBits(++state_) % bound; }

 private:
  uint64_t state_;
};

// What lengths, counts and offsets go wrong at.
constexpr uint64_t kTelling[] = {0,
                                 1,
                                 2,
                                 15,
                                 16,
                                 17,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0x100,
                                 0x7fff,
                                 0x8000,
                                 0xffff,
                                 0x10000,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7ff0000000000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xfffffffffffffff8,
                                 0xffffffffffffffff};

void change(Bytes& bytes, const std::vector<Bytes>& seeds, Random& random) {
  const uint64_t at = random.below(bytes.size());
  switch (random.below(bytes.empty() ? 1 : 7)) {
    case 0: {  // longer
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random.below(16),
                   static_cast<std::byte>(random.below(256)));
      return;
    }
    case 1:
      bytes[at] ^= std::byte{1} << random.below(8);
      return;
    case 2:
      bytes[at] = static_cast<std::byte>(random.below(256));
      return;
    case 3: {  // a number of 1, 2, 4 or 8 bytes
      const uint64_t value = kTelling[random.below(std::size(kTelling))];
      std::memcpy(bytes.data() + at, &value, std::min<size_t>(size_t{1} << random.below(4), bytes.size() - at));
      return;
    }
    case 4: {  // a number a little off
      uint32_t value = 0;
      const size_t length = std::min(sizeof value, bytes.size() - at);
      std::memcpy(&value, bytes.data() + at, length);
      value += static_cast<uint32_t>(random.below(9)) - 4;
      std::memcpy(bytes.data() + at, &value, length);
      return;
    }
    case 5:  // shorter
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() +
                      static_cast<std::ptrdiff_t>(at + 1 + random.below(std::min<uint64_t>(16, bytes.size() - at))));
      return;
    default: {  // a piece of another seed in its place
      const Bytes& other = seeds[random.below(seeds.size())];
      for (uint64_t i = at; i < std::min({bytes.size(), other.size(), at + 32}); ++i) bytes[i] = other[i];
      return;
    }
  }
}

// Holds the input that is being looked at, in a file that outlives the program if that ends badly.
class Current {
 public:
  explicit Current(std::string path) : path_(std::move(path)) {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) std::perror(path_.c_str()), std::exit(2);
    file_ = file;
  }
  ~Current() {
    close(file_);
    unlink(path_.c_str());
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  void put(const Bytes& bytes) const {
    if (pwrite(file_, bytes.data(), bytes.size(), 0) < 0 || ftruncate(file_, static_cast<off_t>(bytes.size())) != 0)
      std::perror(path_.c_str()), std::exit(2);
  }

 private:
  std::string path_;
  int file_;
};

class Driver {
 public:
  Driver(const std::string& program, uint64_t seed)
      : seeds_(sparsecoll::fuzz::seeds()), random_(seed), current_(program + ".input") {}

  const std::vector<Bytes>& seeds() const { return seeds_; }
  uint64_t inputs() const { return inputs_; }

  // What is near a valid input is where parsers go wrong; of a long one, what is near its beginning.
  void lookAround(const Bytes& seed) {
    look(seed);
    for (size_t length = 0; length < seed.size(); length += length < kWhole ? 1 : kStride) {
      Bytes cut(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(length));
      look(cut);
      sparsecoll::fuzz::repair(cut);
      look(cut);
    }
    for (size_t bit = 0; bit < 8 * seed.size(); bit += bit < 8 * kWhole ? 1 : kStride) {
      Bytes flipped = seed;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      look(flipped);
      sparsecoll::fuzz::repair(flipped);
      look(flipped);
    }
  }

  void lookAtRandom() {
    Bytes bytes = seeds_[random_.below(seeds_.size())];
    for (uint64_t changes = 1 + random_.below(4); changes != 0; --changes) change(bytes, seeds_, random_);
    if (random_.below(4) != 0) sparsecoll::fuzz::repair(bytes);
    look(bytes);
  }

 private:
#ifdef __SANITIZE_THREAD__  // who races does not depend on single bits
  static constexpr size_t kWhole = 16, kStride = 241;
#else
  static constexpr size_t kWhole = 160, kStride = 61;
#endif

  void look(const Bytes& bytes) {
    ++inputs_;
    current_.put(bytes);
    sparsecoll::fuzz::look(bytes);
  }

  std::vector<Bytes> seeds_;
  Random random_;
  Current current_;
  uint64_t inputs_ = 0;
};

Bytes readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::perror(path.c_str());
    std::exit(2);
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void writeSeeds(const std::vector<Bytes>& seeds, const std::string& folder) {
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(folder + "/seed" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seeds[i].data()), static_cast<std::streamsize>(seeds[i].size()));
    if (!file.flush()) std::perror(folder.c_str()), std::exit(2);
  }
}

}  // namespace

int main(int count, char** words) {
  using Clock = std::chrono::steady_clock;
  uint64_t runs = 20000, seconds = 0, seed = 1;
  std::string folder;
  std::vector<std::string> files;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] { return i + 1 < count ? words[++i] : ""; };
    if (word == "--runs")
      runs = std::strtoull(value(), nullptr, 10);
    else if (word == "--seconds")
      seconds = std::strtoull(value(), nullptr, 10);
    else if (word == "--seed")
      seed = std::strtoull(value(), nullptr, 10);
    else if (word == "--write-seeds")
      folder = value();
    else
      files.push_back(word);
  }
  for (const std::string& file : files) sparsecoll::fuzz::look(readFile(file));
  if (!files.empty()) return 0;
  Driver driver(words[0], seed);
  if (!folder.empty()) return writeSeeds(driver.seeds(), folder), 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (const Bytes& bytes : driver.seeds()) driver.lookAround(bytes);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (uint64_t run = 0; run < runs || Clock::now() < end; ++run) driver.lookAtRandom();
  std::printf("%llu inputs\n", static_cast<unsigned long long>(driver.inputs()));
}
