// SPDX-License-Identifier: GPL-2.0 OR MIT
// The functions in place of those that are gone, where every file of the interface layer finds
// them.
//
// Versions: 550.163.01 595.45.04
// Anchor: #include <linux/ktime.h>
// Expect: common/inc/nv-time.h - 1 + #include "nv-zernel-compat.h"

@compat_include@
@@
  #include <linux/ktime.h>
+ #include "nv-zernel-compat.h"
