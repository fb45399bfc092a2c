#include "tests/contract/words_of_header.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace sparsecoll::test {

namespace {

const std::string kPrefix = "sparsecoll";

// A place where an enumerator begins: "sparsecollName = ".
struct Start {
  size_t at, nameEnd, valueAt;
};

std::vector<Start> startsIn(const std::string& body) {
  std::vector<Start> starts;
  for (size_t at = body.find(kPrefix); at != std::string::npos; at = body.find(kPrefix, at + 1)) {
    size_t end = at;
    while (end < body.size() && std::isalnum(static_cast<unsigned char>(body[end])) != 0) ++end;
    if (body.compare(end, 3, " = ") == 0) starts.push_back({at, end, end + 3});
  }
  return starts;
}

std::vector<Enumerator> enumeratorsIn(const std::string& body) {
  std::vector<Enumerator> found;
  const std::vector<Start> starts = startsIn(body);
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t end = i + 1 < starts.size() ? starts[i + 1].at : body.size();
    Enumerator one;
    one.name = body.substr(starts[i].at, starts[i].nameEnd - starts[i].at);
    one.value = static_cast<int32_t>(std::strtol(body.c_str() + starts[i].valueAt, nullptr, 0));
    one.comment = body.substr(starts[i].valueAt, end - starts[i].valueAt);
    if (one.value != 0x7fffffff) found.push_back(one);
  }
  return found;
}

}  // namespace

std::string sourceFolder() { return SPARSECOLL_SOURCE_DIR; }

std::string textOf(const std::string& path) {
  std::ifstream file(sourceFolder() + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) throw std::runtime_error(path + " cannot be read");
  return text.str();
}

std::string publicHeader() { return textOf("include/sparsecoll/sparsecoll.h"); }

std::map<std::string, std::vector<Enumerator>> enumerationsOfHeader() {
  const std::string text = publicHeader();
  const std::string opening = "typedef enum {";
  std::map<std::string, std::vector<Enumerator>> all;
  for (size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1)) {
    const size_t end = text.find("\n} sparsecoll", at);
    const size_t oneLine = text.find("} sparsecoll", at);
    const size_t close = std::min(end, oneLine);
    const size_t nameAt = text.find(kPrefix, close);
    all[text.substr(nameAt, text.find(';', nameAt) - nameAt)] =
        enumeratorsIn(text.substr(at + opening.size(), close - at - opening.size()));
  }
  return all;
}

std::vector<std::string> wordsOf(const std::string& text) {
  std::istringstream from(text);
  std::vector<std::string> words;
  for (std::string word; from >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> listOfHead(const std::string& introduction) {
  std::istringstream lines(publicHeader());
  std::vector<std::string> list;
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    if (!found) {
      found = line.size() >= introduction.size() &&
              line.compare(line.size() - introduction.size(), introduction.size(), introduction) == 0;
    } else if (line.compare(0, 7, "       ") == 0) {
      list.push_back(line.substr(7));
    } else {
      break;
    }
  }
  if (list.empty()) throw std::runtime_error("the head of the header has no list behind \"" + introduction + "\"");
  return list;
}

}  // namespace sparsecoll::test
