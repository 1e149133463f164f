// SPDX-License-Identifier: GPL-2.0
// The prototypes of the hooks, after a header that both hooked files have.
//
// Anchor: #include "nv-hypervisor.h"
// Expect: nvidia/nv.c - 1 + #include "nv-zernel.h"
// Expect: nvidia/nv-pci.c - 1 + #include "nv-zernel.h"

@include@
@@
  #include "nv-hypervisor.h"
+ #include "nv-zernel.h"
