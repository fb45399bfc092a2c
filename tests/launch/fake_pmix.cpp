// A libpmix of the tests' own: ranks of one host meet by files in FAKE_PMIX_FOLDER. FAKE_PMIX_FAILS and FAKE_PMIX_STUCK
// name a call that fails, or does not return, FAKE_PMIX_MUTE keeps from it why; FAKE_PMIX_RANK and FAKE_PMIX_WORD say
// another rank, or another word: "none" is a value that is no text, "null" a text without one, "nothing" no value.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "transports/bootstrap/pmix_abi.h"

using namespace sparsecoll::bootstrap::pmix;

namespace {

constexpr int kError = -1;

std::string text(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

std::string file(const std::string& name) { return text("FAKE_PMIX_FOLDER") + "/" + name; }

int result(const char* call) {
  while (text("FAKE_PMIX_STUCK") == call) (void)pause();
  return text("FAKE_PMIX_FAILS") == call ? kError : kSuccess;
}

}  // namespace

extern "C" {

int PMIx_Init(Proc* self, Info*, size_t) {
  const std::string other = text("FAKE_PMIX_RANK");
  std::strcpy(self->space, "fake");
  self->rank = static_cast<uint32_t>(std::stoul(other.empty() ? text("PMIX_RANK") : other));
  return result("Init");
}

int PMIx_Put(uint8_t scope, const char* key, Value* value) {
  if (scope != kGlobal || value->type != kString) return kError;
  std::ofstream(file("new")) << value->data.text;
  return std::rename(file("new").c_str(), file(key).c_str()) == 0 ? result("Put") : kError;
}

int PMIx_Commit() { return result("Commit"); }

int PMIx_Fence(const Proc*, size_t, const Info* info, size_t count) {
  if (count != 1 || std::strcmp(info->key, kCollect) != 0 || !info->value.data.flag) return kError;
  std::ofstream(file("fence" + text("PMIX_RANK")));
  for (int rank = 0; rank < std::stoi(text("FAKE_PMIX_SIZE")); ++rank)
    while (access(file("fence" + std::to_string(rank)).c_str(), F_OK) != 0) usleep(1000);
  return result("Fence");
}

int PMIx_Get(const Proc* of, const char* key, const Info*, size_t, Value** value) {
  if (of->rank != 0 || std::strcmp(of->space, "fake") != 0) return kError;
  std::string word = text("FAKE_PMIX_WORD");
  if (word.empty()) std::getline(std::ifstream(file(key)), word);
  if (word == "nothing") return result("Get");
  *value = static_cast<Value*>(std::calloc(1, sizeof(Value)));
  (*value)->type = word == "none" ? kBool : kString;
  if (word != "none" && word != "null") (*value)->data.text = strdup(word.c_str());
  return result("Get");
}

int PMIx_Finalize(const Info*, size_t) {
  std::ofstream(file("finalized"), std::ios::app) << text("PMIX_RANK") << '\n';
  return result("Finalize");
}

const char* PMIx_Error_string(int) { return std::getenv("FAKE_PMIX_MUTE") != nullptr ? nullptr : "the test's error"; }

}  // extern "C"
