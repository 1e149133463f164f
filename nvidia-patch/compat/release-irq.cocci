// SPDX-License-Identifier: GPL-2.0 OR MIT
// A task that is killed while it starts a GPU is refused the threads for it. The driver then forgets
// the GPU's interrupt, whose handler outlives the GPU, and the driver's code.
//
// Only: 550.163.01
// Anchor: rc = nv_kthread_q_init(
// Expect: nvidia/nv.c nv_start_device 2 if (rc != 0) => if (nv_zernel_release_irq_on(rc, nv, nvl) != 0)
// Expect: nvidia/nv.c nv_start_device 2 if (rc) => if (nv_zernel_release_irq_on(rc, nv, nvl))

@release_irq@
symbol nv, nvl, failed;
expression rc;
@@
  nv_start_device(...)
  {
  <...
(
  rc = os_alloc_mutex(...);
|
  rc = nv_kthread_q_init(...);
)
(
  if (
- rc
+ nv_zernel_release_irq_on(rc, nv, nvl)
  != 0) goto failed;
|
  if (
- rc
+ nv_zernel_release_irq_on(rc, nv, nvl)
  ) goto failed;
)
  ...>
  }
