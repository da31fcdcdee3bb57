// stub.c -- replaced by the first real file of this folder.
typedef int lathe_report_stub;
