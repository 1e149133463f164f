// SPDX-License-Identifier: GPL-2.0
// A GPU is told as started when all that can fail has been done, and as stopped while it still
// has power, so that zernel's own client on it can be freed.
//
// Anchor: rm_unref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
// Expect: nvidia/nv.c nv_start_device 1 + nv_zernel_gpu_started(nv);
// Anchor: rm_ref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
// Expect: nvidia/nv.c nv_stop_device 1 + nv_zernel_gpu_stopped(nv);

@started@
expression sp, nv;
@@
  nv_start_device(...)
  {
  <...
  rm_unref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
+ nv_zernel_gpu_started(nv);
  return 0;
  ...>
  }

@stopped@
expression sp, nv;
@@
  nv_stop_device(...)
  {
  <...
  rm_ref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
+ nv_zernel_gpu_stopped(nv);
  ...>
  }
