/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Status codes in words. */
#ifndef QT_STATUS_H
#define QT_STATUS_H

#include <quoit/base.h>

const char *qt_status_name(quoit_status status);
const char *qt_status_message(quoit_status status);
const char *qt_status_hint(quoit_status status);
uint32_t qt_status_class(quoit_status status);

#endif
