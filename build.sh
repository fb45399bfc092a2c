#!/bin/bash
set -e
cd /tmp/review-auto
nice -n 10 g++ -std=c++20 -O1 -g -Isnap -Igenerated -Isnap/include -include /tmp/review-auto/pch.h "$@" -c $1.cpp -o $1.o 2>&1 | grep -v "^$" || true
