// SPDX-License-Identifier: GPL-2.0
// Suspend is told before the lock that keeps controls out is taken, and resume after it was given
// back, also when the suspend failed: the hooks call out under a mutex of their own.
//
// The PM core suspends devices without that lock. The hook does it in place of
// the driver, without the device's locks, and so knows the result.
//
// Anchor: down_write(&nv_system_pm_lock);
// Expect: nvidia/nv.c nv_set_system_power_state 1 + nv_zernel_suspended();
// Anchor: up_write(&nv_system_pm_lock);
// Expect: nvidia/nv.c nv_set_system_power_state 2 + nv_zernel_resumed();
// Expect: nvidia/nv.c nv_pmops_suspend|nv_pmops_freeze 2 nvidia_suspend( => nv_zernel_suspend(
// Expect: nvidia/nv.c nv_pmops_suspend|nv_pmops_freeze|nv_pmops_resume|nv_pmops_restore 2|4 nvidia_resume( => nv_zernel_resume(

@suspended@
symbol nv_system_pm_lock;
@@
  nv_set_system_power_state(...)
  {
  <...
+ nv_zernel_suspended();
  down_write(&nv_system_pm_lock);
  ...>
  }

@resumed@
symbol nv_system_pm_lock;
@@
  nv_set_system_power_state(...)
  {
  <...
  up_write(&nv_system_pm_lock);
+ nv_zernel_resumed();
  ...>
  }

@device_suspended@
identifier f =~ "^nv_pmops_";
@@
  f(...)
  {
  <...
- nvidia_suspend
+ nv_zernel_suspend
  (...)
  ...>
  }

@device_resumed@
identifier f =~ "^nv_pmops_";
@@
  f(...)
  {
  <...
- nvidia_resume
+ nv_zernel_resume
  (...)
  ...>
  }
