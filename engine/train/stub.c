// stub.c -- replaced by the first real file of this folder.
typedef int lathe_train_stub;
