/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* track.h: what every event must keep to, whatever the test. Used by pump.c only. */
#ifndef TEST_TRACK_H
#define TEST_TRACK_H

#include "pump.h"

/* Above the index in each user_data: high bits must come back too. */
#define TRACK_ID 0xA5C3000000000000u

void track_event(struct pump *pump, const quoit_event *event);
void track_batch(struct pump *pump, int returned);
void track_ended(struct pump *pump);

#endif
