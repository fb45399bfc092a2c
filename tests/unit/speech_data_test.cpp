// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/speech_data.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "examples/speech/wav.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

using namespace examples;
using sparsecoll::test::Folder;
using sparsecoll::test::messageOf;

std::string number(uint32_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string chunk(const std::string& name, const std::string& content) {
  return name + number(static_cast<uint32_t>(content.size()), 4) + content + std::string(content.size() % 2, '\0');
}

std::string format(uint32_t rate, uint32_t kind = 1, uint32_t channels = 1, uint32_t bits = 16) {
  const uint32_t frame = channels * bits / 8;
  return chunk("fmt ", number(kind, 2) + number(channels, 2) + number(rate, 4) + number(frame * rate, 4) +
                           number(frame, 2) + number(bits, 2));
}

std::string samples(const std::vector<int16_t>& values) {
  std::string content;
  for (const int16_t value : values) content += number(static_cast<uint16_t>(value), 2);
  return chunk("data", content);
}

std::string riff(const std::string& chunks) {
  return "RIFF" + number(static_cast<uint32_t>(4 + chunks.size()), 4) + "WAVE" + chunks;
}

std::string wav(const std::vector<int16_t>& values, uint32_t rate = 8000) {
  return riff(format(rate) + samples(values));
}

/// One take of every digit of one speaker; the one sample of each tells which it is.
void writeDigits(const Folder& folder, const std::string& speaker, int first, int last) {
  for (int digit = 0; digit < 10; ++digit) {
    for (int take = first; take <= last; ++take) {
      const auto sample = static_cast<int16_t>(100 * take + digit);
      folder.write(std::to_string(digit) + "_" + speaker + "_" + std::to_string(take) + ".wav", wav({sample}));
    }
  }
}

int sampleOf(float value) { return static_cast<int>(value * 32768); }

}  // namespace

TEST_CASE("wav: samples and their rate are read, other chunks are passed over") {
  const Folder folder;
  const std::vector<int16_t> values{0, 1, -1, 32767, -32768};
  for (const auto& bytes : {wav(values, 16000), riff(chunk("LIST", "odd") + format(16000) + samples(values)),
                            riff(format(16000) + chunk("fact", "1234") + samples(values) + chunk("LIST", "x"))}) {
    const auto recording = readWav(folder.write("a.wav", bytes));
    CHECK(recording.samples == values);
    CHECK(recording.rate == 16000);
  }
}

TEST_CASE("wav: a damaged or foreign file is named with the reason") {
  const auto twice = samples({1}) + samples({2});
  struct Row {
    std::string bytes;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"", "no WAV file"},
      {"RIFF", "no WAV file"},
      {"<html>not found</html>", "no WAV file"},
      {"RIFX" + wav({1}).substr(4), "no WAV file"},
      {wav({1, 2}).substr(0, 46), "truncated: 46 bytes of 48"},
      {wav({1}) + "x", "damaged: 1 bytes behind the end"},
      {riff(format(8000)), "no data chunk"},
      {riff(samples({1})), "a data chunk without a fmt chunk before it"},
      {riff(format(8000) + samples({})), "no samples"},
      {riff(format(8000) + chunk("data", "abc")), "3 bytes of samples"},
      {riff(format(8000) + "data" + number(100, 4) + "ab"), "a chunk goes on behind the end"},
      {riff(format(8000) + "data" + number(0xffffffff, 4) + "ab"), "a chunk goes on behind the end"},
      {riff(format(8000) + samples({1}) + "LIST"), "the last chunk has no header"},
      {riff(format(8000) + twice), "two data chunks"},
      {riff(format(8000) + format(8000) + samples({1})), "two fmt chunks"},
      {riff(chunk("fmt ", "short") + samples({1})), "a fmt chunk of 5 bytes"},
      {riff(format(8000, 3) + samples({1})), "format 3, and only PCM"},
      {riff(format(8000, 1, 2) + samples({1})), "2 channels"},
      {riff(format(8000, 1, 1, 8) + samples({1})), "8 bits a sample"},
      {riff(format(0) + samples({1})), "0 samples a second"},
      {riff(format(4000000000) + samples({1})), "4000000000 samples a second"},
  };
  for (const auto& row : rows) {
    const Folder folder;
    CAPTURE(row.reason);
    const auto message = messageOf([&] { readWav(folder.write("a.wav", row.bytes)); });
    CHECK_THAT(message, Catch::StartsWith((folder.path() / "a.wav").string() + ": "));
    CHECK_THAT(message, Catch::Contains(row.reason));
  }
  CHECK_THAT(messageOf([] { readWav("none.wav"); }), Catch::Contains("none.wav: no such file"));
}

TEST_CASE("wav: no file that was cut off or changed is read beyond its end") {
  const Folder folder;
  const std::string whole = riff(chunk("LIST", "text") + format(8000) + samples({1, 2, 3, 4}));
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_THROWS_AS(readWav(folder.write("a.wav", whole.substr(0, length))), std::runtime_error);
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {1, 0x80, 0xff}) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const auto path = folder.write("a.wav", bytes);
      try {
        const auto recording = readWav(path);
        CHECK(recording.samples.size() <= 4);
      } catch (const std::runtime_error&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 3 * 30);  // of the 52 bytes that are no samples
}

TEST_CASE("manifests: recordings and transcripts, by paths from the manifest's folder") {
  const Folder folder;
  folder.write("wav/a.wav", wav({16384, -32768}));
  folder.write("txt/a.txt", "  It's ONE\nword \n");
  folder.write("b.wav", wav({1}));
  folder.write("b.txt", "two");
  folder.write("an4_train_manifest.csv", "wav/a.wav,txt/a.txt\nb.wav,b.txt\r\n");
  folder.write("an4_val_manifest.csv",
               (folder.path() / "b.wav").string() + "," + (folder.path() / "b.txt").string() + "\n");
  const auto data = readManifests(folder.path(), {});
  CHECK(data.rate == 8000);
  CHECK_FALSE(data.synthetic);
  REQUIRE(data.train->size() == 2);
  CHECK(data.train->read(0, 0).text == "it's one word");
  CHECK(data.train->read(7, 0).samples == std::vector<float>{0.5f, -1.0f});
  CHECK(data.train->read(0, 1).text == "two");
  REQUIRE(data.test->size() == 1);
  CHECK(data.test->read(0, 0).text == "two");
  CHECK(readManifests(folder.path(), {.train = 1}).train->size() == 1);
}

TEST_CASE("manifests: what cannot be read is named with its place") {
  const Folder folder;
  folder.write("a.wav", wav({1}));
  folder.write("fast.wav", wav({1}, 16000));
  folder.write("bad.wav", wav({1}).substr(0, 45));
  folder.write("a.txt", "one\n");
  folder.write("7.txt", "one 7\n");
  folder.write("blank.txt", " \n");
  folder.write("test.csv", "a.wav,a.txt\n");
  struct Row {
    const char* manifest;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"", "train.csv: the file is empty"},
      {"a.wav,a.txt\na.wav,a.t", "line 2: truncated"},
      {"a.wav\n", "line 1: a line is the path of a WAV file"},
      {"a.wav,a.txt\na.wav,3,a.txt\n", "line 2: a line is the path of a WAV file"},
      {",a.txt\n", "line 1: a path is empty"},
      {"a.wav,\n", "line 1: a path is empty"},
      {"none.wav,a.txt\n", "none.wav: no such file"},
      {"bad.wav,a.txt\n", "bad.wav: truncated"},
      {"a.wav,a.txt\nfast.wav,a.txt\n", "fast.wav: 16000 samples a second where the files before have 8000"},
      {"a.wav,none.txt\n", "none.txt: no such file"},
      {"a.wav,7.txt\n", "7.txt: '7' is none of a to z"},
      {"a.wav,blank.txt\n", "blank.txt: no words"},
  };
  for (const auto& row : rows) {
    folder.write("train.csv", row.manifest);
    CAPTURE(row.manifest);
    CHECK_THAT(messageOf([&] { readManifests(folder.path(), {}); }), Catch::Contains(row.reason));
  }
  std::filesystem::remove(folder.path() / "train.csv");
  CHECK_THAT(messageOf([&] { readManifests(folder.path(), {}); }), Catch::Contains("holds no train.csv or"));
  CHECK_THAT(messageOf([&] { readManifests(folder.path() / "none", {}); }), Catch::Contains("no such directory"));
}

TEST_CASE("digits: strings of one speaker's takes, by the data set's own split") {
  const Folder folder;
  writeDigits(folder, "ann", 3, 7);
  writeDigits(folder, "bo", 4, 6);
  folder.write("README.md", "no recording");
  const auto data = readDigits(folder.path(), {}, 1);
  CHECK(data.rate == 8000);
  REQUIRE(data.train->size() == 50 / 4);  // 30 takes of ann and 20 of bo
  const std::vector<std::string> words{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  std::set<size_t> lengths;
  std::map<int, size_t> tested;
  const auto check = [&](const Utterance& utterance, bool train) {
    lengths.insert(utterance.samples.size());
    std::string text;
    for (const float value : utterance.samples) {
      const int digit = sampleOf(value) % 100, take = sampleOf(value) / 100;
      text += (text.empty() ? "" : " ") + words.at(static_cast<size_t>(digit));
      CHECK((take >= 5) == train);
      if (!train) ++tested[sampleOf(value)];
    }
    CHECK(utterance.text == text);
  };
  for (size_t epoch = 0; epoch < 20; ++epoch)
    for (size_t i = 0; i < data.train->size(); ++i) check(data.train->read(epoch, i), true);
  CHECK(lengths == std::set<size_t>{1, 2, 3, 4, 5, 6, 7});
  for (size_t i = 0; i < data.test->size(); ++i) check(data.test->read(0, i), false);
  CHECK(tested.size() == 20);  // 3 and 4 of ann, 4 of bo, whose take 4 has the same samples
  for (const auto& [sample, count] : tested) CHECK(count == (sample / 100 == 4 ? 4 : 2));
}

TEST_CASE("digits: the seed decides what is trained, and not what is tested") {
  const Folder folder;
  for (const char* speaker : {"ann", "bo"}) writeDigits(folder, speaker, 3, 7);
  const auto texts = [&](uint64_t seed, size_t epoch, bool train) {
    const auto data = readDigits(folder.path(), {.train = 30, .test = 6}, seed);
    std::vector<std::string> all;
    const auto& set = train ? *data.train : *data.test;
    for (size_t i = 0; i < set.size(); ++i) all.push_back(set.read(epoch, i).text);
    return all;
  };
  CHECK(texts(1, 0, true).size() == 30);
  CHECK(texts(1, 0, true) == texts(1, 0, true));
  CHECK(texts(1, 0, true) != texts(2, 0, true));
  CHECK(texts(1, 0, true) != texts(1, 1, true));
  CHECK(texts(1, 0, false).size() == 6);
  CHECK(texts(1, 0, false) == texts(2, 3, false));
}

TEST_CASE("digits: what cannot be read is named") {
  const auto message = [](const Folder& folder) { return messageOf([&] { readDigits(folder.path(), {}, 1); }); };
  for (const char* name : {"1_ann.wav", "10_ann_3.wav", "x_ann_3.wav", "1_ann_x.wav", "1__3.wav", "one.wav"}) {
    const Folder folder;
    folder.write(name, wav({1}));
    CAPTURE(name);
    CHECK_THAT(message(folder), Catch::Contains(std::string(name) + ": the name should be DIGIT_SPEAKER_TAKE.wav"));
  }
  const Folder folder;
  CHECK_THAT(message(folder), Catch::Contains("holds no .wav files"));
  CHECK_THAT(messageOf([&] { readDigits(folder.path() / "none", {}, 1); }), Catch::Contains("no such directory"));
  folder.write("recordings/1_ann_5.wav", wav({1}));
  CHECK_THAT(message(folder), Catch::Contains("ann has no take from 0 to 4 to test"));
  folder.write("recordings/1_ann_4.wav", wav({1}, 16000));
  CHECK_THAT(message(folder), Catch::Contains("samples a second where the files before have"));
  folder.write("recordings/1_ann_4.wav", wav({1}).substr(0, 20));
  CHECK_THAT(message(folder), Catch::Contains("1_ann_4.wav: truncated"));
  std::filesystem::remove(folder.path() / "recordings/1_ann_4.wav");
  folder.write("recordings/1_bo_4.wav", wav({1}));
  folder.write("recordings/1_ann_4.wav", wav({1}));
  CHECK_THAT(message(folder), Catch::Contains("bo has no take from 5 on to train"));
  CHECK_THAT(messageOf([] { openSpeech("a", "b", {}, 1); }), Catch::Contains("two sources"));
}

TEST_CASE("speech: the synthetic tones depend on their seed only") {
  const auto data = makeSyntheticSpeech({.train = 20, .test = 5}, 3), again = makeSyntheticSpeech({}, 3);
  CHECK(data.synthetic);
  CHECK_THAT(data.source, Catch::Contains("SYNTHETIC"));
  CHECK(data.train->size() == 20);
  CHECK(data.test->size() == 5);
  for (size_t i = 0; i < 20; ++i) {
    const auto utterance = data.train->read(0, i);
    CHECK(utterance.samples == again.train->read(5, i).samples);
    CHECK(utterance.samples != makeSyntheticSpeech({}, 4).train->read(0, i).samples);
    CHECK(utterance.samples.size() ==
          560 * utterance.text.size() -
              160 * static_cast<size_t>(std::count(utterance.text.begin(), utterance.text.end(), ' ')));
    CHECK(std::all_of(utterance.samples.begin(), utterance.samples.end(), [](float s) { return std::abs(s) < 1; }));
  }
}
