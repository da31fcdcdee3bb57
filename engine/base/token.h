// token.h -- what tokenizer, data, kernels and model agree on about token ids.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>

// A target that is not counted: no loss, no gradient (PyTorch's ignore_index).
enum { TOKEN_IGNORE = -100 };
