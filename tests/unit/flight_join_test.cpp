// sparsecoll-flight's findings on made-up files, and on files that are damaged.
#include "tests/support/catch.h"

#include "tests/support/folder.h"
#include "tools/flight/join.h"
#include "tools/flight/words.h"

using namespace flight;
using sparsecoll::test::Folder;

namespace {

constexpr int64_t kSecond = 1000000000;

Entry stepOf(uint64_t sequence, std::optional<std::string> result = "success") {
  Entry entry;
  entry.number = sequence;
  entry.sequence = sequence;
  entry.call = "ReducerRun";
  entry.preset = "topka";
  entry.tag = 4;
  entry.n = 25000000;
  entry.k = 250000;
  entry.plan = "aa";
  entry.startNs = static_cast<int64_t>(sequence) * kSecond;
  entry.roundNs = entry.startNs + kSecond / 10;
  entry.rounds = 2;
  if (result) entry.endNs = entry.startNs + kSecond / 2;
  entry.result = std::move(result);
  return entry;
}

Recording rankOf(int rank, std::vector<Entry> entries) {
  Recording recording;
  recording.path = "rank" + std::to_string(rank);
  recording.communicator = "c";
  recording.rank = rank;
  recording.ranks = 4;
  recording.writtenNs = 148 * kSecond;
  recording.entries = std::move(entries);
  return recording;
}

Entry waiting(uint64_t sequence, std::vector<int> whom, uint64_t round = 2) {
  Entry entry = stepOf(sequence, std::nullopt);
  entry.waitsFor = std::move(whom);
  entry.rounds = round;
  return entry;
}

std::vector<Finding> joined(std::vector<Recording> recordings) {
  std::vector<std::string> notes;
  const std::vector<Group> groups = groupsOf(std::move(recordings), notes);
  REQUIRE(groups.size() == 1);
  return findingsOf(groups[0]);
}

constexpr const char* kGood = R"({"format": "sparsecoll-flight", "formatVersion": 1, "communicator": "c", "name": "x",
  "rank": 1, "ranks": 4, "host": "h", "pid": 12, "transport": "tcp", "device": -1, "writtenNs": 99,
  "failure": {"result": "timeout", "peer": 3, "sequence": 7, "field": "", "text": "late"}, "operations": 1,
  "entries": [{"number": 1, "sequence": 7, "call": "ReducerRun", "preset": "topka", "selector": "topk",
    "collective": "allgather", "tag": 0, "n": 10, "k": 1, "plan": "00", "startNs": 5, "roundNs": 6, "endNs": null,
    "rounds": 1, "sentBytes": 0, "receivedBytes": 0, "result": null, "peer": null, "waitsFor": [3]}]}
)";

}  // namespace

TEST_CASE("a rank that never began an operation is named first, with who waits for it and since when") {
  const std::vector<Finding> found =
      joined({rankOf(0, {stepOf(117), waiting(118, {3})}), rankOf(1, {stepOf(117), waiting(118, {3})}),
              rankOf(2, {stepOf(117), waiting(118, {3})}), rankOf(3, {stepOf(117)})});
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Finding::Kind::kLag);
  CHECK(found[0].ranks == std::vector<int>{3});
  CHECK(found[0].sequence == 118u);
  CHECK(
      found[0].text ==
      "rank 3 never began operation 118, ReducerRun of the reducer with tag 4 (preset topka, n 25M, k 250k): its last "
      "was operation 117, ReducerRun of the reducer with tag 4 (preset topka, n 25M, k 250k), which ended with success "
      "30.5 s before its file was written; ranks 0-2 wait for rank 3 in round 2 of operation 118, since 29.9 s");
}

TEST_CASE("a rank without a file is told, and blamed where others wait for it") {
  const std::vector<Finding> found = joined({rankOf(0, {waiting(118, {3})}), rankOf(2, {waiting(118, {1, 3}, 1)})});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0].text, Catch::StartsWith("ranks 1, 3 hold up operation 118") &&
                                Catch::Contains("rank 2 waits for ranks 1, 3 in round 1 of operation 118") &&
                                Catch::Contains("rank 0 waits for rank 3 in round 2 of operation 118"));
  CHECK(found[1].kind == Finding::Kind::kMissing);
  CHECK(found[1].text == "ranks 1, 3 left no file: stopped, killed, or its folder is another one");
}

TEST_CASE("ranks in one operation: who is rounds behind is named") {
  Entry failed = waiting(118, {1}, 1);
  failed.result = "peer failed";
  failed.endNs = failed.startNs + 2 * kSecond;
  std::vector<Recording> ranks;
  for (const int rank : {0, 1, 2}) ranks.push_back(rankOf(rank, {waiting(118, {3})}));
  ranks.push_back(rankOf(3, {failed}));
  const std::vector<Finding> found = joined(std::move(ranks));
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector<int>{3});
  CHECK_THAT(found[0].text,
             Catch::StartsWith("rank 3 is behind, in operation 118") &&
                 Catch::Contains("rank 3 waited for rank 1 in round 1 of operation 118, for 1.9 s until peer failed"));
}

TEST_CASE("who waits an operation earlier because of a rank without a file is not blamed") {
  Entry early = waiting(117, {3}, 1);
  early.result = "peer failed";
  early.peer = 3;
  early.endNs = early.startNs + 30 * kSecond;
  const std::vector<Finding> found =
      joined({rankOf(0, {stepOf(116), early}), rankOf(1, {stepOf(117), waiting(118, {0, 3}, 1)}),
              rankOf(2, {stepOf(117), waiting(118, {0, 3}, 1)})});
  REQUIRE(found.size() == 2);
  CHECK(found[0].ranks == std::vector<int>{3});
  CHECK_THAT(found[0].text,
             Catch::StartsWith("rank 3 holds up operation 117, ReducerRun of the reducer with tag 4") &&
                 Catch::Contains("rank 0 waited for rank 3 in round 1 of operation 117, for 29.9 s until "
                                 "peer failed; ranks 1, 2 wait for ranks 0, 3 in round 1 of operation 118"));
}

TEST_CASE("who comes to an operation long after the others is named, although it has a file") {
  std::vector<Recording> ranks;
  for (const int rank : {0, 1, 2, 3}) {
    Entry entry = waiting(118, {rank == 3 ? 0 : 3}, 1);
    if (rank == 3) entry.startNs += 30 * kSecond;
    entry.roundNs = entry.startNs;
    entry.result = "peer failed";
    entry.endNs = 148 * kSecond + kSecond / 2;
    ranks.push_back(rankOf(rank, {stepOf(117), entry}));
  }
  const std::vector<Finding> found = joined(std::move(ranks));
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector<int>{3});
  CHECK_THAT(found[0].text,
             Catch::StartsWith("rank 3 came to operation 118, ") &&
                 Catch::Contains(", 30.0 s after the first: ranks 0-2 waited for rank 3 in round 1 of "
                                 "operation 118, for 30.5 s until peer failed; rank 3 waited for rank 0"));
}

TEST_CASE("short waits of ranks that were asked while they worked are nothing wrong") {
  Entry fresh = waiting(118, {3});
  fresh.roundNs = 148 * kSecond - 1000;
  CHECK(joined({rankOf(0, {stepOf(117), fresh}), rankOf(1, {stepOf(117)}), rankOf(2, {stepOf(117)}),
                rankOf(3, {stepOf(117)})})
            .empty());
}

TEST_CASE("sequences that do not match: who is alone with its call is named") {
  Entry other = stepOf(117);
  other.call = "AllGatherVector";
  other.preset = "";
  other.tag = other.k = 0;
  const std::vector<Finding> found =
      joined({rankOf(0, {stepOf(116), stepOf(117)}), rankOf(1, {stepOf(116), other, stepOf(118)}),
              rankOf(2, {stepOf(116), stepOf(117), stepOf(118)}), rankOf(3, {stepOf(116), stepOf(117), stepOf(118)})});
  REQUIRE(!found.empty());
  CHECK(found[0].kind == Finding::Kind::kMismatch);
  CHECK(
      found[0].text ==
      "operation 117: rank 1 called AllGatherVector (n 25M), ranks 0, 2, 3 called ReducerRun of the reducer with tag 4 "
      "(preset topka, n 25M, k 250k)");

  Entry density = stepOf(117);
  density.plan = "bb";
  const std::vector<Finding> differ =
      joined({rankOf(0, {stepOf(117)}), rankOf(1, {density}), rankOf(2, {stepOf(117)}), rankOf(3, {stepOf(117)})});
  REQUIRE(differ.size() == 1);
  CHECK(differ[0].ranks == std::vector<int>{1});
  CHECK_THAT(differ[0].text, Catch::EndsWith("with other parameters"));
}

TEST_CASE("what all ranks have ended, and what a ring has forgotten, is nothing wrong") {
  Entry ownCount = stepOf(118);
  ownCount.k = 3;  // of a vector: each rank has its own
  CHECK(joined({rankOf(0, {stepOf(117), stepOf(118)}), rankOf(1, {ownCount}), rankOf(2, {stepOf(118)}),
                rankOf(3, {stepOf(116), stepOf(117), stepOf(118)})})
            .empty());
  CHECK(joined({rankOf(0, {}), rankOf(1, {}), rankOf(2, {}), rankOf(3, {})}).empty());
}

TEST_CASE("calls that are no operations are told while they wait") {
  Entry shrink;
  shrink.call = "CommShrink";
  shrink.startNs = 145 * kSecond;
  const std::vector<Finding> found = joined({rankOf(0, {stepOf(117), shrink}), rankOf(1, {stepOf(117), shrink}),
                                             rankOf(2, {stepOf(117)}), rankOf(3, {stepOf(117)})});
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "ranks 0, 1 are in CommShrink since 3.0 s");
}

TEST_CASE("of several files of a rank the later one counts, and communicators are told apart") {
  std::vector<Recording> files = {rankOf(0, {stepOf(1)}), rankOf(0, {stepOf(2)})};
  files[1].writtenNs += 1;
  files[1].path = "later";
  Recording other = rankOf(0, {});
  other.communicator = "d";
  files.push_back(other);
  std::vector<std::string> notes;
  const std::vector<Group> groups = groupsOf(std::move(files), notes);
  REQUIRE(groups.size() == 2);  // the latest last
  CHECK(groups[0].communicator == "d");
  CHECK(groups[1].of.at(0).path == "later");
  CHECK(groups[1].writtenNs() == groups[0].writtenNs() + 1);
  CHECK(notes == std::vector<std::string>{"rank0: left out, rank 0 has a later file"});
}

TEST_CASE("words") {
  CHECK(ranksText({3}) == "rank 3");
  CHECK(ranksText({5, 0, 1, 2}) == "ranks 0-2, 5");
  CHECK(ranksText({0, 1}) == "ranks 0, 1");
  CHECK(numberText(25000000) == "25M");
  CHECK(numberText(25000001) == "25000001");
  CHECK(numberText(64000) == "64k");
  CHECK(numberText(999) == "999");
  CHECK(durationText(12 * 1000000) == "12 ms");
  CHECK(durationText(29900 * int64_t{1000000}) == "29.9 s");
  CHECK(durationText(-5) == "0 ms");
}

TEST_CASE("damaged files are told from good ones, whatever is wrong with them") {
  const Folder folder;
  const std::string good = kGood;
  const std::string path = folder.write("f", good);
  CHECK(readRecording(path).failure->text == "late");
  CHECK(readRecording(path).entries.at(0).waitsFor == std::vector<int>{3});
  for (size_t length = 0; length + 2 < good.size(); ++length) {
    CAPTURE(length);
    folder.write("f", good.substr(0, length));
    CHECK_THROWS_AS(readRecording(path), DamagedFile);
  }
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at)
    for (const char bit : {'\x01', '\x80'}) {
      std::string wrong = good;
      wrong[at] = static_cast<char>(wrong[at] ^ bit);
      folder.write("f", wrong);
      try {
        (void)findingsOf(Group{"c", "", "", 4, {{1, readRecording(path)}}});
      } catch (const DamagedFile&) {
        ++refused;
      }
    }
  CHECK(refused > good.size());
  const std::pair<const char*, const char*> changes[] = {{"\"rank\": 1", "\"rank\": 4"},
                                                         {"\"rank\": 1", "\"rank\": -1"},
                                                         {"\"ranks\": 4", "\"ranks\": 2000000000"},
                                                         {"[3]", "[4]"},
                                                         {"[3]", "[-1]"},
                                                         {"[3]", "[1e300]"},
                                                         {"\"n\": 10", "\"n\": -10"},
                                                         {"\"n\": 10", "\"n\": 1.5"},
                                                         {"\"n\": 10", "\"n\": \"10\""},
                                                         {"Version\": 1", "Version\": 2"},
                                                         {"sparsecoll-flight", "sparsecoll"},
                                                         {"\"plan\": \"00\"", "\"plan\": 0"}};
  for (const auto& [from, to] : changes) {
    CAPTURE(to);
    std::string wrong = good;
    wrong.replace(wrong.find(from), std::string(from).size(), to);
    folder.write("f", wrong);
    CHECK_THROWS_AS(readRecording(path), DamagedFile);
  }
  for (const char* const text : {"", "[]", "null", "7", "{}", "\xff"}) {
    folder.write("f", text);
    CHECK_THROWS_AS(readRecording(path), DamagedFile);
  }
  CHECK_THROWS_AS(readRecording(folder.path()), UnreadableFile);
  CHECK_THROWS_AS(readRecording(folder.path() / "none"), UnreadableFile);
}
