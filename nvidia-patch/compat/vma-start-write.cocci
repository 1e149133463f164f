// SPDX-License-Identifier: GPL-2.0 OR MIT
// The driver has a copy of __vma_start_write() of one kernel, for flavours that may not call it. The
// open flavour may.
//
// Versions: 550.163.01
// Expect: common/inc/nv-mm.h - 1 #define NV_CAN_CALL_VMA_START_WRITE 0 => #define NV_CAN_CALL_VMA_START_WRITE 1

@vma_start_write@
@@
- #define NV_CAN_CALL_VMA_START_WRITE 0
+ #define NV_CAN_CALL_VMA_START_WRITE 1
