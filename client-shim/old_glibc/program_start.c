// SPDX-License-Identifier: Apache-2.0
// A program's start: since 2.34 libc runs its constructors itself; the older entry is told of a
// function that does.
extern void (*__preinit_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__preinit_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__init_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void _init(void);

__asm__(".symver OldStart, __libc_start_main@GLIBC_2.2.5");
int OldStart(int (*main)(int, char**, char**), int argc, char** argv,
             void (*init)(int, char**, char**), void (*fini)(void), void (*loader_fini)(void),
             void* stack_end);

static void RunConstructors(int argc, char** argv, char** environment) {
  for (void (**call)(int, char**, char**) = __preinit_array_start; call != __preinit_array_end;
       ++call)
    (*call)(argc, argv, environment);
  _init();
  for (void (**call)(int, char**, char**) = __init_array_start; call != __init_array_end; ++call)
    (*call)(argc, argv, environment);
}

// The loader runs the destructors: `loader_fini`.
__attribute__((visibility("hidden"))) int __libc_start_main(
    int (*main)(int, char**, char**), int argc, char** argv, void (*init)(int, char**, char**),
    void (*fini)(void), void (*loader_fini)(void), void* stack_end) {
  return OldStart(main, argc, argv, init != 0 ? init : RunConstructors, fini, loader_fini,
                  stack_end);
}
