// SPDX-License-Identifier: GPL-2.0 OR MIT
// pci_resize_resource() has got a parameter.
//
// Versions: 550.163.01
// Expect: nvidia/nv-pci.c nv_resize_pcie_bars 1 pci_resize_resource( => nv_zernel_pci_resize_resource(

@resize_resource@
expression dev, bar, size;
@@
- pci_resize_resource
+ nv_zernel_pci_resize_resource
  (dev, bar, size)
