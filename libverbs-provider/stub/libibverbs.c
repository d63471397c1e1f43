/* SPDX-License-Identifier: Apache-2.0 */

/* Stubs of the libibverbs functions that the plugin calls. The plugin links to them because the
   libibverbs of this machine may have another private interface. */
#define WITH_NUMBER(name, number) name##number
#define NUMBERED(name, number) WITH_NUMBER(name, number)

void ibv_is_fork_initialized(void) {}
void _verbs_init_and_alloc_context(void) {}
void NUMBERED(verbs_register_driver_, SOFTHCA_INTERFACE)(void) {}
void verbs_set_ops(void) {}
void verbs_uninit_context(void) {}
