// The tuner file: what is no such file is told by path, line and reason; times between those that were measured.
#include "src/tuner_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using namespace sparsecoll;

namespace {

// Times of topka; those of the others are 2, 3 and 4 times as long.
struct Line {
  uint64_t elements;
  double density, ms;
};

const std::string kHead =
    "# sparsecoll tuner file 1\n"
    "# made by hand\n"
    "ranks,4\n"
    "nodes,2\n"
    "engine,tcp\n"
    "type,f32\n"
    "elements,density,topka,sparcml-split,spardl,dense\n";

std::string fileOf(const std::vector<Line>& lines) {
  std::string text = kHead;
  for (const Line& line : lines) {
    text += std::to_string(line.elements) + "," + std::to_string(line.density);
    for (const int times : {1, 2, 3, 4}) text += "," + std::to_string(times * line.ms);
    text += "\n";
  }
  return text;
}

const std::vector<Line> kGrid = {{1000, 0.1, 2}, {3000, 0.1, 6}, {1000, 0.01, 1}, {3000, 0.01, 2}, {9000, 0.01, 8}};

TunerFile parsed(const std::string& text) {
  auto file = TunerFile::parse(text, "a.csv");
  if (!file.ok()) FAIL(file.takeStatus().failure().text.c_str());
  return std::move(*file);
}

std::string failureIn(const std::string& text) {
  auto file = TunerFile::parse(text, "a.csv");
  if (file.ok()) return "";
  const Status status = file.takeStatus();
  CHECK(status.result() == sparsecollInvalidArgument);
  return std::string(status.failure().text.view());
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

double msOf(const TunerFile& file, size_t candidate, uint64_t n, double density) {
  return file.nsOf(candidate, n, density) / 1e6;
}

}  // namespace

TEST_CASE("a file says for which ranks it was made, and its hash tells every difference") {
  const std::string good = fileOf(kGrid);
  const TunerFile file = parsed(good);
  CHECK(file.maker() == TunerFile::Maker{4, 2, "tcp", "f32"});
  CHECK(file.hash() != 0);
  CHECK(file.hash() == parsed(replaced(good, "made by hand", "by another one")).hash());
  const std::pair<const char*, const char*> kChanges[] = {
      {"ranks,4", "ranks,5"}, {"nodes,2", "nodes,1"},   {"tcp", "ucx"},
      {"f32", "f64"},         {"1000,0.1", "1001,0.1"}, {"3000,0.010000,2.0", "3000,0.010000,2.1"}};
  for (const auto& [what, by] : kChanges) {
    CAPTURE(what, by);
    CHECK(file.hash() != parsed(replaced(good, what, by)).hash());
  }
}

TEST_CASE("every malformed line is told with its number") {
  const std::string good = fileOf({{1000, 0.1, 2}});
  REQUIRE(failureIn(good).empty());
  const std::string row = good.substr(kHead.size());
  struct Wrong {
    const char* what;
    const char* by;
    const char* said;
  };
  CHECK(parsed(replaced(good, "ranks,4", "ranks,1048576")).maker().ranks == 1048576);
  const Wrong kWrong[] = {
      {"# sparsecoll tuner file 1", "# sparsecoll tuner file 2", "a.csv:1: the first line"},
      {"# sparsecoll tuner file 1\n", "", "a.csv:1: the first line"},
      {"ranks,4", "ranks,", "a.csv:3: 'ranks,' is not 'ranks,' and its value"},
      {"ranks,4", "ranks,four", "a.csv:3: 'four' is no number of ranks"},
      {"ranks,4", "ranks,0", "a.csv:3: '0' is no number of ranks"},
      {"ranks,4", "ranks,1048577", "a.csv:3: '1048577' is no number of ranks"},
      {"ranks,4", "ranks,-4", "a.csv:3: '-4' is no number of ranks"},
      {"ranks,4\n", "", "a.csv:3: 'nodes,2' is not 'ranks,' and its value"},
      {"nodes,2", "nodes,2x", "a.csv:4: '2x' is no number of nodes"},
      {"engine,tcp", "engine", "a.csv:5: 'engine' is not 'engine,' and its value"},
      {"type,f32", "types,f32", "a.csv:6: 'types,f32' is not 'type,' and its value"},
      {"topka,sparcml", "sparcml", "a.csv:7: the columns are not 'elements,density,topka,sparcml-split,spardl,dense'"},
      {"spardl,dense", "spardl,dense,more", "a.csv:7: the columns are not"},
      {"\n1000,", "\n0,", "a.csv:8: '0' is no number of elements"},
      {"\n1000,", "\n1e3,", "a.csv:8: '1e3' is no number of elements"},
      {"\n1000,", "\n 1000,", "a.csv:8: ' 1000' is no number of elements"},
      {"0.100000", "0", "a.csv:8: '0' is no density above 0 and up to 1"},
      {"0.100000", "all", "a.csv:8: 'all' is no density"},
      {"0.100000", "1.1", "a.csv:8: '1.1' is no density"},
      {"0.100000", "nan", "a.csv:8: 'nan' is no density"},
      {"2.000000", "", "a.csv:8: '' is no time of topka in milliseconds"},
      {"4.000000", "-4", "a.csv:8: '-4' is no time of sparcml-split"},
      {"6.000000", "inf", "a.csv:8: 'inf' is no time of spardl"},
      {",8.000000", "", "a.csv:8: '' is no time of dense"},
      {"8.000000", "8.000000,9", "a.csv:8: more than 6 values"},
      {"8.000000", "8.000000,", "a.csv:8: more than 6 values"},
      {"8.000000\n", "8.000000\n\n", "a.csv:9: '' is no number of elements"},
      {"8.000000", "8.000000\r", "a.csv:8: '8.000000\r' is no time of dense"},
  };
  for (const Wrong& wrong : kWrong) {
    CAPTURE(wrong.what, wrong.by);
    CHECK_THAT(failureIn(replaced(good, wrong.what, wrong.by)),
               Catch::StartsWith("SPARSECOLL_TUNER_FILE: ") && Catch::Contains(wrong.said));
  }
  CHECK_THAT(failureIn(""), Catch::Contains("a.csv:1: the first line"));
  CHECK_THAT(failureIn(kHead), Catch::Contains("a.csv:8: no times"));
  CHECK_THAT(failureIn(good + row), Catch::Contains("a.csv:9: 1000 elements at density 0.100000 stand in an earlier"));
  for (size_t line = 0; (line = kHead.find('\n', line) + 1) != 0 && line < kHead.size();)
    CHECK_FALSE(failureIn(kHead.substr(0, line)).empty());
}

TEST_CASE("a file that cannot be read is named with the reason") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tuner-file-test-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const auto failureOf = [](const fs::path& path) {
    auto file = TunerFile::read(path.c_str());
    REQUIRE_FALSE(file.ok());
    const Status status = file.takeStatus();
    CHECK(status.result() == sparsecollSystemError);
    return std::string(status.failure().text.view());
  };
  const std::string none = failureOf(folder / "none.csv");
  CHECK_THAT(none, Catch::Contains("SPARSECOLL_TUNER_FILE: ") && Catch::Contains("none.csv: No such file"));
  CHECK_THAT(failureOf(folder), Catch::Contains("Is a directory"));
  std::ofstream(folder / "long.csv") << fileOf(kGrid) << std::string(2 << 20, '#');
  CHECK_THAT(failureOf(folder / "long.csv"), Catch::Contains("longer than any"));
  std::ofstream(folder / "longest.csv") << std::string(1 << 20, '?');
  CHECK(TunerFile::read((folder / "longest.csv").c_str()).takeStatus().result() != sparsecollSystemError);  // is read
  std::ofstream(folder / "good.csv") << fileOf(kGrid);
  auto good = TunerFile::read((folder / "good.csv").c_str());
  REQUIRE(good.ok());
  CHECK(good->hash() == parsed(fileOf(kGrid)).hash());
  fs::remove_all(folder);
}

TEST_CASE("times lie on straight lines between sizes and densities, whatever the order of the rows") {
  std::vector<Line> mixed = {kGrid[4], kGrid[1], kGrid[2], kGrid[0], kGrid[3]};
  for (const TunerFile& file : {parsed(fileOf(kGrid)), parsed(fileOf(mixed))}) {
    for (const Line& line : kGrid)
      for (size_t c = 0; c < kCandidateCount; ++c)
        CHECK(msOf(file, c, line.elements, line.density) == Approx(line.ms * static_cast<double>(c + 1)));
    CHECK(msOf(file, 0, 2000, 0.01) == Approx(1.5));
    CHECK(msOf(file, 0, 6000, 0.01) == Approx(5));
    CHECK(msOf(file, 0, 2000, 0.1) == Approx(4));
    CHECK(msOf(file, 1, 2000, 0.055) == Approx(2 * 2.75));
  }
}

TEST_CASE("at most twice as far away as what was measured") {
  const TunerFile file = parsed(fileOf(kGrid));
  CHECK(msOf(file, 0, 500, 0.01) == Approx(1));
  CHECK(msOf(file, 0, 499, 0.01) == 0);
  CHECK(msOf(file, 0, 18000, 0.01) == Approx(17));
  CHECK(msOf(file, 0, 18001, 0.01) == 0);
  CHECK(msOf(file, 0, 1000, 0.2) == Approx(2));
  CHECK(msOf(file, 0, 1000, 0.201) == 0);
  CHECK(msOf(file, 0, 1000, 0.005) == Approx(1));
  CHECK(msOf(file, 0, 1000, 0.00499) == 0);
  // One of the two densities has nothing near.
  CHECK(msOf(file, 0, 6001, 0.05) == 0);
  CHECK(msOf(file, 0, 6000, 0.05) > 0);
  CHECK(msOf(parsed(fileOf({{1000, 0.01, 1}, {8000, 0.1, 2}})), 0, 8000, 0.05) == 0);
  // One size alone: in proportion.
  const TunerFile one = parsed(fileOf({{1000, 0.1, 2}}));
  CHECK(msOf(one, 0, 1500, 0.1) == Approx(3));
  CHECK(msOf(one, 0, 700, 0.1) == Approx(2));
  // Noise in what was measured makes no longer vector faster.
  const TunerFile falling = parsed(fileOf({{1000, 0.1, 4}, {2000, 0.1, 3}}));
  CHECK(msOf(falling, 0, 4000, 0.1) == Approx(3));
}
