// SPDX-License-Identifier: GPL-2.0
// A GPU is told as removed before the driver takes its locks, because the hook waits for controls
// that are under way and those take the same locks. Newer drivers may then find that the GPU is
// still in use and let it be: it is added again.
//
// Anchor: down(&nvl->ldata_lock);
// Expect: nvidia/nv-pci.c nv_pci_remove|nv_pci_remove_helper 1 + nv_zernel_gpu_removed(NV_STATE_PTR(nvl));
// Anchor: if (!block_if_gpu_in_use
// Expect: nvidia/nv-pci.c nv_pci_remove_helper 0|2 + nv_zernel_gpu_added(NV_STATE_PTR(nvl));

@removed@
identifier nvl, f =~ "^nv_pci_remove(_helper)?$";
@@
  f(...)
  {
  <...
+ nv_zernel_gpu_removed(NV_STATE_PTR(nvl));
  LOCK_NV_LINUX_DEVICES();
  down(&nvl->ldata_lock);
  ...>
  }

@kept@
identifier nvl;
@@
  nv_pci_remove_helper(...)
  {
  <...
  up(&nvl->ldata_lock);
  UNLOCK_NV_LINUX_DEVICES();
+ nv_zernel_gpu_added(NV_STATE_PTR(nvl));
  return;
  ...>
  }
