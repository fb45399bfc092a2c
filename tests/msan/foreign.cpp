// What libraries write that were compiled without MemorySanitizer, told to it. The linker has these called in place of
// theirs (--wrap).
#include <sanitizer/msan_interface.h>

#include <cstddef>
#include <list>
#include <map>

#define HOOK _ZNSt8__detail15_List_node_base7_M_hookEPS0_
#define INSERT _ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_
#define JOINED(a, b) a##b
#define WRAPPED(name) JOINED(__wrap_, name)
#define THEIRS(name) JOINED(__real_, name)

using Node = std::__detail::_List_node_base;
using TreeNode = std::_Rb_tree_node_base;

extern "C" {

void THEIRS(HOOK)(Node* node, Node* position);
void WRAPPED(HOOK)(Node* node, Node* position);
void WRAPPED(HOOK)(Node* node, Node* position) {
  THEIRS(HOOK)(node, position);
  __msan_unpoison(node, sizeof *node);
}

void THEIRS(INSERT)(bool left, TreeNode* node, TreeNode* parent, TreeNode& header);
void WRAPPED(INSERT)(bool left, TreeNode* node, TreeNode* parent, TreeNode& header);
void WRAPPED(INSERT)(bool left, TreeNode* node, TreeNode* parent, TreeNode& header) {
  THEIRS(INSERT)(left, node, parent, header);
  __msan_unpoison(node, sizeof *node);
}

void THEIRS(randombytes_buf)(void* buffer, size_t size);
void WRAPPED(randombytes_buf)(void* buffer, size_t size);
void WRAPPED(randombytes_buf)(void* buffer, size_t size) {
  THEIRS(randombytes_buf)(buffer, size);
  __msan_unpoison(buffer, size);
}

int THEIRS(crypto_auth_hmacsha256_final)(void* state, unsigned char* out);
int WRAPPED(crypto_auth_hmacsha256_final)(void* state, unsigned char* out);
int WRAPPED(crypto_auth_hmacsha256_final)(void* state, unsigned char* out) {
  const int result = THEIRS(crypto_auth_hmacsha256_final)(state, out);
  __msan_unpoison(out, 32);
  return result;
}
}
