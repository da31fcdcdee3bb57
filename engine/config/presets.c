// presets.c -- see presets.h.
//
// Shapes of the GPT-2 family: Radford et al. 2019, table 2 (OpenAI's released configurations).
// Their learning rates follow GPT-3's models of like size: Brown et al. 2020, table 2.1; min_lr is
// a tenth. BERT: Devlin et al. 2019 (base, large), Turc et al. 2019 (tiny, mini), with LAMB as in
// MLPerf's rules. The Shakespeare settings are nanoGPT's (its character-level GPU and CPU
// examples).
//
// SPDX-License-Identifier: MIT
#include "engine/config/presets.h"

#include <stddef.h>
#include <string.h>

#define BERT_COMMON                                                                                \
    "activation=gelu_erf dropout=0.1 optimizer=lamb schedule=poly beta2=0.999 eps=1e-6 "           \
    "weight_decay=0.01 "

static const Preset presets[] = {
    {"gpt2", "GPT-2, 124M parameters",
     "n_layer=12 n_head=12 n_embd=768 block_size=1024 vocab_size=50257 "
     "learning_rate=6e-4 min_lr=6e-5"},
    {"gpt2-medium", "GPT-2, 355M parameters",
     "n_layer=24 n_head=16 n_embd=1024 block_size=1024 vocab_size=50257 "
     "learning_rate=3e-4 min_lr=3e-5"},
    {"gpt2-large", "GPT-2, 774M parameters",
     "n_layer=36 n_head=20 n_embd=1280 block_size=1024 vocab_size=50257 "
     "learning_rate=2.5e-4 min_lr=2.5e-5"},
    {"gpt2-xl", "GPT-2, 1558M parameters",
     "n_layer=48 n_head=25 n_embd=1600 block_size=1024 vocab_size=50257 "
     "learning_rate=2e-4 min_lr=2e-5"},
    {"small-10m", "10.6M parameters and the embeddings: trains on a CPU",
     "n_layer=6 n_head=6 n_embd=384 block_size=256 batch_size=16 "
     "learning_rate=1e-3 min_lr=1e-4 warmup_steps=100"},
    {"shakespeare-char", "10.6M parameters, characters, dropout: a GPU's few minutes",
     "n_layer=6 n_head=6 n_embd=384 block_size=256 batch_size=64 dropout=0.2 bias=false "
     "max_steps=5000 learning_rate=1e-3 min_lr=1e-4 warmup_steps=100 beta2=0.99 "
     "eval_interval=250 eval_batches=200"},
    {"shakespeare-char-cpu", "0.8M parameters, characters: a CPU's few minutes",
     "n_layer=4 n_head=4 n_embd=128 block_size=64 batch_size=12 dropout=0 "
     "max_steps=2000 learning_rate=1e-3 min_lr=1e-4 warmup_steps=100 beta2=0.99 "
     "eval_interval=250 eval_batches=20"},
    {"bert-tiny", "BERT, 2 layers, width 128: 4.4M parameters",
     "architecture=bert n_layer=2 n_head=2 n_embd=128 n_positions=512 block_size=128 "
     BERT_COMMON "batch_size=32 learning_rate=2e-3 warmup_steps=500"},
    {"bert-mini", "BERT, 4 layers, width 256: 11.3M parameters",
     "architecture=bert n_layer=4 n_head=4 n_embd=256 n_positions=512 block_size=128 "
     BERT_COMMON "batch_size=32 learning_rate=1e-3 warmup_steps=500"},
    {"bert-base", "BERT, 12 layers, width 768: 110M parameters",
     "architecture=bert n_layer=12 n_head=12 n_embd=768 n_positions=512 block_size=512 "
     BERT_COMMON "batch_size=16 learning_rate=4e-4 warmup_steps=2000 max_steps=100000"},
    {"bert-large", "BERT, 24 layers, width 1024: 340M parameters",
     "architecture=bert n_layer=24 n_head=16 n_embd=1024 n_positions=512 block_size=512 "
     BERT_COMMON "batch_size=8 learning_rate=4.25e-4 warmup_steps=2000 max_steps=100000"},
};

int           preset_count(void) { return (int)LT_COUNT(presets); }
const Preset *preset_at(int i) { return &presets[i]; }

const Preset *preset_find(const char *name)
{
    for (size_t i = 0; i < LT_COUNT(presets); i++)
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}
