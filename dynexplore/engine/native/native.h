/* What the C files of the frame hook share: the objects, and the few functions that cross a file.

       c_stack.c      how much C stack a thread has left
       cache.c        CacheStore, CodeCache, Entry; the extra pointer of a code object, skip marks
       region.c       Region, RegionCall, enter/leave: which region a thread is in, installing and uninstalling
       tail_call.c    TailCall, and how the hook goes on where modified code has ended with one
       frame_hook.c   the evaluator itself: look up, check, swap, run; FrameState; the module
       guard_walk.c   GuardWalk: pointer compares over objects' own dictionaries
       lookup_rows.c  parts of a GuardWalk: lookups through classes, and what functions are made of
       dict_guard.c   DictGuard: the same compares over a dictionary that is handed in
       sequence_guard.c  DictGuard's compares over a list or tuple that is handed in
       dict_versions.c  one integer for "nothing was written to this dictionary", where CPython has none
       type_guard.c   TypeGuard: the classes of what a frame finds under its names, and one step below them

   Arrows run down this list's reverse: frame_hook.c uses all, region.c and cache.c know nothing of it but its name. */

#ifndef DYNEXPLORE_NATIVE_H
#define DYNEXPLORE_NATIVE_H

#include "compat.h"

#define COLD __attribute__((noinline, cold))
#define NOINLINE __attribute__((noinline))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* -- cache.c ---------------------------------------------------------------------------------------------------- */

typedef struct CacheStore CacheStore;
typedef struct CodeCache CodeCache;

/* One compiled variant of a code object: when it may run, what runs, and which objects that needs. */
typedef struct {
    PyObject_HEAD
    PyObject *check;          /* callable, or NULL: always true */
    PyObject *walk;           /* GuardWalk, or NULL */
    PyObject *types;          /* TypeGuard, or NULL */
    PyCodeObject *code;       /* what runs instead; the frame's own code: the frame runs plain */
    PyObject *injected;       /* tuple: objects put into locals */
    int inject_index;         /* the first local that gets one */
    int argument_slots;       /* of `code`; must equal those of the code it stands in for */
    char runs_alone;          /* the code calls nothing of the program's: the hook is off while it runs */
    char valid;
    Py_ssize_t hits;
    PyObject *room_code;      /* made on demand, see frame_hook.c */
    PyObject *dict;
    PyObject *weakrefs;
} Entry;

/* The entries of one code object in one store. */
struct CodeCache {
    PyObject_HEAD
    PyObject *code_ref;       /* weak reference to the code object */
    PyCodeObject *code;       /* borrowed: NULL as soon as the code object dies or the store lets go */
    CacheStore *store;        /* borrowed: the same */
    CodeCache *previous;      /* the store's list; the store owns its members */
    CodeCache *next;
    PyObject *entries;        /* tuple of Entry, swapped whole */
    PyObject *payload;
    PyObject *weakrefs;
    char skip;
};

struct CacheStore {
    PyObject_HEAD
    CodeCache *first;
    PyObject *weakrefs;
};

enum SkipMark { RUN_HOOKED = 0, SKIP_FRAME = 1, SKIP_CALLEES_TOO = 2 };

/* What hangs on a code object.  It owns nothing: stores own caches, and take them off here when they die. */
typedef struct {
    enum SkipMark skip;
    int count;
    int capacity;
    struct { CacheStore *store; CodeCache *cache; } *slots;
} CodeExtra;

extern PyTypeObject CacheStore_Type, CodeCache_Type, Entry_Type;
extern Py_ssize_t code_extra_index;

static inline CodeExtra *
code_extra(PyCodeObject *code)
{
    void *extra = NULL;
    get_code_extra(code, code_extra_index, &extra);
    return extra;
}

static inline CodeCache *
find_cache(CodeExtra *extra, CacheStore *store)
{
    for (int i = 0; i < extra->count; i++) {
        if (extra->slots[i].store == store) {
            return extra->slots[i].cache;
        }
    }
    return NULL;
}

/* Argument slots of a code object: positional, keyword-only, *args, **kwargs. */
static inline int
argument_slots(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0)
           + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* Only plain functions: a generator's frame outlives its call, a module's has no slots. */
static inline bool
is_plain_function_code(PyCodeObject *code)
{
    const int required_flags = CO_OPTIMIZED | CO_NEWLOCALS;
    const int forbidden_flags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & (required_flags | forbidden_flags)) == required_flags;
}

CodeCache *store_cache_of(CacheStore *store, PyCodeObject *code);  /* borrowed */
bool entry_fits(Entry *entry, PyCodeObject *code);                /* else sets ValueError */
int init_cache(PyObject *module);
extern PyMethodDef cache_functions[];

/* -- region.c --------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    CacheStore *store;        /* or NULL */
    PyObject *callback;       /* or NULL: run what is cached, make nothing new */
    PyObject *on_hit;         /* or NULL */
    PyObject *weakrefs;
} Region;

/* What modified code returns when another function is to go on in its place: see tail_call.c. */
typedef struct {
    PyObject_VAR_HEAD
    PyObject *function;
    PyObject *creator;        /* the code object of the frame that made it, or NULL */
    PyObject *args[1];
} TailCall;

/* What the hook knows of the thread that it is called in. */
typedef struct {
    Region *region;           /* owned; NULL: no hooking here now */
    TailCall *resuming;       /* owned: its function has just been called, and its frame will be here next */
    Entry *arriving;          /* borrowed; this and the next two: see run_in_new_frame in frame_hook.c */
    Frame *arriving_from;
    Region *arriving_region;
    Frame *delegated;         /* the frame just handed to the evaluator below us */
    struct OpenBlock *blocks; /* `with` blocks that this thread is in, the innermost first: see region.c */
    char *stack_lowest;       /* of this thread's C stack */
    size_t stack_low;         /* with less left the hook steps aside */
    size_t stack_end;         /* with less left no frame may start */
    int depth;                /* enters that were not left yet */
    int tracing;              /* what CPython's counter of the same name was when the region was entered */
    bool counted;             /* this thread needs the hook installed */
    bool watched;             /* a ThreadWatch stands in the thread's dictionary */
    bool stack_measured;
} ThreadState;

extern _Thread_local ThreadState thread_state;
extern PyTypeObject Region_Type, RegionCall_Type, RegionBlock_Type;

Region *switch_region(Region *region);   /* takes and gives a reference; installs and uninstalls as needed */
Evaluator evaluator_below(void);         /* who runs frames of threads that have no region */
void uninstall_if_unused(void);
int init_region(PyObject *module);
extern PyMethodDef region_functions[];

/* -- tail_call.c ------------------------------------------------------------------------------------------------ */

extern PyTypeObject TailCall_Type;

PyObject *go_on(PyObject *result);       /* takes what a frame of modified code returned, gives what its caller gets */
int init_tail_call(PyObject *module);

/* -- c_stack.c -------------------------------------------------------------------------------------------------- */

void measure_c_stack(ThreadState *thread);

/* Is less than `reserve` left?  Never on a stack that is not the thread's own (coroutine libraries make such). */
static inline bool
c_stack_left_is_below(ThreadState *thread, size_t reserve)
{
    return (size_t)((char *)__builtin_frame_address(0) - thread->stack_lowest) < reserve;
}

/* -- frame_hook.c ----------------------------------------------------------------------------------------------- */

PyObject *frame_hook(PyThreadState *tstate, Frame *frame, int throwflag);

/* The sentinel for an argument slot or a dictionary key without a value. */
extern PyObject *unbound;

/* -- guard_walk.c ----------------------------------------------------------------------------------------------- */

extern PyTypeObject GuardWalk_Type;
bool guard_walk_passes(PyObject *walk);  /* runs no user code, raises nothing */
int init_guard_walk(PyObject *module);

/* -- lookup_rows.c ---------------------------------------------------------------------------------------------- */

struct DictCheck;

typedef struct {
    PyObject *name;               /* interned */
    PyObject *after;              /* weak reference to the class behind which the lookup begins, or NULL */
    PyObject *payload;
    int kind;
} Lookup;

typedef struct {
    PyObject *reference;          /* weak reference to the class */
    unsigned int tag;             /* its version when all lookups ended as expected; 0: unknown */
    bool by_name;                 /* never rely on the tag: the frame itself writes to the class */
    Py_ssize_t count;
    Lookup *lookups;
} ClassRow;

typedef struct {
    PyObject *reference;          /* weak reference to the function */
    PyObject *code;
    Py_ssize_t default_count;     /* -1: not asked */
    Py_ssize_t keyword_count;     /* -1: not asked */
    struct DictCheck *defaults;
    struct DictCheck *keywords;
} FunctionRow;

bool class_row_passes(ClassRow *row);
bool function_row_passes(FunctionRow *row);
PyObject *class_row_failure(ClassRow *row, Py_ssize_t index);
PyObject *function_row_failure(FunctionRow *row, Py_ssize_t index);
int read_class_row(void *record, PyObject *tuple);
int read_function_row(void *record, PyObject *tuple);
int class_row_traverse(ClassRow *row, visitproc visit, void *arg);
int function_row_traverse(FunctionRow *row, visitproc visit, void *arg);
void clear_class_rows(ClassRow **rows, Py_ssize_t *count);
void clear_function_rows(FunctionRow **rows, Py_ssize_t *count);
extern PyMethodDef lookup_functions[];

/* -- warning_filters.c ------------------------------------------------------------------------------------------- */

extern PyMethodDef warning_functions[];
extern PyMethodDef item_functions[];          /* dict_guard.c */

/* -- dict_versions.c -------------------------------------------------------------------------------------------- */

int init_dict_versions(PyObject *module);

/* -- dict_guard.c ----------------------------------------------------------------------------------------------- */

extern PyTypeObject DictGuard_Type;

/* -- sequence_guard.c ------------------------------------------------------------------------------------------- */

extern PyTypeObject SequenceGuard_Type;

/* -- set_table.c ------------------------------------------------------------------------------------------------ */

extern PyMethodDef set_functions[];

/* -- type_guard.c ------------------------------------------------------------------------------------------------- */

extern PyTypeObject TypeGuard_Type;
/* `values` of the slots, NULL: none; `closure` a tuple of cells, or something else: none.  Runs no user code, raises nothing. */
bool type_guard_passes(PyObject *guard, PyObject **values, PyObject *closure, PyObject *globals);
int type_guard_slots(PyObject *guard);                       /* how many argument slots it looks at, at least */

#endif
