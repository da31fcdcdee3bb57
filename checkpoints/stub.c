// stub.c
typedef int lathe_checkpoints_stub;
