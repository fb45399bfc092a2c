// The public header and the guide, read as text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sparsecoll::test {

std::string sourceFolder();
// A file of the sources.
std::string textOf(const std::string& path);
std::string publicHeader();

struct Enumerator {
  std::string name;
  int32_t value = 0;
  std::string comment;  // what stands behind it
  bool unsupported() const { return comment.find("Unsupported in this version") != std::string::npos; }
};

// Every enumeration of the header by its type's name, without the last value of each, which is no value.
std::map<std::string, std::vector<Enumerator>> enumerationsOfHeader();

std::vector<std::string> wordsOf(const std::string& text);

// The lines of a list in the head of the header, which begin with seven spaces, behind the line that ends in
// introduction.
std::vector<std::string> listOfHead(const std::string& introduction);

}  // namespace sparsecoll::test
