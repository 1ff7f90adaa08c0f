/* Where compiled variants of a code object are kept, and who owns them.

   The hook must find the variants ("entries") of the code object that is about to run within nanoseconds, and a
   function, a module or a backend that the program drops must go, with everything compiled for it.  Both at once need
   care, because code objects are invisible to the garbage collector:

       CacheStore --owns--> CodeCache --owns--> (Entry, Entry, ...) --owns--> check, new code, injected objects
           ^                    ^
           |   borrows both     |
       extra pointer of the code object (CodeExtra)

   Everything that owns is visible to the garbage collector.  The code object only borrows: when it dies, its caches
   leave their stores; when a store dies, it takes its caches off the code objects.

   Comes in: code objects and entries made in Python.  Goes out: for the hook, entries in order.
   PyTorch does the same job in torch/csrc/dynamo/extra_state.cpp and cache_entry.cpp. */

#include "native.h"

Py_ssize_t code_extra_index = -1;

/* -- the extra pointer of a code object -------------------------------------------------------------------------- */

static CodeExtra *
code_extra_or_new(PyCodeObject *code)
{
    CodeExtra *extra = code_extra(code);
    if (extra != NULL) {
        return extra;
    }
    extra = PyMem_Calloc(1, sizeof(CodeExtra));
    if (extra == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (set_code_extra(code, code_extra_index, extra) < 0) {
        PyMem_Free(extra);
        return NULL;
    }
    return extra;
}

static int
extra_add(CodeExtra *extra, CacheStore *store, CodeCache *cache)
{
    if (extra->count == extra->capacity) {
        int capacity = extra->capacity ? 2 * extra->capacity : 1;
        void *slots = PyMem_Realloc(extra->slots, capacity * sizeof(*extra->slots));
        if (slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        extra->slots = slots;
        extra->capacity = capacity;
    }
    extra->slots[extra->count].store = store;
    extra->slots[extra->count].cache = cache;
    extra->count++;
    return 0;
}

static void
extra_remove(CodeExtra *extra, CodeCache *cache)
{
    for (int i = 0; i < extra->count; i++) {
        if (extra->slots[i].cache == cache) {
            extra->slots[i] = extra->slots[--extra->count];
            return;
        }
    }
}

/* Take a cache out of its store's list.  The store's reference passes to the caller. */
static void
leave_store(CodeCache *cache)
{
    if (cache->previous != NULL) {
        cache->previous->next = cache->next;
    }
    else {
        cache->store->first = cache->next;
    }
    if (cache->next != NULL) {
        cache->next->previous = cache->previous;
    }
    cache->previous = cache->next = NULL;
    cache->store = NULL;
    cache->code = NULL;
}

/* Called by CPython when a code object dies.  Dropping a cache may run any code, so the extra is gone first. */
static void
free_extra(void *pointer)
{
    CodeExtra *extra = pointer;
    if (extra == NULL) {
        return;
    }
    int count = extra->count;
    for (int i = 0; i < count; i++) {
        leave_store(extra->slots[i].cache);
    }
    for (int i = 0; i < count; i++) {
        Py_DECREF(extra->slots[i].cache);
    }
    PyMem_Free(extra->slots);
    PyMem_Free(extra);
}

/* Cut a cache off from its code object and its store.  The store's reference passes to the caller. */
static void
detach(CodeCache *cache)
{
    extra_remove(code_extra(cache->code), cache);
    leave_store(cache);
}

/* -- Entry ------------------------------------------------------------------------------------------------------ */

static PyObject *
none_is_null(PyObject *object)
{
    return object == Py_None ? NULL : Py_XNewRef(object);
}

static bool
types_are_right(Entry *entry)
{
    if (!PyObject_TypeCheck(entry->types, &TypeGuard_Type)) {
        PyErr_Format(PyExc_TypeError, "types must be a TypeGuard or None, not %.100s", Py_TYPE(entry->types)->tp_name);
        return false;
    }
    if (type_guard_slots(entry->types) > entry->argument_slots) {
        PyErr_Format(PyExc_ValueError, "types look at %d argument slots, where there are %d", type_guard_slots(entry->types),
                     entry->argument_slots);
        return false;
    }
    return true;
}

static bool
entry_arguments_are_right(Entry *entry)
{
    if (entry->check != NULL && !PyCallable_Check(entry->check)) {
        PyErr_Format(PyExc_TypeError, "check must be callable or None, not %.100s", Py_TYPE(entry->check)->tp_name);
        return false;
    }
    if (entry->walk != NULL && !PyObject_TypeCheck(entry->walk, &GuardWalk_Type)) {
        PyErr_Format(PyExc_TypeError, "walk must be a GuardWalk or None, not %.100s", Py_TYPE(entry->walk)->tp_name);
        return false;
    }
    if (entry->types != NULL && !types_are_right(entry)) {
        return false;
    }
    if (!is_plain_function_code(entry->code)) {
        PyErr_SetString(PyExc_ValueError, "an entry's code must be that of a plain function");
        return false;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(entry->injected);
    if (count > 0 && (entry->inject_index < entry->argument_slots
                      || entry->inject_index + count > entry->code->co_nlocals)) {
        PyErr_Format(PyExc_ValueError, "%zd objects cannot be injected at local %d: the code has %d argument slots "
                     "and %d locals", count, entry->inject_index, entry->argument_slots, entry->code->co_nlocals);
        return false;
    }
    return true;
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"check", "code", "injected", "inject_index", "walk", "types", "runs_alone", NULL};
    PyObject *check, *code, *injected, *walk = Py_None, *types = Py_None;
    int inject_index, runs_alone = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!i|OOp:Entry", names, &check, &PyCode_Type, &code,
                                     &PyTuple_Type, &injected, &inject_index, &walk, &types, &runs_alone)) {
        return NULL;
    }
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->check = none_is_null(check);
    self->walk = none_is_null(walk);
    self->types = none_is_null(types);
    self->code = (PyCodeObject *)Py_NewRef(code);
    self->injected = Py_NewRef(injected);
    self->inject_index = inject_index;
    self->runs_alone = runs_alone != 0;
    self->argument_slots = argument_slots(self->code);
    self->valid = 1;
    if (!entry_arguments_are_right(self)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->check);
    Py_VISIT(self->walk);
    Py_VISIT(self->types);
    Py_VISIT(self->code);
    Py_VISIT(self->injected);
    Py_VISIT(self->room_code);
    Py_VISIT(self->dict);
    return 0;
}

static int
entry_clear(Entry *self)
{
    self->valid = 0;
    Py_CLEAR(self->check);
    Py_CLEAR(self->walk);
    Py_CLEAR(self->types);
    Py_CLEAR(self->dict);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    entry_clear(self);
    Py_CLEAR(self->code);
    Py_CLEAR(self->injected);
    Py_CLEAR(self->room_code);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

bool
entry_fits(Entry *entry, PyCodeObject *code)
{
    if (entry->argument_slots == argument_slots(code) && entry->code->co_nfreevars == code->co_nfreevars
        && is_plain_function_code(code)) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "an entry that runs %U (%d argument slots, %d free variables) cannot stand in for "
                 "%U (%d argument slots, %d free variables)", entry->code->co_qualname, entry->argument_slots,
                 entry->code->co_nfreevars, code->co_qualname, argument_slots(code), code->co_nfreevars);
    return false;
}

static PyMemberDef entry_members[] = {
    {"check", T_OBJECT, offsetof(Entry, check), READONLY, "The callable that decides, or None."},
    {"walk", T_OBJECT, offsetof(Entry, walk), READONLY, "The GuardWalk that decides first, or None."},
    {"types", T_OBJECT, offsetof(Entry, types), READONLY, "The TypeGuard that decides next, or None."},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, "The code object that runs instead."},
    {"injected", T_OBJECT, offsetof(Entry, injected), READONLY, "The objects that the frame gets as locals."},
    {"inject_index", T_INT, offsetof(Entry, inject_index), READONLY, "The first local that gets one of them."},
    {"runs_alone", T_BOOL, offsetof(Entry, runs_alone), READONLY, "Whether the hook is off while the code runs."},
    {"valid", T_BOOL, offsetof(Entry, valid), 0, "False: this entry never hits again."},
    {"hits", T_PYSSIZET, offsetof(Entry, hits), 0, "How often this entry was found and run."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef entry_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.Entry",
    .tp_doc = "Entry(check, code, injected, inject_index, walk=None, types=None, runs_alone=False): a compiled variant of a code object.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = entry_new,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_members = entry_members,
    .tp_getset = entry_getset,
    .tp_dictoffset = offsetof(Entry, dict),
    .tp_weaklistoffset = offsetof(Entry, weakrefs),
};

/* -- CodeCache -------------------------------------------------------------------------------------------------- */

static CodeCache *
code_cache_new(PyCodeObject *code)
{
    CodeCache *self = PyObject_GC_New(CodeCache, &CodeCache_Type);
    if (self == NULL) {
        return NULL;
    }
    self->code = NULL;
    self->store = NULL;
    self->previous = self->next = NULL;
    self->payload = Py_NewRef(Py_None);
    self->weakrefs = NULL;
    self->skip = 0;
    self->entries = PyTuple_New(0);
    self->code_ref = PyWeakref_NewRef((PyObject *)code, NULL);
    PyObject_GC_Track(self);
    if (self->entries == NULL || self->code_ref == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

static int
code_cache_traverse(CodeCache *self, visitproc visit, void *arg)
{
    Py_VISIT(self->entries);
    Py_VISIT(self->payload);
    return 0;
}

static int
code_cache_clear(CodeCache *self)
{
    PyObject *entries = self->entries;
    self->entries = PyTuple_New(0);  /* the empty tuple: never NULL, and never fails */
    Py_XDECREF(entries);
    Py_CLEAR(self->payload);
    return 0;
}

static void
code_cache_dealloc(CodeCache *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->entries);
    Py_CLEAR(self->payload);
    Py_CLEAR(self->code_ref);
    PyObject_GC_Del(self);
}

static PyObject *
code_cache_get_code(CodeCache *self, void *Py_UNUSED(closure))
{
    PyObject *code = weakly_referenced(self->code_ref);
    return Py_NewRef(code == NULL ? Py_None : code);
}

static PyObject *
code_cache_get_entries(CodeCache *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->entries);
}

static int
code_cache_set_entries(CodeCache *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyTuple_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "entries must be a tuple");
        return -1;
    }
    PyCodeObject *code = (PyCodeObject *)weakly_referenced(self->code_ref);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
        PyObject *entry = PyTuple_GET_ITEM(value, i);
        if (!PyObject_TypeCheck(entry, &Entry_Type)) {
            PyErr_Format(PyExc_TypeError, "entries must hold Entry objects, not %.100s", Py_TYPE(entry)->tp_name);
            return -1;
        }
        if (code != NULL && !entry_fits((Entry *)entry, code)) {
            return -1;
        }
    }
    PyObject *old = self->entries;
    self->entries = Py_NewRef(value);
    Py_XDECREF(old);
    return 0;
}

static PyObject *
code_cache_repr(CodeCache *self)
{
    PyCodeObject *code = (PyCodeObject *)weakly_referenced(self->code_ref);
    Py_ssize_t count = PyTuple_GET_SIZE(self->entries);
    if (code == NULL) {
        return PyUnicode_FromFormat("<CodeCache of a dead code object, %zd entries>", count);
    }
    return PyUnicode_FromFormat("<CodeCache of %U, %zd entries%s>", code->co_qualname, count,
                                self->skip ? ", skipped" : "");
}

static PyMemberDef code_cache_members[] = {
    {"skip", T_BOOL, offsetof(CodeCache, skip), 0, "True: frames of this code run plain, nothing is asked."},
    {"payload", T_OBJECT, offsetof(CodeCache, payload), 0, "Whatever Python keeps beside the entries."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef code_cache_getset[] = {
    {"code", (getter)code_cache_get_code, NULL, "The code object, or None once it is gone.", NULL},
    {"entries", (getter)code_cache_get_entries, (setter)code_cache_set_entries, "Tuple of Entry, tried in order.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject CodeCache_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.CodeCache",
    .tp_doc = "The entries of one code object in one CacheStore; made by CacheStore.cache_of().",
    .tp_basicsize = sizeof(CodeCache),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)code_cache_traverse,
    .tp_clear = (inquiry)code_cache_clear,
    .tp_dealloc = (destructor)code_cache_dealloc,
    .tp_repr = (reprfunc)code_cache_repr,
    .tp_members = code_cache_members,
    .tp_getset = code_cache_getset,
    .tp_weaklistoffset = offsetof(CodeCache, weakrefs),
};

/* -- CacheStore ------------------------------------------------------------------------------------------------- */

static PyObject *
store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":CacheStore", names)) {
        return NULL;
    }
    return type->tp_alloc(type, 0);
}

static int
store_traverse(CacheStore *self, visitproc visit, void *arg)
{
    for (CodeCache *cache = self->first; cache != NULL; cache = cache->next) {
        Py_VISIT(cache);
    }
    return 0;
}

/* One at a time: dropping a cache may run any code, which may come back here. */
static int
store_clear(CacheStore *self)
{
    while (self->first != NULL) {
        CodeCache *cache = self->first;
        detach(cache);
        Py_DECREF(cache);
    }
    return 0;
}

static void
store_dealloc(CacheStore *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    store_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

CodeCache *
store_cache_of(CacheStore *store, PyCodeObject *code)
{
    CodeExtra *extra = code_extra_or_new(code);
    if (extra == NULL) {
        return NULL;
    }
    CodeCache *cache = find_cache(extra, store);
    if (cache != NULL) {
        return cache;
    }
    cache = code_cache_new(code);
    if (cache == NULL) {
        return NULL;
    }
    /* Making the cache may have collected garbage, which may have run any code. */
    CodeCache *existing = find_cache(extra, store);
    if (existing != NULL || extra_add(extra, store, cache) < 0) {
        Py_DECREF(cache);
        return existing;
    }
    cache->code = code;
    cache->store = store;
    cache->next = store->first;
    if (store->first != NULL) {
        store->first->previous = cache;
    }
    store->first = cache;
    return cache;
}

static bool
is_code(PyObject *object)
{
    if (!PyCode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a code object is wanted, not %.100s", Py_TYPE(object)->tp_name);
        return false;
    }
    return true;
}

static PyObject *
store_method_cache_of(CacheStore *self, PyObject *code)
{
    return is_code(code) ? Py_XNewRef((PyObject *)store_cache_of(self, (PyCodeObject *)code)) : NULL;
}

static PyObject *
store_method_forget(CacheStore *self, PyObject *code)
{
    if (!is_code(code)) {
        return NULL;
    }
    CodeExtra *extra = code_extra((PyCodeObject *)code);
    CodeCache *cache = extra == NULL ? NULL : find_cache(extra, self);
    if (cache != NULL) {
        detach(cache);
        Py_DECREF(cache);
    }
    Py_RETURN_NONE;
}

static PyObject *
store_method_clear(CacheStore *self, PyObject *Py_UNUSED(ignored))
{
    store_clear(self);
    Py_RETURN_NONE;
}

static PyObject *
store_method_caches(CacheStore *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    for (CodeCache *cache = self->first; cache != NULL; cache = cache->next) {
        if (PyList_Append(list, (PyObject *)cache) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    PyList_Reverse(list);  /* the newest stands first in our list; people expect the oldest there */
    return list;
}

static PyMethodDef store_methods[] = {
    {"cache_of", (PyCFunction)store_method_cache_of, METH_O, "cache_of(code): its CodeCache here, made if needed."},
    {"forget", (PyCFunction)store_method_forget, METH_O, "forget(code): drop its CodeCache."},
    {"clear", (PyCFunction)store_method_clear, METH_NOARGS, "clear(): drop every CodeCache."},
    {"caches", (PyCFunction)store_method_caches, METH_NOARGS, "caches(): list of all CodeCaches, oldest first."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject CacheStore_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.CacheStore",
    .tp_doc = "CacheStore(): owns the entries of any number of code objects; code objects only borrow them.",
    .tp_basicsize = sizeof(CacheStore),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = store_new,
    .tp_traverse = (traverseproc)store_traverse,
    .tp_clear = (inquiry)store_clear,
    .tp_dealloc = (destructor)store_dealloc,
    .tp_methods = store_methods,
    .tp_weaklistoffset = offsetof(CacheStore, weakrefs),
};

/* -- skip marks ------------------------------------------------------------------------------------------------- */

static PyObject *
mark(PyObject *code, enum SkipMark skip)
{
    if (!is_code(code)) {
        return NULL;
    }
    CodeExtra *extra = code_extra_or_new((PyCodeObject *)code);
    if (extra == NULL) {
        return NULL;
    }
    extra->skip = skip;
    Py_RETURN_NONE;
}

static PyObject *
skip_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    return mark(code, SKIP_FRAME);
}

static PyObject *
skip_code_recursively(PyObject *Py_UNUSED(module), PyObject *code)
{
    return mark(code, SKIP_CALLEES_TOO);
}

static PyObject *
unskip_code(PyObject *Py_UNUSED(module), PyObject *code)
{
    return mark(code, RUN_HOOKED);
}

static PyObject *
is_skipped(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!is_code(code)) {
        return NULL;
    }
    CodeExtra *extra = code_extra((PyCodeObject *)code);
    return PyBool_FromLong(extra != NULL && extra->skip != RUN_HOOKED);
}

PyMethodDef cache_functions[] = {
    {"skip_code", skip_code, METH_O, "skip_code(code): its frames run plain, in every region; their callees do not."},
    {"skip_code_recursively", skip_code_recursively, METH_O,
     "skip_code_recursively(code): its frames run plain, and so does all that they call."},
    {"unskip_code", unskip_code, METH_O, "unskip_code(code): take either mark off."},
    {"is_skipped", is_skipped, METH_O, "is_skipped(code) -> bool: has it either mark?"},
    {NULL, NULL, 0, NULL},
};

int
init_cache(PyObject *module)
{
    code_extra_index = request_code_extra_index(free_extra);
    if (code_extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no code-extra slot is left for the frame hook");
        return -1;
    }
    if (PyModule_AddType(module, &CacheStore_Type) < 0 || PyModule_AddType(module, &CodeCache_Type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, &Entry_Type);
}
