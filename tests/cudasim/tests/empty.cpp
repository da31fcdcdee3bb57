// empty.cpp -- a program whose main lies in its .cu file.
//
// SPDX-License-Identifier: MIT
