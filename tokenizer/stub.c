// stub.c
typedef int lathe_tokenizer_stub;
