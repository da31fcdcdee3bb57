// tokenizer_impl.h -- what a Tokenizer is inside; for the files of tokenizer/ only.
//
// Loaders and trainers fill one in this order, and everything else only reads it:
//
//     tokenizer_new -> vocab_add ... -> merge_add ... -> tokenizer_finish
//
// Three tables decide ids:
//   token[]      id -> bytes and flags; all bytes in one blob
//   find         bytes -> id, of tokens that plain text can become (TOKEN_PLAIN); and `piece`, the
//                same for encoding: only short ones, one look at memory each
//   merge table  (left id, right id) -> (priority, merged id); the smallest priority merges first,
//                the leftmost of equals
//
// A rank file (tiktoken) names no pairs: any two tokens whose bytes together are a token may merge,
// and the priority is the rank of the result. vocab_all_splits writes these pairs out. In
// merges.txt and tokenizer.json pairs are explicit, and the priority is the line number.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tokenizer/bert_normal.h"
#include "tokenizer/piece_key.h"
#include "tokenizer/pretoken.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode_class.h"
#include "tokenizer/word_count.h"

typedef enum TokenizerKind { KIND_BPE, KIND_CHAR, KIND_WORDPIECE } TokenizerKind;

enum {
    TOKEN_USED = 1,    // the id exists
    TOKEN_PLAIN = 2,   // plain text can become it
    TOKEN_SPECIAL = 4, // matched in the text when special tokens are allowed
    TOKEN_ALWAYS = 8,  // matched in the text always (an added token that is not special)
    // Depends on the text around it, so it cannot be allowed in text: takes the white space on its
    // left, on its right; is no part of a word.
    TOKEN_LSTRIP = 16,
    TOKEN_RSTRIP = 32,
    TOKEN_WORD = 64,
    TOKEN_NORMAL = 128, // the same: is looked for in the normalised text
    TOKEN_AROUND = TOKEN_LSTRIP | TOKEN_RSTRIP | TOKEN_WORD | TOKEN_NORMAL,
    TOKEN_MATCH = TOKEN_SPECIAL | TOKEN_ALWAYS
};

enum {
    TOKEN_MAX_ID = 1 << 28,  // a file that names a larger id is broken
    WORD_MAX = INT32_MAX / 4 // bytes in one piece that can be merged
};

typedef struct Token {
    int64_t at; // into blob
    int32_t bytes;
    uint32_t flags;
} Token;

typedef struct Merge {
    int32_t left, right, result, priority;
} Merge;

typedef struct MergeSlot {
    uint64_t pair; // left << 32 | right; MERGE_FREE
    int32_t priority, result;
} MergeSlot;

typedef struct BytePair { // MergeSlot of two single bytes
    int32_t priority, result;
} BytePair;

typedef struct PieceSlot {
    PieceKey key;
    int32_t bytes; // 0: free
    int32_t id;
} PieceSlot;

typedef struct WordRules { // WordPiece; tokenizer_new: as BERT has them, all steps off
    uint32_t steps;        // of bert_normalize
    int32_t max_chars;     // a longer word is unknown
    int32_t longest;       // bytes in the longest plain token
    int32_t unknown;       // [UNK]
    int32_t before, after; // [CLS] and [SEP]: what may stand around a text; or -1
    bool clean_up;         // decoding takes spaces in front of marks away
} WordRules;

#define FIND_FREE   UINT64_MAX
#define MERGE_FREE  UINT64_MAX
#define NO_PRIORITY INT32_MAX

struct Tokenizer {
    TokenizerKind kind;
    PretokenPattern pattern;
    bool whole_first; // a piece that is a token is that token, whatever the merges say
    bool regular;     // every plain token is what its own bytes merge to
    bool strips;      // some special token depends on the text around it
    Buf blob;
    Token *token;
    int64_t n, cap;   // ids are below n
    int64_t id_limit; // no id from here on is taken
    uint64_t *find;   // open addressing; upper half of the hash << 32 | id, or FIND_FREE
    uint64_t find_mask;
    int64_t find_n;
    Merge *merge; // by priority, then left, then right
    int64_t merge_n, merge_cap;
    MergeSlot *slot; // open addressing
    uint64_t slot_mask;
    uint64_t *maybe; // a bit for each hash value of a pair that merges: most look-ups end here
    uint64_t maybe_mask;
    BytePair *byte_pair; // [256 * 256] the merge of two bytes, or NO_PRIORITY
    PieceSlot *piece;    // open addressing; NULL unless whole_first, regular or WordPiece
    uint64_t piece_slots_mask;
    int32_t byte_id[256];
    int32_t *match; // ids with TOKEN_MATCH, longest first
    int64_t match_n;
    bool match_first[256]; // first bytes of those
    int32_t end_token;
    WordRules word;
};

LT_INLINE const char *token_bytes(const Tokenizer *t, int32_t id)
{
    return t->blob.data + t->token[id].at;
}

LT_INLINE uint64_t hash_bytes(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w;
        __builtin_memcpy(&w, p, 8);
        h = (h ^ w) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    uint64_t w = 0;
    if (n) __builtin_memcpy(&w, p, n);
    h = (h ^ w) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

LT_INLINE uint64_t hash_pair(uint64_t pair)
{
    const uint64_t h = pair * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

// The merge of two adjacent tokens, or NULL.
LT_INLINE const MergeSlot *merge_find(const Tokenizer *t, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t h = hash_pair(pair), bit = (h >> 24) & t->maybe_mask;
    if (!(t->maybe[bit >> 6] >> (bit & 63) & 1)) return NULL;
    for (uint64_t i = h & t->slot_mask;; i = (i + 1) & t->slot_mask) {
        if (t->slot[i].pair == pair) return &t->slot[i];
        if (t->slot[i].pair == MERGE_FREE) return NULL;
    }
}

// The plain token of n <= PIECE_MAX bytes, or -1; there is a table of them (Tokenizer.piece).
LT_INLINE int32_t piece_find(const Tokenizer *t, const PieceKey *key, int64_t n, uint64_t hash)
{
    for (uint64_t i = hash & t->piece_slots_mask; t->piece[i].bytes;
         i = (i + 1) & t->piece_slots_mask)
        if (t->piece[i].bytes == n && piece_key_equal(&t->piece[i].key, key)) return t->piece[i].id;
    return -1;
}

// vocab.c
LT_MUST_CHECK Status tokenizer_new(Tokenizer **out, TokenizerKind kind, PretokenPattern pattern,
                                   Err *err);
// A file names `tokens` tokens: ids far above that are wrong, and must not take memory for all that
// lie below them.
void vocab_expect(Tokenizer *t, int64_t tokens);
// The id must be free and, of a plain token, the bytes new: else ERR_FORMAT. Not empty.
LT_MUST_CHECK Status vocab_add(Tokenizer *t, int64_t id, const void *bytes, size_t n,
                               uint32_t flags, Err *err);
// Lets plain text become a token that was added without TOKEN_PLAIN. The bytes must be new.
LT_MUST_CHECK Status vocab_make_plain(Tokenizer *t, int32_t id, Err *err);
// The plain token of these bytes, or -1.
int32_t vocab_find(const Tokenizer *t, const void *bytes, size_t n);
LT_MUST_CHECK Status merge_add(Tokenizer *t, int32_t left, int32_t right, int32_t result,
                               int32_t priority, Err *err);
LT_MUST_CHECK Status vocab_all_splits(Tokenizer *t, Err *err); // merge_add for a rank file
// Builds the tables and checks the whole: all bytes present, no pair twice, no unused id below the
// largest plain one.
LT_MUST_CHECK Status tokenizer_finish(Tokenizer *t, Err *err);

// bpe_merge.c: the ids that n bytes of one piece merge to.
typedef struct BpeScratch { // reused from piece to piece; zero-initialise
    void *node, *heap;
    int64_t node_cap, heap_cap;
    int64_t steps; // heap entries looked at in long pieces so far: the work done
} BpeScratch;
void bpe_scratch_free(BpeScratch *s);
LT_MUST_CHECK Status bpe_merge(const Tokenizer *t, const uint8_t *bytes, int64_t n, BpeScratch *s,
                               TokenIds *out, Err *err);

// wordpiece.c: the ids of one piece. words: scratch memory.
LT_MUST_CHECK Status wordpiece_encode(const Tokenizer *t, const uint8_t *piece, int64_t n,
                                      Buf *words, TokenIds *out, Err *err);
// Appends what one id adds to a text. text: scratch memory.
LT_MUST_CHECK Status wordpiece_decode(const Tokenizer *t, int32_t id, bool first, Buf *text,
                                      Buf *out, Err *err);
// Is the token written "##..."?
LT_INLINE bool wordpiece_goes_on(const Tokenizer *t, int32_t id)
{
    return t->token[id].bytes >= 2 && memcmp(token_bytes(t, id), "##", 2) == 0;
}
// BERT's special tokens, in the order in which a new vocabulary has them.
enum { WORDPIECE_SPECIALS = 5 };
extern const char *const wordpiece_specials[WORDPIECE_SPECIALS];
// Finds [UNK], [CLS] and [SEP] among the tokens.
void wordpiece_name_tokens(Tokenizer *t);

// piece_encode.c, char_level.c: append the ids of plain text that is cut off from its surroundings.
typedef struct PieceEncoder PieceEncoder; // what one thread remembers from text to text
// bytes: about how many will be encoded.
LT_MUST_CHECK Status piece_encoder_open(PieceEncoder **out, const Tokenizer *t, size_t bytes,
                                        Err *err);
void piece_encoder_close(PieceEncoder *e); // NULL is fine
LT_MUST_CHECK Status piece_encode(PieceEncoder *e, const uint8_t *text, size_t bytes, TokenIds *out,
                                  Err *err);
LT_MUST_CHECK Status char_encode(const Tokenizer *t, const uint8_t *text, size_t bytes,
                                 size_t offset, TokenIds *out, Err *err);

// Trainers.
// Merges the most frequent pair of tokens again and again, until there are `limit` ids or no pair
// occurs twice. Uses up the texts in `words`; a word of count 0 is left out. on: ids; steps: places
// looked at in merges are added to it; both may be NULL.
LT_MUST_CHECK Status bpe_learn(Tokenizer *vocab, int64_t limit, WordCount *words,
                               const OnProgress *on, int64_t *steps, Err *err);
LT_MUST_CHECK Status bpe_check_size(int64_t vocab_size, Err *err);
LT_MUST_CHECK Status wordpiece_check_size(int64_t vocab_size, Err *err);
LT_MUST_CHECK Status bpe_train(Tokenizer **out, PretokenPattern pattern, int64_t vocab_size,
                               WordCount *words, const OnProgress *on, int64_t *steps, Err *err);
enum { WORDPIECE_SYMBOL = 6 }; // bytes in the longest name of a character
// The name of the character at byte `at` of a word: "##x" when it is not the first. Returns the
// length of the name; *len: of the character.
size_t wordpiece_symbol(const char *word, int64_t at, int64_t bytes, char *name, int64_t *len);
LT_MUST_CHECK Status wordpiece_train(Tokenizer **out, PretokenPattern pattern, int64_t vocab_size,
                                     WordCount *words, const OnProgress *on, Err *err);
typedef struct CharSet {
    bool seen[UTF8_INVALID + 256];
} CharSet;
void char_set_add(CharSet *set, const uint8_t *text, size_t bytes);
// The end of the last character that is certainly whole, whatever follows.
const uint8_t *char_last_cut(const uint8_t *begin, const uint8_t *end);
LT_MUST_CHECK Status char_train(Tokenizer **out, const CharSet *set, Err *err);

// Loaders of one format each. PRETOKEN_NONE: choose the pattern by the number of ranks.
LT_MUST_CHECK Status load_hf_json(Tokenizer **out, const Buf *json, Err *err);
LT_MUST_CHECK Status load_gpt2_files(Tokenizer **out, const char *vocab_path,
                                     const char *merges_path, PretokenPattern pattern, Err *err);
LT_MUST_CHECK Status load_ranks(Tokenizer **out, const Buf *text, PretokenPattern pattern,
                                Err *err);
// vocab.txt. PRETOKEN_NONE: as the tokenizer_config.json beside it says, else uncased.
LT_MUST_CHECK Status load_vocab_txt(Tokenizer **out, const char *path, const Buf *text,
                                    PretokenPattern pattern, Err *err);

// byte_map.c: GPT-2's way to write any byte as a visible character.
extern const uint8_t byte_map_order[256]; // ids 0..255 of a trained vocabulary -> byte
// UTF-8 of the visible form of n bytes, and back (-1: not such a form; else the number of bytes).
LT_MUST_CHECK Status byte_map_write(const void *bytes, size_t n, Buf *out, Err *err);
int64_t byte_map_read(const char *text, size_t n, uint8_t *out);

// The name of a byte a character vocabulary cannot write in JSON: NUL, or no part of valid UTF-8.
bool char_byte_name(const char *text, size_t n, uint8_t *byte); // "<0xNN>"?

LT_MUST_CHECK Status token_ids_reserve(TokenIds *ids, int64_t extra, Err *err);
