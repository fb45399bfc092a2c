// NumPy's files, as the benchmarks read recorded gradients from them.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "bench/common/errors.h"
#include "bench/common/npy.h"
#include "tests/fuzz/target.h"

namespace sparsecoll::fuzz {

namespace {

constexpr size_t kPrelude = 10;  // magic, version, and a length of two bytes

Bytes fileOf(const std::string& header, size_t dataBytes, char version = 1) {
  std::string text("\x93NUMPY", 6);
  text += version;
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  text += header;
  Bytes bytes(text.size() + dataBytes);
  std::memcpy(bytes.data(), text.data(), text.size());
  for (size_t i = text.size(); i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  return bytes;
}

std::string headerOf(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
}

// A file that is nowhere but in memory.
class File {
 public:
  explicit File(std::span<const std::byte> bytes) : file_(memfd_create("npy", MFD_CLOEXEC)) {
    if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::perror("memfd");
      std::exit(2);
    }
  }
  ~File() { close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace

std::vector<Bytes> seeds() {
  return {fileOf(headerOf("<f4", "3,"), 12), fileOf(headerOf("<f2", "2, 2"), 8), fileOf(headerOf("<f8", ""), 8, 2),
          fileOf(headerOf("<f4", "0, 5"), 0, 3),
          fileOf("{\"shape\":(1,),\"fortran_order\":True,\"descr\":\"<f4\"}", 4)};
}

void repair(Bytes& input) {
  if (input.size() < kPrelude) return;
  const Bytes start = fileOf("", 0);
  std::memcpy(input.data(), start.data(), 6);
  // The header ends where its dictionary does.
  for (size_t i = kPrelude; i < input.size(); ++i)
    if (input[i] == std::byte{'\n'} && input[6] == std::byte{1}) {
      const size_t length = i + 1 - kPrelude;
      input[8] = static_cast<std::byte>(length & 0xff);
      input[9] = static_cast<std::byte>(length >> 8 & 0xff);
      return;
    }
}

void look(std::span<const std::byte> input) {
  const File file(input);
  (void)bench::isNpy(file.path());
  try {
    const std::vector<float> entries = bench::readNpy(file.path());
    // No shape makes more entries than there are bytes for them.
    FUZZ_PROMISE(entries.size() * 2 + kPrelude <= input.size());
    // What was read is read again from a file made of it.
    Bytes again = fileOf(headerOf("<f4", std::to_string(entries.size()) + ","), entries.size() * sizeof(float));
    if (!entries.empty())
      std::memcpy(again.data() + again.size() - entries.size() * sizeof(float), entries.data(),
                  entries.size() * sizeof(float));
    const std::vector<float> same = bench::readNpy(File(again).path());
    FUZZ_PROMISE(same.size() == entries.size());
    FUZZ_PROMISE(entries.empty() || std::memcmp(same.data(), entries.data(), entries.size() * sizeof(float)) == 0);
  } catch (const bench::EnvironmentError&) {
    // The one error that it may have.
  }
}

}  // namespace sparsecoll::fuzz
