// SPDX-License-Identifier: GPL-2.0 OR MIT
// Linux 7.2 has no of_get_named_gpio().
//
// Versions: 595.45.04
// Expect: nvidia/nv-dsi-parse-panel-props.c dsi_get_panel_gpio 11 of_get_named_gpio( => nv_zernel_of_get_named_gpio(
// Expect: nvidia/nv-gpio.c nv_gpio_get_pin_number 1 of_get_named_gpio( => nv_zernel_of_get_named_gpio(

@named_gpio@
expression node, name, index;
@@
- of_get_named_gpio
+ nv_zernel_of_get_named_gpio
  (node, name, index)
