/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Constants of io_uring that are newer than liburing 2.3's header; the system's own win where it has them. */
#ifndef QT_URING_ABI_H
#define QT_URING_ABI_H

#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1U << 17) /* Linux 6.15 */
#endif

#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3) /* Linux 6.2 */
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7) /* with IORING_FEAT_NO_IOWAIT: a wait is idle time, not iowait */
#endif

#endif
