// SPDX-License-Identifier: GPL-2.0 OR MIT
// Linux 7.2 has in_hardirq() only.
//
// Versions: 550.163.01
// Expect: common/inc/nv-time.h nv_sleep_us 1 in_irq() => nv_zernel_in_hardirq()
// Expect: common/inc/nv-time.h nv_sleep_ms 1 in_irq() => nv_zernel_in_hardirq()
// Expect: nvidia/os-interface.c os_is_isr 1 in_irq() => nv_zernel_in_hardirq()

@in_irq@
@@
- in_irq()
+ nv_zernel_in_hardirq()
