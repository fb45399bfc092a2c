// The reader of .npy files against files that NumPy would write, and against those that nobody should.
#include "bench/common/npy.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/common/recording.h"
#include "examples/common/npy.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

namespace fs = std::filesystem;
using namespace sparsecoll::test;
using namespace std::string_literals;

template <class T>
std::string bytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string lengthBytes(size_t length, size_t bytes) { return {reinterpret_cast<const char*>(&length), bytes}; }

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  return "\x93NUMPY"s + version + '\0' + lengthBytes(header.size(), version == 1 ? 2 : 4) + header + data;
}

std::string header(const std::string& type, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
}

const std::vector<float> kValues = {1.5F, -0.25F, 0, 3, 65504, -1024};
const std::string kFloats = bytesOf(kValues);

}  // namespace

TEST_CASE("npy: every version, shape and order is a row of numbers") {
  const std::string doubles = bytesOf(std::vector<double>(kValues.begin(), kValues.end()));
  const std::string halves = bytesOf(std::vector<uint16_t>{0x3e00, 0xb400, 0, 0x4200, 0x7bff, 0xe400});
  struct Row {
    const char* name;
    std::string bytes;
  };
  const std::vector<Row> rows = {
      {"1.0", npy(header("<f4", "(6,)"), kFloats)},
      {"2.0", npy(header("<f4", "(6,)"), kFloats, 2)},
      {"3.0", npy(header("<f4", "(6,)"), kFloats, 3)},
      {"double", npy(header("<f8", "(6,)"), doubles)},
      {"half", npy(header("<f2", "(6,)"), halves)},
      {"matrix", npy(header("<f4", "(2, 3)"), kFloats)},
      {"Fortran order, as stored", npy(header("<f4", "(3, 2)", "True"), kFloats)},
      {"many dimensions", npy(header("<f4", "(1, 6, 1, 1,)"), kFloats)},
      {"other order of keys, other quotes", npy(R"({"shape":(6,),"descr":"<f4","fortran_order":False})", kFloats)},
  };
  const Folder folder;
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(bench::readNpy(folder.write("a.npy", row.bytes)) == kValues);
  }
  CHECK(bench::readNpy(folder.write("a.npy", npy(header("<f4", "()"), bytesOf<float>({7})))) == std::vector<float>{7});
  CHECK(bench::readNpy(folder.write("a.npy", npy(header("<f4", "(0, 18446744073709551615)"), ""))).empty());
}

TEST_CASE("npy: longer than a chunk, and what no float can be") {
  const Folder folder;
  std::vector<double> values(200001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  values[7] = 1e300;
  values[8] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<float> read =
      bench::readNpy(folder.write("a.npy", npy(header("<f8", "(200001,)"), bytesOf(values))));
  REQUIRE(read.size() == values.size());
  CHECK(read.back() == 200000);
  CHECK(std::isinf(read[7]));
  CHECK(std::isnan(read[8]));
}

TEST_CASE("npy: what cannot be read is named with its reason") {
  const std::string good = npy(header("<f4", "(6,)"), kFloats);
  struct Row {
    std::string bytes;
    const char* reason;
  };
  const std::vector<Row> rows = {
      {"", "not a .npy file"},
      {"\x93NUMP", "not a .npy file"},
      {"\x93NUMPZ" + good.substr(6), "not a .npy file"},
      {good.substr(0, 6), "ends within the header"},
      {good.substr(0, 9), "ends within the header"},
      {good.substr(0, 40), "ends within the header"},
      {"\x93NUMPY\x02\x00\xff\xff\xff\xff{"s, "ends within the header"},
      {"\x93NUMPY\x04\x00"s + good.substr(8), "format version 4.0"},
      {"\x93NUMPY\x01\x01"s + good.substr(8), "format version 1.1"},
      {"\x93NUMPY\xff\x00"s + good.substr(8), "format version 255.0"},
      {good.substr(0, good.size() - 1), "truncated: 23 bytes of data where the shape asks for 24"},
      {good + "x", "too long: 25 bytes"},
      {npy(header(">f4", "(6,)"), kFloats), "the type is '>f4'"},
      {npy(header("<i4", "(6,)"), kFloats), "the type is '<i4'"},
      {npy(header("", "(6,)"), kFloats), "the type is ''"},
      {npy(header("|O", "(6,)"), kFloats), "Python objects"},
      {npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}", kFloats), "structure of fields"},
      {npy(header("<f4", "(4611686018427387905,)"), kFloats), "the shape overflows"},
      {npy(header("<f4", "(4294967296, 4294967296)"), ""), "the shape overflows"},
      {npy(header("<f4", "(18446744073709551616,)"), kFloats), "the shape overflows"},
      {npy(header("<f4", "(1000000000000,)"), kFloats), "truncated"},
      {npy(header("<f4", "(-6,)"), kFloats), "a number of 0 or more expected"},
      {npy(header("<f4", "(6.0,)"), kFloats), "',' or ')' expected"},
      {npy(header("<f4", "(6"), kFloats), "a number of 0 or more expected"},
      {npy(header("<f4", "6"), kFloats), "'(' expected"},
      {npy(header("<f4", "(6,)", "Maybe"), kFloats), "True or False"},
      {npy("", kFloats), "'{' expected"},
      {npy("{", kFloats), "a string in quotes expected"},
      {npy("{'descr", kFloats), "a string in quotes expected"},
      {npy("{'descr'", kFloats), "':' expected"},
      {npy("{'descr': <f4}", kFloats), "a string in quotes expected"},
      {npy("{'descr': '<f4'", kFloats), "',' or '}' expected"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", kFloats), "'descr' is there twice"},
      {npy("{'descr': '<f4', 'weight': '<f4'}", kFloats), "the key 'weight'"},
      {npy("{'descr': '<f4', 'shape': (6,)}", kFloats), "needs the keys"},
      {npy(header("<f4", "(6,)") + "import", kFloats), "follows the closing brace"},
  };
  const Folder folder;
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    const std::string file = folder.write("gradient.npy", row.bytes);
    CHECK_THAT(messageOf([&] { bench::readNpy(file); }),
               Catch::Contains("gradient.npy: ") && Catch::Contains(row.reason));
  }
  CHECK_THAT(messageOf([&] { bench::readNpy(folder.path().string() + "/nowhere.npy"); }),
             Catch::Contains("nowhere.npy: cannot be opened"));
  CHECK_THAT(messageOf([&] { bench::readNpy(folder.path()); }), Catch::Contains("cannot be opened"));
}

// No bit of a header may do more than make the file unreadable.
TEST_CASE("npy: a flipped bit is an error or changes nothing") {
  const Folder folder;
  const std::string good = npy(header("<f4", "(6,)"), kFloats);
  for (size_t at = 0; at < good.size() - kFloats.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      const std::string file = folder.write("gradient.npy", bytes);
      CAPTURE(at, bit);
      std::vector<float> read = kValues;
      const std::string message = messageOf([&] { read = bench::readNpy(file); });
      REQUIRE(read == kValues);
      REQUIRE((message == "no error" || message.find("gradient.npy: ") != message.npos));
    }
  }
}

TEST_CASE("npy: what the examples write is read") {
  const Folder folder;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{6}, size_t{100000}}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) - 3;
    const std::string file = folder.path().string() + "/b.npy";
    examples::writeNpy(file, values.data(), count);
    CHECK((fs::file_size(file) - count * sizeof(float)) % 64 == 0);
    CHECK(bench::readNpy(file) == values);
  }
  CHECK_THAT(messageOf([&] { examples::writeNpy(folder.path().string() + "/none/b.npy", kValues.data(), 6); }),
             Catch::Contains("b.npy: cannot be written"));
}

TEST_CASE("recording: a folder is its .npy files in the order of their names") {
  const Folder folder;
  folder.write("step2.npy", npy(header("<f4", "(1,)"), bytesOf<float>({4})));
  folder.write("step1.npy", npy(header("<f4", "(3,)"), bytesOf<float>({1, 2, 3})));
  folder.write("notes.txt", "no gradient");
  const bench::Recording recording = bench::readRecording(folder.path());
  CHECK(recording.entries == std::vector<float>{1, 2, 3, 4});
  CHECK(recording.files == 2);
  CHECK(recording.first == 3);
}

TEST_CASE("recording: a file is told by its name or its beginning, else it is raw") {
  const Folder folder;
  CHECK(bench::readRecording(folder.write("raw", kFloats)).entries == kValues);
  CHECK(bench::readRecording(folder.write("unnamed", npy(header("<f4", "(6,)"), kFloats))).entries == kValues);
  const auto reasonOf = [&](const std::string& name, const std::string& bytes) {
    return messageOf([&, file = folder.write(name, bytes)] { bench::readRecording(file); });
  };
  CHECK_THAT(reasonOf("raw", kFloats + "x"), Catch::Contains("raw: not a file of 32-bit floats"));
  CHECK_THAT(reasonOf("raw", ""), Catch::Contains("raw: there are no entries"));
  CHECK_THAT(reasonOf("a.npy", npy(header("<f4", "(0,)"), "")), Catch::Contains("a.npy: there are no entries"));
  CHECK_THAT(reasonOf("raw", bytesOf<float>({1, std::nanf("")})), Catch::Contains("raw: entry 1 is nan"));
  CHECK_THAT(messageOf([&] { bench::readRecording(folder.path().string() + "/nowhere"); }),
             Catch::Contains("nowhere: cannot be opened"));
  const Folder empty;
  CHECK_THAT(messageOf([&] { bench::readRecording(empty.path()); }), Catch::Contains("there is no .npy file"));
}
