// SPDX-License-Identifier: GPL-2.0
// What user space asks of the driver's core passes the hook, which hands it on.
//
// Expect: nvidia/nv.c nvidia_ioctl 1 rm_ioctl( => nv_zernel_rm_ioctl(

@ioctl@
expression sp, nv, nvfp, cmd, data, size;
@@
- rm_ioctl
+ nv_zernel_rm_ioctl
  (sp, nv, nvfp, cmd, data, size)
