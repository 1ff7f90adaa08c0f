/* How much C stack a thread has left.

   CPython runs Python calls without C stack ("inlined") unless an evaluator is installed; then each call takes about
   half a kilobyte of it.  A program that recurses deeply must not notice: where the stack gets low the hook steps aside
   (frame_hook.c), CPython inlines again, and the recursion goes as deep as it would without us.  Where another thread's
   region keeps the hook installed, that is not possible, and a RecursionError is raised before the stack overflows.

   Comes in: nothing.  Goes out: where the calling thread's stack ends, and two reserves to be kept above that.
   PyTorch has no such thing: deep recursion under torch.compile ends in RecursionError, on 3.11 in a crash. */

#include "native.h"
#include <pthread.h>

/* glibc 2.32 and 2.34 moved these two from one library to another and gave them new versions, which no wheel for older systems may
   ask for.  The old versions are still there, and mean the same. */
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver pthread_getattr_np, pthread_getattr_np@GLIBC_2.2.5");
__asm__(".symver pthread_attr_getstack, pthread_attr_getstack@GLIBC_2.2.5");
#endif

static bool
stack_of_this_thread(char **lowest, size_t *size)
{
#if defined(__APPLE__)
    *size = pthread_get_stacksize_np(pthread_self());
    *lowest = (char *)pthread_get_stackaddr_np(pthread_self()) - *size;
    return true;
#elif defined(__linux__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return false;
    }
    void *address;
    int failed = pthread_attr_getstack(&attributes, &address, size);
    pthread_attr_destroy(&attributes);
    *lowest = address;
    return failed == 0;
#else
    return false;
#endif
}

/* Where nothing is known the reserves stay 0, and the stack is never found low. */
COLD void
measure_c_stack(ThreadState *thread)
{
    const size_t enough = 2 << 20, last = 256 << 10;
    size_t size;
    thread->stack_measured = true;
    if (stack_of_this_thread(&thread->stack_lowest, &size)) {
        thread->stack_low = size / 4 < enough ? size / 4 : enough;
        thread->stack_end = size / 8 < last ? size / 8 : last;
    }
}
