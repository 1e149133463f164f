// SPDX-License-Identifier: GPL-2.0 OR MIT
// Linux 7.2 has no <linux/of_gpio.h>; where there is one, the compatibility header includes it.
//
// Versions: 595.45.04
// Expect: common/inc/nv-linux.h - 1 - #include <linux/of_gpio.h>

@of_gpio@
@@
- #include <linux/of_gpio.h>
