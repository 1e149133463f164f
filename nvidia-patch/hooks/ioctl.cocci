// SPDX-License-Identifier: GPL-2.0
// Requests of user space to the driver's core pass the hook, which hands them on.
//
// Expect: nvidia/nv.c nvidia_ioctl 1 rm_ioctl( => nv_zernel_rm_ioctl(

@ioctl@
expression sp, nv, nvfp, cmd, data, size;
@@
- rm_ioctl
+ nv_zernel_rm_ioctl
  (sp, nv, nvfp, cmd, data, size)
