/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TEST_LEAK_H
#define TEST_LEAK_H

void leak_watch(void);
/* Fails the test if something that the library allocated since is not freed. */
void leak_check(void);

#endif
