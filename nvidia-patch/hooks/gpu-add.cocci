// SPDX-License-Identifier: GPL-2.0
// A GPU is told as added once it is in the driver's list, and taken back when a later step of the
// probe fails. The driver's lock of the list is not held at either place.
//
// Anchor: nv_linux_add_device_locked(
// Expect: nvidia/nv-pci.c nv_pci_probe 1 + nv_zernel_gpu_added(NV_STATE_PTR(nvl));
// Anchor: nv_linux_remove_device_locked(
// Expect: nvidia/nv-pci.c nv_pci_probe 1 + nv_zernel_gpu_removed(NV_STATE_PTR(nvl));

@added@
identifier nvl;
@@
  nv_pci_probe(...)
  {
  <...
(
  nv_linux_add_device_locked(nvl);
|
  if (nv_linux_add_device_locked(nvl) != 0) { ... }
)
  UNLOCK_NV_LINUX_DEVICES();
+ nv_zernel_gpu_added(NV_STATE_PTR(nvl));
  ...>
  }

@not_added@
identifier nvl;
@@
  nv_pci_probe(...)
  {
  <...
+ nv_zernel_gpu_removed(NV_STATE_PTR(nvl));
  LOCK_NV_LINUX_DEVICES();
  nv_linux_remove_device_locked(nvl);
  ...>
  }
