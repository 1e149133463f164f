// SPDX-License-Identifier: GPL-2.0
// Suspend is told before the lock that keeps controls out is taken, and resume after it was given
// back, also when the suspend failed: the hooks call out under a mutex of their own.
//
// Anchor: down_write(&nv_system_pm_lock);
// Expect: nvidia/nv.c nv_set_system_power_state 1 + nv_zernel_suspended();
// Anchor: up_write(&nv_system_pm_lock);
// Expect: nvidia/nv.c nv_set_system_power_state 2 + nv_zernel_resumed();

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
