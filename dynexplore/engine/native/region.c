/* Which region a thread is in, and when the evaluator is installed.

   A region says: frames that start in this thread from now on are looked up in this store, and this callback is asked
   about those that have no entry.  Regions nest; None switches the hook off inside one (compiled graphs run so).

   An installed evaluator slows every Python call of the process, because CPython stops inlining them.  So ours is
   installed exactly while some thread has a region, and the last one out puts back what it found.  Another evaluator
   (torch.compile's) may be installed at the same time; strictly last in, first out:

       ours above theirs    we found theirs, and put it back on leaving.  Threads that are in no region are handed to it.
                            A thread in a region is not, even while switched off: else torch.compile would compile our
                            translator.  So then we stay installed while switched off, and only pass frames on.
       theirs above ours    we cannot leave: we stay "buried", pass frames on, and go when we are found on top again

   Comes in: enter/leave, RegionCall.  Goes out: thread_state.region for the hook.
   PyTorch does the same job in torch/csrc/dynamo/eval_frame.c (set_eval_frame, enable_eval_frame_shim). */

#include "native.h"

_Thread_local ThreadState thread_state;

/* -- installing ------------------------------------------------------------------------------------------------- */

static int threads_counted;         /* how many threads need us installed right now */
static Evaluator previous;          /* what the latest installing found, to be put back */
static Evaluator below;             /* what lies below the lowest place where we are installed */
static bool buried;                 /* someone installed theirs above us and may put us back */

static void
install(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    Evaluator now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (now == frame_hook) {        /* put back by someone who had found us */
        previous = below;
        buried = false;
        return;
    }
    if (now == _PyEval_EvalFrameDefault) {
        buried = false;             /* nobody is installed, so we are not below anybody */
    }
    previous = now;
    if (!buried) {                  /* else `now` may pass frames on to us: never pass them on to it */
        below = now;
    }
    _PyInterpreterState_SetEvalFrameFunc(interpreter, frame_hook);
}

static void
uninstall(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != frame_hook) {
        buried = true;
        return;
    }
    _PyInterpreterState_SetEvalFrameFunc(interpreter, previous);
    if (previous == below) {
        buried = false;
    }
}

/* The hook was called though no thread needs it: someone put it back.  Go now. */
COLD void
uninstall_if_unused(void)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (threads_counted == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == frame_hook) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, below);
        previous = below;
        buried = false;
    }
}

Evaluator
evaluator_below(void)
{
    return below == NULL ? _PyEval_EvalFrameDefault : below;
}

/* -- threads and forks ------------------------------------------------------------------------------------------ */

static void watch_thread(void);

/* Called after each change of this thread's region or depth. */
static inline void
settle(ThreadState *thread)
{
    bool off_above_foreign = thread->counted && thread->depth > 0 && previous != _PyEval_EvalFrameDefault;
    bool must_count = thread->region != NULL || off_above_foreign;
    if (must_count == thread->counted) {
        return;
    }
    thread->counted = must_count;
    if (!must_count) {
        if (--threads_counted == 0) {
            uninstall();
        }
        return;
    }
    if (unlikely(!thread->watched)) {
        watch_thread();
        measure_c_stack(thread);
    }
    if (threads_counted++ == 0) {
        install();
    }
}

Region *
switch_region(Region *region)
{
    ThreadState *thread = &thread_state;
    Region *before = thread->region;
    thread->region = region;
    settle(thread);
    return before;
}

/* What lay around a region that was entered. */
typedef struct {
    Region *region;           /* owned */
    int tracing;
} Around;

static inline Around
enter_region(Region *region)
{
    int tracing = thread_state.tracing;
    thread_state.depth++;
    thread_state.tracing = PyThreadState_Get()->tracing;
    return (Around){switch_region(region), tracing};
}

static inline void
leave_region(Around around)
{
    if (thread_state.depth > 0) {
        thread_state.depth--;
    }
    thread_state.tracing = around.tracing;
    Py_XDECREF((PyObject *)switch_region(around.region));
}

/* Stands in the thread's dictionary: when a thread ends inside a region, the region ends with it. */
typedef struct {
    PyObject_HEAD
    unsigned long thread;
} ThreadWatch;

static void drop_blocks(void);

static void
thread_watch_dealloc(ThreadWatch *self)
{
    /* At exit and in a forked child, one thread clears the dictionaries of others, whose state is gone. */
    if (self->thread == PyThread_get_thread_ident()) {
        thread_state.watched = false;
        thread_state.depth = 0;
        drop_blocks();
        Py_XDECREF((PyObject *)switch_region(NULL));
    }
    PyObject_Free(self);
}

static PyTypeObject ThreadWatch_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.ThreadWatch",
    .tp_basicsize = sizeof(ThreadWatch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)thread_watch_dealloc,
};

/* Failing to watch is not worth an exception: it only means that a region outlives its thread. */
static COLD void
watch_thread(void)
{
    PyObject *exception = take_exception();
    PyObject *dictionary = PyThreadState_GetDict();
    ThreadWatch *watch = dictionary == NULL ? NULL : PyObject_New(ThreadWatch, &ThreadWatch_Type);
    if (watch != NULL) {
        watch->thread = 0;
        if (PyDict_SetItemString(dictionary, "dynexplore region", (PyObject *)watch) == 0) {
            watch->thread = PyThread_get_thread_ident();
            thread_state.watched = true;
        }
        Py_DECREF(watch);
    }
    PyErr_Clear();
    put_exception_back(exception);
}

/* In the child only the forking thread lives on. */
static PyObject *
after_fork_in_child(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    threads_counted = thread_state.counted;
    if (threads_counted == 0 && _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == frame_hook) {
        uninstall();
    }
    Py_RETURN_NONE;
}

/* -- Region ----------------------------------------------------------------------------------------------------- */

static int
region_set_store(Region *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value != NULL && value != Py_None && !PyObject_TypeCheck(value, &CacheStore_Type)) {
        PyErr_Format(PyExc_TypeError, "store must be a CacheStore or None, not %.100s", Py_TYPE(value)->tp_name);
        return -1;
    }
    CacheStore *old = self->store;
    self->store = value == NULL || value == Py_None ? NULL : (CacheStore *)Py_NewRef(value);
    Py_XDECREF(old);
    return 0;
}

static int
set_callable(PyObject **field, PyObject *value, const char *name)
{
    if (value != NULL && value != Py_None && !PyCallable_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be callable or None, not %.100s", name, Py_TYPE(value)->tp_name);
        return -1;
    }
    PyObject *old = *field;
    *field = value == NULL || value == Py_None ? NULL : Py_NewRef(value);
    Py_XDECREF(old);
    return 0;
}

static int
region_set_callback(Region *self, PyObject *value, void *Py_UNUSED(closure))
{
    return set_callable(&self->callback, value, "callback");
}

static int
region_set_on_hit(Region *self, PyObject *value, void *Py_UNUSED(closure))
{
    return set_callable(&self->on_hit, value, "on_hit");
}

static PyObject *
or_none(PyObject *object)
{
    return Py_NewRef(object == NULL ? Py_None : object);
}

static PyObject *
region_get_store(Region *self, void *Py_UNUSED(closure))
{
    return or_none((PyObject *)self->store);
}

static PyObject *
region_get_callback(Region *self, void *Py_UNUSED(closure))
{
    return or_none(self->callback);
}

static PyObject *
region_get_on_hit(Region *self, void *Py_UNUSED(closure))
{
    return or_none(self->on_hit);
}

static PyObject *
region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"store", "callback", "on_hit", NULL};
    PyObject *store, *callback, *on_hit = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O:Region", names, &store, &callback, &on_hit)) {
        return NULL;
    }
    Region *self = (Region *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    if (region_set_store(self, store, NULL) < 0 || region_set_callback(self, callback, NULL) < 0
        || region_set_on_hit(self, on_hit, NULL) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
region_traverse(Region *self, visitproc visit, void *arg)
{
    Py_VISIT(self->store);
    Py_VISIT(self->callback);
    Py_VISIT(self->on_hit);
    return 0;
}

static int
region_clear(Region *self)
{
    Py_CLEAR(self->store);
    Py_CLEAR(self->callback);
    Py_CLEAR(self->on_hit);
    return 0;
}

static void
region_dealloc(Region *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    region_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyGetSetDef region_getset[] = {
    {"store", (getter)region_get_store, (setter)region_set_store, "The CacheStore that frames are looked up in.", NULL},
    {"callback", (getter)region_get_callback, (setter)region_set_callback, "Asked on a miss; None: run only.", NULL},
    {"on_hit", (getter)region_get_on_hit, (setter)region_set_on_hit, "Told of each hit; None: nobody listens.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Region_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.Region",
    .tp_doc = "Region(store, callback, on_hit=None): where frames are looked up, and who is asked on a miss.",
    .tp_basicsize = sizeof(Region),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = region_new,
    .tp_traverse = (traverseproc)region_traverse,
    .tp_clear = (inquiry)region_clear,
    .tp_dealloc = (destructor)region_dealloc,
    .tp_getset = region_getset,
    .tp_weaklistoffset = offsetof(Region, weakrefs),
};

/* -- RegionCall ------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;
    Region *region;           /* or NULL: hook off */
    PyObject *dict;
    PyObject *weakrefs;
} RegionCall;

/* Of nested regions that compile the outer wins. */
static inline bool
is_compiling_already(Region *inner)
{
    Region *outer = thread_state.region;
    return inner != NULL && inner->callback != NULL && outer != NULL && outer->callback != NULL;
}

/* The file of the functions that only call a module or a C function, so that there is a code object to look up: their
   frames are nothing of the program's. */
static const char entry_file[] = "<dynexplore entry>";

static bool
is_of_entry(PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool answer = PyUnicode_CompareWithASCIIString(code->co_filename, entry_file) == 0;
    Py_DECREF(code);
    return answer;
}

/* An exception comes out of a call: its traceback does not tell of the frame that we put between. */
static COLD void
take_entry_off_traceback(void)
{
    PyObject *exception = take_exception();
    if (exception == NULL) {
        return;
    }
    PyObject *traceback = PyException_GetTraceback(exception);
    if (traceback != NULL && PyTraceBack_Check(traceback) && is_of_entry((PyTracebackObject *)traceback)) {
        PyObject *rest = (PyObject *)((PyTracebackObject *)traceback)->tb_next;
        PyException_SetTraceback(exception, rest == NULL ? Py_None : rest);
    }
    Py_XDECREF(traceback);
    put_exception_back(exception);
}

static PyObject *
region_call_vectorcall(RegionCall *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (is_compiling_already(self->region)) {
        PyObject *result = PyObject_Vectorcall(self->fn, args, nargsf, kwnames);
        if (unlikely(result == NULL)) {
            take_entry_off_traceback();
        }
        return result;
    }
    Around around = enter_region((Region *)Py_XNewRef((PyObject *)self->region));
    PyObject *result = PyObject_Vectorcall(self->fn, args, nargsf, kwnames);
    if (unlikely(result == NULL)) {
        take_entry_off_traceback();
    }
    leave_region(around);
    return result;
}

static PyObject *
region_call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "region", NULL};
    PyObject *fn, *region;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:RegionCall", names, &fn, &region)) {
        return NULL;
    }
    if (!PyCallable_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "fn must be callable, not %.100s", Py_TYPE(fn)->tp_name);
        return NULL;
    }
    if (region != Py_None && !PyObject_TypeCheck(region, &Region_Type)) {
        PyErr_Format(PyExc_TypeError, "region must be a Region or None, not %.100s", Py_TYPE(region)->tp_name);
        return NULL;
    }
    RegionCall *self = (RegionCall *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = (vectorcallfunc)region_call_vectorcall;
    self->fn = Py_NewRef(fn);
    self->region = region == Py_None ? NULL : (Region *)Py_NewRef(region);
    return (PyObject *)self;
}

static int
region_call_traverse(RegionCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->region);
    Py_VISIT(self->dict);
    return 0;
}

static int
region_call_clear(RegionCall *self)
{
    Py_CLEAR(self->region);
    Py_CLEAR(self->dict);
    PyObject *fn = self->fn;
    self->fn = Py_NewRef(Py_None);  /* calling it still only raises */
    Py_XDECREF(fn);
    return 0;
}

static void
region_call_dealloc(RegionCall *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->region);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->fn);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* A method when found in a class, as a function is (Objects/funcobject.c, func_descr_get). */
static PyObject *
region_call_descr_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    if (object == NULL || object == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, object);
}

static PyObject *
region_call_repr(RegionCall *self)
{
    return PyUnicode_FromFormat("<RegionCall of %R%s>", self->fn, self->region == NULL ? ", hook off" : "");
}

static PyMemberDef region_call_members[] = {
    {"fn", T_OBJECT, offsetof(RegionCall, fn), READONLY, "What is called."},
    {"region", T_OBJECT, offsetof(RegionCall, region), READONLY, "The region it runs in; None: hook off."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef region_call_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject RegionCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.RegionCall",
    .tp_doc = "RegionCall(fn, region): calls fn inside the region, or with the hook off when region is None.",
    .tp_basicsize = sizeof(RegionCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL
                | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = region_call_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(RegionCall, vectorcall),
    .tp_traverse = (traverseproc)region_call_traverse,
    .tp_clear = (inquiry)region_call_clear,
    .tp_dealloc = (destructor)region_call_dealloc,
    .tp_repr = (reprfunc)region_call_repr,
    .tp_descr_get = region_call_descr_get,
    .tp_members = region_call_members,
    .tp_getset = region_call_getset,
    .tp_dictoffset = offsetof(RegionCall, dict),
    .tp_weaklistoffset = offsetof(RegionCall, weakrefs),
};

/* -- RegionBlock ------------------------------------------------------------------------------------------------ */

/* A `with` block in a region.  In C, because a Ctrl-C between two instructions of a Python `__enter__` or `__exit__`
   would leave the thread in the wrong region. */
typedef struct {
    PyObject_HEAD
    Region *region;           /* or NULL: hook off */
    PyObject *dict;
    PyObject *weakrefs;
} RegionBlock;

struct OpenBlock {
    Around around;
    struct OpenBlock *outer;
};

/* The thread ends inside of blocks. */
static void
drop_blocks(void)
{
    while (thread_state.blocks != NULL) {
        struct OpenBlock *block = thread_state.blocks;
        thread_state.blocks = block->outer;
        Py_XDECREF((PyObject *)block->around.region);
        PyMem_Free(block);
    }
}

static PyObject *
region_block_enter(RegionBlock *self, PyObject *Py_UNUSED(ignored))
{
    struct OpenBlock *block = PyMem_Malloc(sizeof(*block));
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    Region *target = is_compiling_already(self->region) ? thread_state.region : self->region;
    block->around = enter_region((Region *)Py_XNewRef((PyObject *)target));
    block->outer = thread_state.blocks;
    thread_state.blocks = block;
    Py_RETURN_NONE;
}

static PyObject *
region_block_exit(RegionBlock *self, PyObject *Py_UNUSED(exception))
{
    struct OpenBlock *block = thread_state.blocks;
    if (block == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this thread is in no block of a region");
        return NULL;
    }
    thread_state.blocks = block->outer;
    Around around = block->around;
    PyMem_Free(block);
    leave_region(around);
    Py_RETURN_NONE;
}

static PyObject *
region_block_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *region = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (region == NULL || (region != Py_None && !PyObject_TypeCheck(region, &Region_Type))) {
        PyErr_SetString(PyExc_TypeError, "RegionBlock takes a Region or None first");
        return NULL;
    }
    RegionBlock *self = (RegionBlock *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->region = region == Py_None ? NULL : (Region *)Py_NewRef(region);
    return (PyObject *)self;
}

static int
region_block_traverse(RegionBlock *self, visitproc visit, void *arg)
{
    Py_VISIT(self->region);
    Py_VISIT(self->dict);
    return 0;
}

static int
region_block_clear(RegionBlock *self)
{
    Py_CLEAR(self->region);
    Py_CLEAR(self->dict);
    return 0;
}

static void
region_block_dealloc(RegionBlock *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    region_block_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef region_block_members[] = {
    {"region", T_OBJECT, offsetof(RegionBlock, region), READONLY, "The region of the block; None: hook off."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef region_block_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef region_block_methods[] = {
    {"__enter__", (PyCFunction)region_block_enter, METH_NOARGS, "Switch this thread to the region."},
    {"__exit__", (PyCFunction)region_block_exit, METH_VARARGS, "Switch this thread back."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject RegionBlock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.RegionBlock",
    .tp_doc = "RegionBlock(region): `with` it, frames that start are looked up in the region; None: hook off.",
    .tp_basicsize = sizeof(RegionBlock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = region_block_new,
    .tp_traverse = (traverseproc)region_block_traverse,
    .tp_clear = (inquiry)region_block_clear,
    .tp_dealloc = (destructor)region_block_dealloc,
    .tp_methods = region_block_methods,
    .tp_members = region_block_members,
    .tp_getset = region_block_getset,
    .tp_dictoffset = offsetof(RegionBlock, dict),
    .tp_weaklistoffset = offsetof(RegionBlock, weakrefs),
};

/* -- functions -------------------------------------------------------------------------------------------------- */

static bool
as_region(PyObject *object, Region **region)
{
    if (object != Py_None && !PyObject_TypeCheck(object, &Region_Type)) {
        PyErr_Format(PyExc_TypeError, "a Region or None is wanted, not %.100s", Py_TYPE(object)->tp_name);
        return false;
    }
    *region = object == Py_None ? NULL : (Region *)Py_NewRef(object);
    return true;
}

static PyObject *
enter(PyObject *Py_UNUSED(module), PyObject *object)
{
    Region *region;
    if (!as_region(object, &region)) {
        return NULL;
    }
    Region *before = enter_region(region).region;
    if (before == NULL) {
        Py_RETURN_NONE;
    }
    return (PyObject *)before;
}

static PyObject *
leave(PyObject *Py_UNUSED(module), PyObject *object)
{
    Region *region;
    if (!as_region(object, &region)) {
        return NULL;
    }
    leave_region((Around){region, thread_state.tracing});
    Py_RETURN_NONE;
}

static PyObject *
current(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return or_none((PyObject *)thread_state.region);
}

static PyObject *
installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == frame_hook);
}

static PyObject *
region_depth(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(thread_state.depth);
}

PyMethodDef region_functions[] = {
    {"enter", enter, METH_O, "enter(region or None): switch this thread to it; returns what it was in before."},
    {"leave", leave, METH_O, "leave(previous): switch this thread back to what enter() returned."},
    {"current", current, METH_NOARGS, "current(): the region this thread is in, or None."},
    {"installed", installed, METH_NOARGS, "installed(): is the frame hook the interpreter's evaluator right now?"},
    {"region_depth", region_depth, METH_NOARGS, "region_depth(): enters of this thread that were not left yet."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef after_fork = {"after_fork_in_child", after_fork_in_child, METH_NOARGS, NULL};

static int
register_fork_handler(void)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *handler = PyCFunction_New(&after_fork, NULL);
    PyObject *registrar = os == NULL ? NULL : PyObject_GetAttrString(os, "register_at_fork");
    PyObject *keywords = handler == NULL ? NULL : Py_BuildValue("{sO}", "after_in_child", handler);
    PyObject *nothing = PyTuple_New(0);
    PyObject *done = NULL;
    if (registrar != NULL && keywords != NULL && nothing != NULL) {
        done = PyObject_Call(registrar, nothing, keywords);
    }
    Py_XDECREF(os);
    Py_XDECREF(handler);
    Py_XDECREF(registrar);
    Py_XDECREF(keywords);
    Py_XDECREF(nothing);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

int
init_region(PyObject *module)
{
    if (PyType_Ready(&ThreadWatch_Type) < 0 || register_fork_handler() < 0) {
        return -1;
    }
    if (PyModule_AddType(module, &Region_Type) < 0) {
        return -1;
    }
    if (PyModule_AddStringConstant(module, "ENTRY_FILE", entry_file) < 0) {
        return -1;
    }
    if (PyModule_AddType(module, &RegionBlock_Type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, &RegionCall_Type);
}
