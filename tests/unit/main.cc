// The test runner's main. Every other file of this folder only includes doctest.h.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
