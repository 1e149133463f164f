// SPDX-License-Identifier: GPL-2.0
// The clients of a file are dropped before the core frees them, so that no control meets an object
// while it is freed.
//
// Anchor: rm_cleanup_file_private(
// Expect: nvidia/nv.c nvidia_close_callback 1 + nv_zernel_file_close(&nvlfp->nvfp);
// Expect: nvidia/nv.c nvidia_ctl_close 1 + nv_zernel_file_close(&nvlfp->nvfp);

@file_close@
expression sp, nv, nvfp;
@@
+ nv_zernel_file_close(nvfp);
  rm_cleanup_file_private(sp, nv, nvfp);
