// precision.c -- see precision.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/precision.h"

#include <string.h>

Status precision_from_name(Precision *p, const char *name, const char *residual, Err *err)
{
    const bool fp32 = strcmp(name, "fp32") == 0;
    if (fp32 || strcmp(name, "fp16") == 0) {
        if (strcmp(residual, "f32") != 0)
            return err_set(err, ERR_USAGE, "residual_dtype = %s needs precision = bf16", residual);
        const DType t = fp32 ? DTYPE_F32 : DTYPE_F16;
        *p = (Precision){.name = fp32 ? "fp32" : "fp16", .param = t, .act = t, .resid = DTYPE_F32};
        return ERR_NONE;
    }
    if (strcmp(name, "bf16") == 0) {
        const DType r = strcmp(residual, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
        *p = (Precision){.name = "bf16", .param = DTYPE_BF16, .act = DTYPE_BF16, .resid = r};
        return ERR_NONE;
    }
    if (strcmp(name, "fp8") == 0) { // bf16 wherever a tensor is not in FP8
        TRY(precision_from_name(p, "bf16", residual, err));
        p->name = "fp8";
        p->fp8 = true;
        return ERR_NONE;
    }
    return err_set(err, ERR_USAGE, "precision = %s: fp32, bf16, fp16 or fp8", name);
}
