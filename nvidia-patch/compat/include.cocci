// SPDX-License-Identifier: GPL-2.0
// What replaces the functions that are gone, where every file of the interface layer finds it.
//
// Versions: 550.163.01 595.45.04
// Anchor: #include <linux/ktime.h>
// Expect: common/inc/nv-time.h - 1 + #include "nv-zernel-compat.h"

@compat_include@
@@
  #include <linux/ktime.h>
+ #include "nv-zernel-compat.h"
