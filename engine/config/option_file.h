// option_file.h -- the config file's syntax: flat `key = value` lines. Internal to engine/config/.
//
//     # a comment line                     n_layer = 12   # so is this
//     data = "a folder # with a hash"      quotes where a value needs them: \" \\ \n \t \r inside
//
// A '#' starts a comment at the start of a line or behind a space. Dots belong to the key. Windows
// line ends and a byte order mark are accepted. An empty value is the empty text.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/buf.h"
#include "engine/config/option_rows.h"

typedef struct Entry {
    const char  *key;   // inside Entries.text or argv
    const char  *value; // likewise
    int          line;  // of the file; 0: a flag
    OptionOrigin origin;
} Entry;

typedef struct Entries {
    Entry *entry; // owned
    int    n, cap;
    Buf    text; // the file, cut into strings in place
} Entries;

LT_C_BEGIN
LT_MUST_CHECK Status entries_add(Entries *e, Entry entry, Err *err);
void                 entries_free(Entries *e);
// Append the lines of the file; lines that make no sense go to p. At most one file an Entries.
LT_MUST_CHECK Status option_file_read(const char *path, Entries *e, Problems *p, Err *err);
// Append `value` the way option_file_read takes it, quoted where needed.
LT_MUST_CHECK Status option_file_quote(Buf *out, const char *value, Err *err);
LT_C_END
