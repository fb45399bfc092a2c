// SPDX-License-Identifier: Apache-2.0
#include "examples/common/lines.h"

#include <string>
#include <vector>

#include "examples/common/permutation.h"
#include "examples/common/vocabulary.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"

#ifdef EXAMPLES_WITH_ZLIB
#include <zlib.h>
#endif

namespace {

using namespace examples;
using namespace std::string_literals;
using sparsecoll::test::Folder;
using sparsecoll::test::messageOf;

std::vector<std::string> linesOf(const std::filesystem::path& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(line)) {
    lines.emplace_back(line);
    REQUIRE(reader.number() == lines.size());
  }
  REQUIRE_FALSE(reader.next(line));
  return lines;
}

}  // namespace

TEST_CASE("lines: short ones, empty ones, Windows ends, and one longer than a chunk") {
  const Folder folder;
  CHECK(linesOf(folder.write("a", "one\n\ntwo\r\n")) == std::vector<std::string>{"one", "", "two"});
  CHECK(linesOf(folder.write("a", "\n")) == std::vector<std::string>{""});
  const std::string longLine(300000, 'x');
  CHECK(linesOf(folder.write("a", "a\n" + longLine + "\nb\n")) == std::vector<std::string>{"a", longLine, "b"});
}

TEST_CASE("lines: no line is lost at the edge of a chunk") {
  const Folder folder;
  for (const size_t first : {size_t{65533}, size_t{65534}, size_t{65535}, size_t{65536}, size_t{65537}}) {
    const std::string line(first, 'y');
    CAPTURE(first);
    CHECK(linesOf(folder.write("a", line + "\r\nz\n")) == std::vector<std::string>{line, "z"});
  }
}

TEST_CASE("lines: what is no whole text is named with its place") {
  const Folder folder;
  CHECK_THAT(messageOf([&] { linesOf(folder.path() / "none"); }), Catch::Contains("none: no such file"));
  CHECK_THAT(messageOf([&] { linesOf(folder.path()); }), Catch::Contains("no such file"));
  CHECK_THAT(messageOf([&] { linesOf(folder.write("a", "")); }), Catch::Contains("a: the file is empty"));
  CHECK_THAT(messageOf([&] { linesOf(folder.write("a", "1\n2\n3")); }),
             Catch::Contains("a: line 3: truncated: the line has no end"));
  CHECK_THAT(messageOf([&] { linesOf(folder.write("a", "1\n\0\n"s)); }), Catch::Contains("a zero byte"));
  CHECK_THAT(messageOf([&] { readText(folder.write("a", "")); }), Catch::Contains("a: the file is empty"));
  CHECK_THAT(messageOf([&] { readText(folder.path() / "none"); }), Catch::Contains("none: no such file"));
  CHECK(readText(folder.write("a", "no end")) == "no end");
  CHECK_THAT(messageOf([&] { readPacked(folder.write("a", "")); }), Catch::Contains("a: the file is empty"));
  CHECK_THAT(messageOf([&] { readPacked(folder.path() / "none"); }), Catch::Contains("none: no such file"));
  CHECK(readPacked(folder.write("a", "\0\xff"s)) == "\0\xff"s);  // of any bytes, and not packed
}

#ifdef EXAMPLES_WITH_ZLIB
TEST_CASE("lines: packed files, and every way to cut or bend one") {
  const Folder folder;
  const auto path = folder.path() / "a.gz";
  std::string text;
  Random random(1);
  for (int i = 0; i < 20000; ++i) text += std::to_string(random.next()) + '\n';
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  gzclose(file);
  CHECK(linesOf(path).size() == 20000);
  CHECK(readPacked(path) == text);

  const std::string packed = [&] {
    std::ifstream stream(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }();
  for (const size_t kept : {packed.size() - 1, packed.size() - 8, packed.size() / 2, size_t{200}}) {
    CAPTURE(kept);
    CHECK_THAT(messageOf([&] { linesOf(folder.write("b.gz", packed.substr(0, kept))); }),
               Catch::Contains("b.gz: ") && Catch::Contains("truncated"));
    CHECK_THAT(messageOf([&] { readPacked(folder.path() / "b.gz"); }), Catch::Contains("b.gz: truncated"));
  }
  auto bent = packed;
  bent[packed.size() / 2] = static_cast<char>(bent[packed.size() / 2] ^ 0x55);
  CHECK_THAT(messageOf([&] { linesOf(folder.write("b.gz", bent)); }), Catch::Contains("b.gz: "));
  bent = packed;
  bent[packed.size() - 6] = static_cast<char>(bent[packed.size() - 6] ^ 1);  // the checksum
  CHECK_THAT(messageOf([&] { linesOf(folder.write("b.gz", bent)); }), Catch::Contains("b.gz: damaged"));
}
#endif

TEST_CASE("lines: numbers fill their field") {
  CHECK(parseNumber("0", 5) == 0);
  CHECK(parseNumber("5", 5) == 5);
  for (const char* text : {"", "6", "-1", "+1", " 1", "1 ", "1.0", "0x1", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(parseNumber(text, 5) == -1);
  }
}

TEST_CASE("vocabulary: frequent words first, then the order of the text, and fixed words lead") {
  Vocabulary vocabulary;
  std::vector<int32_t> counted;
  for (const char* word : {"b", "a", "c", "a", "<unk>", "d", "c"}) counted.push_back(vocabulary.count(word));
  CHECK(counted == std::vector<int32_t>{0, 1, 2, 1, 3, 4, 2});
  const auto newId = vocabulary.freeze({"<eos>", "<unk>"}, 5);
  CHECK(newId == std::vector<int32_t>{4, 2, 3, 1, -1});
  CHECK(vocabulary.size() == 5);
  CHECK(vocabulary.word(2) == "a");
  CHECK(vocabulary.find("<eos>") == 0);
  CHECK(vocabulary.find("d") == -1);
}

TEST_CASE("permutation: every number once, in an order that depends on seed and key") {
  for (const uint64_t count : {1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 1000u}) {
    const Permutation order(count, 1, 2), again(count, 1, 2), other(count, 1, 3);
    std::vector<int> seen(count);
    size_t moved = 0, different = 0;
    for (uint64_t i = 0; i < count; ++i) {
      REQUIRE(order(i) < count);
      ++seen[order(i)];
      REQUIRE(order(i) == again(i));
      moved += order(i) != i ? 1 : 0;
      different += order(i) != other(i) ? 1 : 0;
    }
    CAPTURE(count);
    CHECK(seen == std::vector<int>(count, 1));
    if (count < 63) continue;
    CHECK(moved > count * 8 / 10);
    CHECK(different > count * 8 / 10);
  }
}
