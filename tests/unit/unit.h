/* What every unit test includes first: cmocka with its prerequisites. */
#ifndef RM_TESTS_UNIT_H
#define RM_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
