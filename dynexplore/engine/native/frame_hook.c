/* The frame hook: what happens when a Python function is called inside a region (PEP 523).

       a frame is about to run -> find its code object's entries -> the first whose guards pass:
                                    swap the frame's code object for the entry's and let CPython run it;
                                    where that ends with a TailCall, run what is to go on in its place
                               -> none passes: ask the region's callback, which may make an entry

   Nothing of the frame has run when the hook sees it, so only the argument slots hold values, and swapping the code
   object is enough: CPython's own evaluator then does everything else.  The compiled graphs that the new code calls
   are put into extra local variables, so nothing global is touched and a running frame keeps them alive.

   Comes in: frames, regions, entries.  Goes out: the frame's result.
   PyTorch does the same job in torch/csrc/dynamo/eval_frame.c and eval_frame_cpp.cpp; it copies the frame and clears
   the old one with copies of CPython's internals (cpython_defs.c), which the swap in place makes unnecessary. */

#include "native.h"

PyObject *unbound;

/* -- FrameState: what the callback sees -------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *code;
    PyObject *function;
    PyObject *globals;
    PyObject *builtins;
    PyObject *closure;
    PyObject *values;
    PyObject *cache;
    PyObject *resumed_from;
    PyObject *raised;
} FrameState;

static PyTypeObject FrameState_Type;

static int
frame_state_traverse(FrameState *self, visitproc visit, void *arg)
{
    Py_VISIT(self->code);
    Py_VISIT(self->function);
    Py_VISIT(self->globals);
    Py_VISIT(self->builtins);
    Py_VISIT(self->closure);
    Py_VISIT(self->values);
    Py_VISIT(self->cache);
    Py_VISIT(self->resumed_from);
    Py_VISIT(self->raised);
    return 0;
}

/* Also called when the callback is done: a FrameState that somebody keeps must not keep the call's arguments. */
static int
frame_state_clear(FrameState *self)
{
    Py_CLEAR(self->code);
    Py_CLEAR(self->function);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->builtins);
    Py_CLEAR(self->closure);
    Py_CLEAR(self->values);
    Py_CLEAR(self->cache);
    Py_CLEAR(self->resumed_from);
    Py_CLEAR(self->raised);
    return 0;
}

static void
frame_state_dealloc(FrameState *self)
{
    PyObject_GC_UnTrack(self);
    frame_state_clear(self);
    PyObject_GC_Del(self);
}

static PyObject *
frame_state_get(PyObject *self, void *offset)
{
    PyObject *value = *(PyObject **)((char *)self + (Py_ssize_t)offset);
    if (value == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a FrameState is valid only during the callback it was made for");
        return NULL;
    }
    return Py_NewRef(value);
}

#define FRAME_STATE_FIELD(field, doc) {#field, frame_state_get, NULL, doc, (void *)offsetof(FrameState, field)}

static PyGetSetDef frame_state_getset[] = {
    FRAME_STATE_FIELD(code, "The code object that is about to run."),
    FRAME_STATE_FIELD(function, "The function that was called."),
    FRAME_STATE_FIELD(globals, "The frame's global variables, a dict."),
    FRAME_STATE_FIELD(builtins, "The frame's builtins, a dict."),
    FRAME_STATE_FIELD(closure, "The function's closure: a tuple of cells, or None."),
    FRAME_STATE_FIELD(values, "The objects in the argument slots, in order; UNBOUND where there is none."),
    FRAME_STATE_FIELD(cache, "The CodeCache of the code object in the region's store; None without a store."),
    FRAME_STATE_FIELD(resumed_from, "The modified code whose TailCall started the frame; None for any other frame."),
    FRAME_STATE_FIELD(raised, "What a signal handler has raised while the entries of a resume function were asked; or None."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject FrameState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.FrameState",
    .tp_doc = "A frame that is about to run, as a region's callback sees it; valid only during the callback.",
    .tp_basicsize = sizeof(FrameState),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)frame_state_traverse,
    .tp_clear = (inquiry)frame_state_clear,
    .tp_dealloc = (destructor)frame_state_dealloc,
    .tp_getset = frame_state_getset,
};

static PyObject *
closure_of(Frame *frame)
{
    PyObject *closure = frame_function(frame)->func_closure;
    return closure == NULL ? Py_None : closure;
}

static PyObject *
slot_value(Frame *frame, int slot)
{
    PyObject *value = frame_slot(frame, slot);
    return value == NULL ? unbound : value;
}

static FrameState *
frame_state_new(Frame *frame, CodeCache *cache, PyObject *resumed_from, PyObject *raised)
{
    int slots = argument_slots(frame_code(frame));
    PyObject *values = PyTuple_New(slots);
    if (values == NULL) {
        return NULL;
    }
    for (int i = 0; i < slots; i++) {
        PyTuple_SET_ITEM(values, i, Py_NewRef(slot_value(frame, i)));
    }
    FrameState *self = PyObject_GC_New(FrameState, &FrameState_Type);
    if (self == NULL) {
        Py_DECREF(values);
        return NULL;
    }
    self->code = Py_NewRef((PyObject *)frame_code(frame));
    self->function = Py_NewRef((PyObject *)frame_function(frame));
    self->globals = Py_NewRef(frame->f_globals);
    self->builtins = Py_NewRef(frame->f_builtins);
    self->closure = Py_NewRef(closure_of(frame));
    self->values = values;
    self->cache = Py_NewRef(cache == NULL ? Py_None : (PyObject *)cache);
    self->resumed_from = Py_NewRef(resumed_from == NULL ? Py_None : resumed_from);
    self->raised = Py_NewRef(raised == NULL ? Py_None : raised);
    PyObject_GC_Track(self);
    return self;
}

/* -- guards ----------------------------------------------------------------------------------------------------- */

enum Outcome {
    RUN,         /* let CPython run the frame as it is */
    RUN_SWAPPED, /* let CPython run the frame, whose code is that of an entry now */
    RUN_SWAPPED_ALONE, /* the same, with the hook off: the code calls compiled graphs and nothing of the program's */
    RUN_ALONE,   /* the callback marked the code: the frame runs plain, and so does all it calls */
    RUN_MOVED,   /* the entry in thread_state.arriving is to run, but does not fit into the frame */
    RUN_VISIT,   /* the callback named another region: the frame begins again in that one, and what ends with it is reported */
    RAISED,      /* an exception is set: the frame must not run */
    MISS,
    HIT,
};

/* The arguments of a check, on the C stack for functions of ordinary size. */
typedef struct {
    PyObject *on_stack[16];
    PyObject **first;
    int count;
} CheckArguments;

static bool
gather(CheckArguments *arguments, Frame *frame, int slots)
{
    arguments->count = slots + 2;
    arguments->first = arguments->on_stack + 1;     /* vectorcall may want the place before the first */
    if (unlikely(arguments->count + 1 > (int)Py_ARRAY_LENGTH(arguments->on_stack))) {
        PyObject **heap = PyMem_Malloc((arguments->count + 1) * sizeof(PyObject *));
        if (heap == NULL) {
            PyErr_NoMemory();
            return false;
        }
        arguments->first = heap + 1;
    }
    for (int i = 0; i < slots; i++) {
        arguments->first[i] = slot_value(frame, i);
    }
    arguments->first[slots] = closure_of(frame);
    arguments->first[slots + 1] = frame->f_globals;
    return true;
}

static void
release(CheckArguments *arguments)
{
    if (unlikely(arguments->first != arguments->on_stack + 1)) {
        PyMem_Free(arguments->first - 1);
    }
}

static PyObject *
ask_check(Entry *entry, CheckArguments *arguments)
{
    return PyObject_Vectorcall(entry->check, arguments->first, arguments->count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* What an exception out of a check means.  One that it raises whenever it is asked: this entry does not fit.  One that it
   raises once comes from a signal handler of the program, which CPython calls in any Python function: it is the program's.
   But where memory or the stack has run out nothing should be compiled: the frame runs plain, and meets the same end by
   itself. */
static COLD enum Outcome
after_failed_check(Entry *entry, CheckArguments *arguments)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        return RAISED;
    }
    if (PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        return RUN;
    }
    PyObject *raised = take_exception();
    PyObject *answer = ask_check(entry, arguments);
    bool is_of_handler = answer != NULL || !PyErr_ExceptionMatches((PyObject *)Py_TYPE(raised));
    Py_XDECREF(answer);
    if (answer == NULL && !PyErr_ExceptionMatches(PyExc_Exception)) {
        Py_DECREF(raised);
        return RAISED;
    }
    PyErr_Clear();
    if (!is_of_handler) {
        Py_DECREF(raised);
        return MISS;
    }
    put_exception_back(raised);
    return RAISED;
}

/* Do the first entries say that the frame runs plain, for values of these classes?  A function of numbers that C code
   calls thousands of times ends here: no reference is taken, nothing of the program can run. */
static inline bool
is_left_to_python(CodeCache *cache, Frame *frame)
{
    PyObject *room[16];
    int slots = argument_slots(frame_code(frame));
    if (unlikely(slots > (int)Py_ARRAY_LENGTH(room))) {
        return false;               /* then they are looked up like others */
    }
    PyObject **values = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cache->entries); i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(cache->entries, i);
        if (entry->types == NULL || entry->check != NULL || entry->code != frame_code(frame)) {
            return false;
        }
        if (values == NULL) {
            values = frame_slots(frame, slots, room);
        }
        if (entry->valid && type_guard_passes(entry->types, values, closure_of(frame), frame->f_globals)
            && (entry->walk == NULL || guard_walk_passes(entry->walk))) {
            entry->hits++;
            return true;
        }
    }
    return false;
}

static enum Outcome
try_entry(Entry *entry, CheckArguments *arguments)
{
    if (!entry->valid || (entry->walk != NULL && !guard_walk_passes(entry->walk))) {
        return MISS;
    }
    PyObject **closure = arguments->first + arguments->count - 2;   /* and behind it the globals */
    if (entry->types != NULL && !type_guard_passes(entry->types, arguments->first, *closure, closure[1])) {
        return MISS;
    }
    if (entry->check == NULL) {
        return HIT;
    }
    PyObject *answer = ask_check(entry, arguments);
    if (unlikely(answer == NULL)) {
        return after_failed_check(entry, arguments);
    }
    Py_DECREF(answer);
    return answer == Py_True ? HIT : MISS;
}

/* The first entry that hits; its reference is the caller's. */
static enum Outcome
find_entry(PyThreadState *tstate, Frame *frame, PyObject *entries, Entry **hit)
{
    CheckArguments arguments;
    if (!gather(&arguments, frame, argument_slots(frame_code(frame)))) {
        return RAISED;
    }
    bool traced = tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL;
    if (unlikely(traced)) {         /* a debugger steps through the program, not through guards */
        PyThreadState_EnterTracing(tstate);
    }
    enum Outcome outcome = MISS;
    Py_ssize_t count = PyTuple_GET_SIZE(entries);
    for (Py_ssize_t i = 0; i < count && outcome == MISS; i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        outcome = try_entry(entry, &arguments);
        if (outcome == HIT) {
            *hit = (Entry *)Py_NewRef((PyObject *)entry);
        }
    }
    if (unlikely(traced)) {
        PyThreadState_LeaveTracing(tstate);
    }
    release(&arguments);
    return outcome;
}

/* -- callbacks -------------------------------------------------------------------------------------------------- */

/* Someone watches.  A watcher that fails must not change what is watched; Ctrl-C still counts. */
static COLD enum Outcome
tell_of_hit(PyThreadState *tstate, PyObject *on_hit, Frame *frame, Entry *entry)
{
    Py_INCREF(on_hit);
    bool traced = tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL;
    if (traced) {
        PyThreadState_EnterTracing(tstate);
    }
    PyObject *nothing = PyObject_CallFunctionObjArgs(on_hit, frame_code(frame), entry, NULL);
    if (traced) {
        PyThreadState_LeaveTracing(tstate);
    }
    enum Outcome outcome = HIT;
    if (nothing == NULL) {
        if (PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_WriteUnraisable(on_hit);
        }
        else {
            outcome = RAISED;
        }
    }
    Py_XDECREF(nothing);
    Py_DECREF(on_hit);
    return outcome;
}

/* A visit: `(region, ended)`. */
static bool
is_visit(PyObject *answer)
{
    return PyTuple_CheckExact(answer) && PyTuple_GET_SIZE(answer) == 2
           && PyObject_TypeCheck(PyTuple_GET_ITEM(answer, 0), &Region_Type) && PyCallable_Check(PyTuple_GET_ITEM(answer, 1));
}

static COLD enum Outcome
judge_answer(PyObject *answer, PyCodeObject *code, Entry **entry, PyObject **visit)
{
    if (answer == Py_None) {
        return RUN;
    }
    if (is_visit(answer)) {
        *visit = Py_NewRef(answer);
        return RUN_VISIT;
    }
    if (!PyObject_TypeCheck(answer, &Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "a region's callback must return an Entry, a visit or None, not %.100s",
                     Py_TYPE(answer)->tp_name);
        return RAISED;
    }
    if (!entry_fits((Entry *)answer, code)) {
        return RAISED;
    }
    *entry = (Entry *)Py_NewRef(answer);
    return HIT;
}

/* Called with the hook off and, where possible, uninstalled: a translation runs many frames.  An exception that is set,
   a signal handler's, is the callback's to raise. */
static COLD enum Outcome
ask_callback(Region *region, Frame *frame, CodeCache *cache, PyObject *resumed_from, Entry **entry, PyObject **visit)
{
    if (region->store != NULL && cache == NULL) {
        cache = store_cache_of(region->store, frame_code(frame));
        if (cache == NULL) {
            return RAISED;
        }
    }
    PyObject *raised = take_exception();
    FrameState *state = frame_state_new(frame, cache, resumed_from, raised);
    Py_XDECREF(raised);
    if (state == NULL) {
        return RAISED;
    }
    PyObject *callback = Py_NewRef(region->callback);
    PyObject *answer = PyObject_CallOneArg(callback, (PyObject *)state);
    enum Outcome outcome = answer == NULL ? RAISED : judge_answer(answer, frame_code(frame), entry, visit);
    Py_XDECREF(answer);
    Py_DECREF(callback);
    frame_state_clear(state);
    Py_DECREF(state);
    if (outcome == RUN) {           /* the mark counts for this frame, too */
        CodeExtra *extra = code_extra(frame_code(frame));
        if (extra != NULL && extra->skip == SKIP_CALLEES_TOO) {
            outcome = RUN_ALONE;
        }
    }
    return outcome;
}

/* -- the swap --------------------------------------------------------------------------------------------------- */

/* Make the locals those of the entry's code: arguments stay, the rest is empty but for the injected objects. */
static inline void
lay_out_locals(Frame *frame, Entry *entry)
{
    int count = entry->code->co_nlocalsplus;
    for (int i = entry->argument_slots; i < count; i++) {
        frame_fill_slot(frame, i, NULL);
    }
    int injected = (int)PyTuple_GET_SIZE(entry->injected);
    for (int i = 0; i < injected; i++) {
        frame_fill_slot(frame, (int)entry->inject_index + i, Py_NewRef(PyTuple_GET_ITEM(entry->injected, i)));
    }
    frame_set_stack_top(frame, count);
}

/* Let the frame run the entry's code.  False when the new code needs more room than is left in the thread's current
   chunk of frame memory (Python/pystate.c, push_chunk). */
static bool
swap_in_place(PyThreadState *tstate, Frame *frame, Entry *entry)
{
    PyObject **base = (PyObject **)frame;
    PyObject **end = base + frame_size(frame_code(frame));
    PyObject **new_end = base + frame_size(entry->code);
    if (unlikely(tstate->datastack_top != end || (new_end > end && new_end >= tstate->datastack_limit))) {
        return false;
    }
    tstate->datastack_top = new_end;
    lay_out_locals(frame, entry);
    frame_set_code(frame, (PyCodeObject *)Py_NewRef((PyObject *)entry->code));
    return true;
}

/* A code object that needs as much room as the entry's and takes no arguments: calling a function of it makes CPython
   allocate a frame of the right size, in a new chunk when need be. */
static PyObject *
room_code(Entry *entry)
{
    if (entry->room_code == NULL) {
        PyObject *replace = PyObject_GetAttrString((PyObject *)entry->code, "replace");
        PyObject *nothing = PyTuple_New(0);
        PyObject *changes = Py_BuildValue("{sisisisi}", "co_argcount", 0, "co_posonlyargcount", 0,
                                          "co_kwonlyargcount", 0, "co_flags",
                                          entry->code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS));
        PyObject *code = NULL;
        if (replace != NULL && nothing != NULL && changes != NULL) {
            code = PyObject_Call(replace, nothing, changes);
        }
        Py_XDECREF(replace);
        Py_XDECREF(nothing);
        Py_XDECREF(changes);
        Py_XSETREF(entry->room_code, code);
    }
    return entry->room_code;
}

static PyObject *bare_return;

/* Get rid of a frame that will not run, the way its caller expects: up to 3.11 the caller clears it; from 3.12 the
   evaluator does, so let it run a code object that only returns.  That code has no RESUME, so nobody sees it run: no
   line, no trace event, no traceback. */
static COLD PyObject *
dispose(PyThreadState *tstate, Frame *frame, PyObject *result)
{
    if (!EVALUATOR_CLEARS_FRAME) {
        return result;
    }
    PyObject *exception = take_exception();
    int locals = frame_code(frame)->co_nlocalsplus;
    frame_fill_slot(frame, locals, Py_NewRef(Py_None));
    frame_set_stack_top(frame, locals + 1);
    frame_set_code(frame, (PyCodeObject *)Py_NewRef(bare_return));
    PyObject *nothing = _PyEval_EvalFrameDefault(tstate, frame, 0);
    if (nothing == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(nothing);
    put_exception_back(exception);
    return result;
}

/* What COPY_FREE_VARS does: whoever reads the locals of a frame that has begun expects a cell in the slot of each free
   variable, without looking. */
static COLD void
copy_free_variables(Frame *frame)
{
    PyObject *closure = frame_function(frame)->func_closure;
    int count = closure == NULL ? 0 : (int)PyTuple_GET_SIZE(closure);
    int first = frame_code(frame)->co_nlocalsplus - count;
    for (int i = 0; i < count; i++) {
        frame_replace_slot(frame, first + i, Py_NewRef(PyTuple_GET_ITEM(closure, i)));
    }
}

/* An exception is set before a frame has begun that goes on for another one.  That one has ended, so nothing else tells of
   the function: raise the exception at the line where it goes on, so that the traceback has its entry. */
static COLD PyObject *
raise_in_resume_function(PyThreadState *tstate, Frame *frame)
{
    copy_free_variables(frame);
    frame_set_begun(frame);
    return _PyEval_EvalFrameDefault(tstate, frame, 1);
}

/* The entry in thread_state.arriving does not fit into `frame`: run it in a new frame, which the evaluator sees coming
   in `arrive`.  This happens where a chunk of frame memory ends, so mostly in deep recursion. */
static COLD PyObject *
run_in_new_frame(PyThreadState *tstate, Frame *frame)
{
    ThreadState *thread = &thread_state;
    Entry *entry = thread->arriving;
    thread->arriving = NULL;
    PyObject *result = NULL;
    PyObject *code = room_code(entry);
    PyObject *function = code == NULL ? NULL : PyFunction_New(code, frame->f_globals);
    if (function != NULL) {
        thread->arriving = entry;
        thread->arriving_from = frame;
        thread->arriving_region = thread->region;
        thread->region = NULL;
        result = PyObject_Vectorcall(function, NULL, 0, NULL);
        if (thread->arriving == entry) {            /* not even a frame could be made */
            thread->arriving = NULL;
            thread->region = thread->arriving_region;
        }
        Py_DECREF(function);
    }
    Py_DECREF(entry);
    return dispose(tstate, frame, result);
}

/* The frame with enough room is here: make it the one that was meant. */
static COLD PyObject *
arrive(ThreadState *thread, PyThreadState *tstate, Frame *frame)
{
    Entry *entry = thread->arriving;
    Frame *from = thread->arriving_from;
    Region *region = thread->arriving_region;
    bool alone = entry->runs_alone;
    thread->arriving = NULL;
    thread->region = alone ? NULL : region;
    for (int i = 0; i < entry->argument_slots; i++) {
        frame_move_slot(from, frame, i);
    }
    lay_out_locals(frame, entry);
    frame->f_globals = from->f_globals;
    frame->f_builtins = from->f_builtins;
    frame->f_locals = Py_XNewRef(from->f_locals);
    frame_set_code(frame, (PyCodeObject *)Py_NewRef((PyObject *)entry->code));
    frame_set_function(frame, (PyFunctionObject *)Py_NewRef((PyObject *)frame_function(from)));
    PyObject *result = _PyEval_EvalFrameDefault(tstate, frame, 0);
    if (alone) {
        thread->region = region;
    }
    return result;
}

/* -- the hook --------------------------------------------------------------------------------------------------- */

static enum Outcome
use_entry(PyThreadState *tstate, Frame *frame, Entry *entry)
{
    if (entry->code == frame_code(frame)) {     /* what was found out is that there is nothing to compile */
        return entry->runs_alone ? RUN_ALONE : RUN;
    }
    if (likely(swap_in_place(tstate, frame, entry))) {
        return entry->runs_alone ? RUN_SWAPPED_ALONE : RUN_SWAPPED;
    }
    if (_PyInterpreterState_GetEvalFrameFunc(tstate->interp) != frame_hook) {
        return RUN;                 /* nobody would see the new frame arrive: run the original */
    }
    thread_state.arriving = (Entry *)Py_NewRef((PyObject *)entry);
    return RUN_MOVED;
}

/* Decide about a frame and swap its code.  All that may run Python code happens here, with the thread's region
   cleared, and this returns before the frame runs, so that a hooked call needs hardly more C stack than another.
   We hold what we use: the program may drop entry, cache, store and region while a guard runs. */
static NOINLINE enum Outcome
look_up(PyThreadState *tstate, Frame *frame, CodeCache *cache, PyObject *resumed_from, PyObject **visit)
{
    if (frame->owner != FRAME_OWNED_BY_THREAD || frame->frame_obj != NULL) {
        return RUN;
    }
    Region *region = thread_state.region;
    thread_state.region = NULL;     /* its reference is ours until we put it back */
    Entry *entry = NULL;
    enum Outcome outcome = MISS;
    if (cache != NULL) {
        Py_INCREF(cache);
        PyObject *entries = Py_NewRef(cache->entries);
        if (PyTuple_GET_SIZE(entries) > 0) {
            outcome = find_entry(tstate, frame, entries, &entry);
        }
        Py_DECREF(entries);
    }
    if (outcome == HIT) {
        entry->hits++;
        if (unlikely(region->on_hit != NULL)) {
            outcome = tell_of_hit(tstate, region->on_hit, frame, entry);
        }
    }
    else if (region->callback != NULL && (outcome == MISS || (outcome == RAISED && resumed_from != NULL))) {
        thread_state.region = region;
        switch_region(NULL);
        outcome = ask_callback(region, frame, cache, resumed_from, &entry, visit);
        Py_XDECREF((PyObject *)switch_region(region));
        thread_state.region = NULL;
    }
    if (outcome == HIT) {
        outcome = use_entry(tstate, frame, entry);
    }
    else if (outcome == MISS) {
        outcome = RUN;
    }
    Py_XDECREF((PyObject *)entry);
    Py_XDECREF((PyObject *)cache);
    Py_XDECREF((PyObject *)thread_state.region);
    thread_state.region = region;
    if (unlikely(region->callback == NULL && region->store == NULL)) {  /* its callback has emptied it: it is over */
        Py_XDECREF((PyObject *)switch_region(NULL));
    }
    return outcome;
}

/* For code that is skipped with all it calls, and for deep recursion: once the hook is gone, CPython needs no C stack
   for Python calls. */
static COLD PyObject *
run_with_hook_off(PyThreadState *tstate, Frame *frame, int throwflag)
{
    Region *region = switch_region(NULL);
    PyObject *result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    Py_XDECREF((PyObject *)switch_region(region));
    return result;
}

/* Report to `ended(value, error)` that a visit is over, with the hook off.  What it raises is unraisable, but Ctrl-C counts: it
   takes the place of the frame's result. */
static COLD PyObject *
tell_of_end(PyThreadState *tstate, PyObject *ended, PyObject *result)
{
    PyObject *error = result == NULL ? take_exception() : NULL;
    bool traced = tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL;
    if (traced) {
        PyThreadState_EnterTracing(tstate);
    }
    PyObject *nothing = PyObject_CallFunctionObjArgs(ended, result == NULL ? Py_None : result,
                                                     error == NULL ? Py_None : error, NULL);
    if (traced) {
        PyThreadState_LeaveTracing(tstate);
    }
    if (nothing == NULL && !PyErr_ExceptionMatches(PyExc_Exception)) {
        Py_XDECREF(error);
        Py_XDECREF(result);
        return NULL;
    }
    if (nothing == NULL) {
        PyErr_WriteUnraisable(ended);
    }
    Py_XDECREF(nothing);
    if (result == NULL) {
        put_exception_back(error);
    }
    return result;
}

/* The frame, and all that it calls, belongs to another region until it has ended. */
static COLD PyObject *
run_visit(PyThreadState *tstate, Frame *frame, PyObject *visit)
{
    Region *around = switch_region((Region *)Py_NewRef(PyTuple_GET_ITEM(visit, 0)));
    PyObject *result = frame_hook(tstate, frame, 0);
    Py_XDECREF((PyObject *)switch_region(NULL));
    result = tell_of_end(tstate, PyTuple_GET_ITEM(visit, 1), result);
    Py_XDECREF((PyObject *)switch_region(around));
    Py_DECREF(visit);
    return result;
}

/* The hook is installed for the sake of another thread (or guards run), so stepping aside is not possible. */
static bool
stack_is_exhausted(ThreadState *thread)
{
    if (unlikely(!thread->stack_measured)) {
        measure_c_stack(thread);
    }
    return unlikely(c_stack_left_is_below(thread, thread->stack_end));
}

static COLD PyObject *
refuse(PyThreadState *tstate, Frame *frame)
{
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up, because another "
                    "thread keeps the frame hook installed");
    if (frame->owner != FRAME_OWNED_BY_THREAD) {    /* a generator: it is raised where the generator stands */
        return _PyEval_EvalFrameDefault(tstate, frame, 1);
    }
    return dispose(tstate, frame, NULL);
}

/* Another evaluator below us gets the frames of threads that are in no region.  It may have us below it in turn (see
   region.c): a frame that comes back is run. */
static COLD PyObject *
delegate(ThreadState *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    Evaluator evaluator = evaluator_below();
    uninstall_if_unused();
    if (evaluator == _PyEval_EvalFrameDefault || thread->delegated == frame) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    Frame *before = thread->delegated;
    thread->delegated = frame;
    PyObject *result = evaluator(tstate, frame, throwflag);
    thread->delegated = before;
    return result;
}

static NOINLINE PyObject *
run_without_region(ThreadState *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (unlikely(thread->arriving != NULL) && (PyObject *)frame_code(frame) == thread->arriving->room_code) {
        return arrive(thread, tstate, frame);
    }
    if (stack_is_exhausted(thread) && !throwflag) {
        return refuse(tstate, frame);
    }
    if (likely(thread->depth > 0)) {                /* switched off inside a region: guards, callbacks, graphs */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    return delegate(thread, tstate, frame, throwflag);
}

/* Is this the frame that `go_on` has just called?  Then it holds its arguments alone from now on, and what it ends with
   is for `go_on` to see.  Gives the code object that it goes on from (a reference of its own). */
static bool
is_resumed(ThreadState *thread, Frame *frame, PyObject **from)
{
    TailCall *call = thread->resuming;
    if (call->function != (PyObject *)frame_function(frame)) {
        return false;
    }
    thread->resuming = NULL;
    *from = Py_XNewRef(call->creator);
    Py_DECREF(call);
    return true;
}

/* With the hook off CPython calls Python functions without C calls between them: modified code then calls its graph as plain code
   calls a function.  That counts, because each C call below a deep one costs more than its instructions. */
static inline PyObject *
run_modified(PyThreadState *tstate, Frame *frame, bool alone)
{
    if (!alone) {
        return _PyEval_EvalFrameDefault(tstate, frame, 0);
    }
    Region *region = switch_region(NULL);
    PyObject *result = _PyEval_EvalFrameDefault(tstate, frame, 0);
    Py_XDECREF((PyObject *)switch_region(region));
    return result;
}

/* A frame that has run modified code is at its end, unless something is to go on in its place. */
static inline PyObject *
run_swapped(PyThreadState *tstate, Frame *frame, bool alone)
{
    PyObject *result = run_modified(tstate, frame, alone);
    if (likely(result == NULL || !Py_IS_TYPE(result, &TailCall_Type))) {
        return result;
    }
    drop_locals_of_ended_frame(frame);
    return go_on(result);
}

PyObject *
frame_hook(PyThreadState *tstate, Frame *frame, int throwflag)
{
    ThreadState *thread = &thread_state;
    Region *region = thread->region;
    if (region == NULL) {
        return run_without_region(thread, tstate, frame, throwflag);
    }
    if (unlikely(c_stack_left_is_below(thread, thread->stack_low) || c_recursion_is_low(tstate))) {
        return run_with_hook_off(tstate, frame, throwflag);
    }
    if (unlikely(tstate->tracing > thread->tracing)) {  /* a trace function or an audit hook: the program calls neither */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    bool is_resuming = false;
    PyObject *resumed_from = NULL;
    if (unlikely(thread->resuming != NULL)) {
        is_resuming = is_resumed(thread, frame, &resumed_from);
    }
    PyCodeObject *code = frame_code(frame);
    CodeExtra *extra = code_extra(code);
    CodeCache *cache = NULL;
    PyObject *visit = NULL;
    enum Outcome outcome = RUN;
    if (extra != NULL && extra->skip != RUN_HOOKED) {
        outcome = extra->skip == SKIP_FRAME ? RUN : RUN_ALONE;
    }
    else {
        cache = extra == NULL ? NULL : find_cache(extra, region->store);
        bool nothing_to_do = cache == NULL ? region->callback == NULL
                             : cache->skip || (region->callback == NULL && PyTuple_GET_SIZE(cache->entries) == 0);
        if (cache != NULL && region->on_hit == NULL && is_left_to_python(cache, frame)) {
            nothing_to_do = true;
        }
        /* globals of another class answer themselves for a name that is missing (annotationlib evaluates so) */
        if (!nothing_to_do && !throwflag && is_plain_function_code(code) && PyDict_CheckExact(frame->f_globals)) {
            outcome = look_up(tstate, frame, cache, resumed_from, &visit);
        }
    }
    if (unlikely(resumed_from != NULL)) {
        Py_DECREF(resumed_from);
    }
    switch (outcome) {
        case RAISED:
            return is_resuming ? raise_in_resume_function(tstate, frame) : dispose(tstate, frame, NULL);
        case RUN_SWAPPED:
        case RUN_SWAPPED_ALONE: {
            bool alone = outcome == RUN_SWAPPED_ALONE;
            return is_resuming ? run_modified(tstate, frame, alone) : run_swapped(tstate, frame, alone);
        }
        case RUN_MOVED: {
            PyObject *result = run_in_new_frame(tstate, frame);
            return is_resuming ? result : go_on(result);
        }
        case RUN_ALONE:
            return run_with_hook_off(tstate, frame, throwflag);
        case RUN_VISIT:
            return run_visit(tstate, frame, visit);
        default:
            return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
}

/* -- the module -------------------------------------------------------------------------------------------------- */

static PyObject *
unbound_repr(PyObject *Py_UNUSED(self))
{
    return PyUnicode_FromString("UNBOUND");
}

static PyTypeObject Unbound_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.Unbound",
    .tp_doc = "Type of UNBOUND, which stands for \"there is no value here\".",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = unbound_repr,
};

static int
init_bare_return(void)
{
    PyObject *opcode = PyImport_ImportModule("opcode");
    PyObject *opmap = opcode == NULL ? NULL : PyObject_GetAttrString(opcode, "opmap");
    PyObject *number = opmap == NULL ? NULL : PyDict_GetItemString(opmap, "RETURN_VALUE");
    PyObject *empty = (PyObject *)PyCode_NewEmpty("<frame hook>", "<disposed frame>", 1);
    PyObject *replace = empty == NULL ? NULL : PyObject_GetAttrString(empty, "replace");
    if (number != NULL && replace != NULL) {
        char instruction[2] = {(char)PyLong_AsLong(number), 0};
        PyObject *changes = Py_BuildValue("{sy#sy#si}", "co_code", instruction, (Py_ssize_t)2, "co_exceptiontable",
                                          "", (Py_ssize_t)0, "co_stacksize", 1);
        PyObject *nothing = PyTuple_New(0);
        if (changes != NULL && nothing != NULL) {
            bare_return = PyObject_Call(replace, nothing, changes);
        }
        Py_XDECREF(changes);
        Py_XDECREF(nothing);
    }
    Py_XDECREF(opcode);
    Py_XDECREF(opmap);
    Py_XDECREF(empty);
    Py_XDECREF(replace);
    return bare_return == NULL ? -1 : 0;
}

static int
init_frame_hook(PyObject *module)
{
    if (init_bare_return() < 0 || PyModule_AddType(module, &FrameState_Type) < 0
        || PyType_Ready(&Unbound_Type) < 0) {
        return -1;
    }
    unbound = PyObject_New(PyObject, &Unbound_Type);
    return unbound == NULL ? -1 : PyModule_AddObjectRef(module, "UNBOUND", unbound);
}

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_frame_hook",
    .m_doc = "The frame hook of dynexplore: see dynexplore.engine.native.",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__frame_hook(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddFunctions(module, cache_functions) < 0 || PyModule_AddFunctions(module, region_functions) < 0
        || PyModule_AddFunctions(module, warning_functions) < 0
        || PyModule_AddFunctions(module, set_functions) < 0
        || init_frame_hook(module) < 0 || init_cache(module) < 0 || init_region(module) < 0
        || init_tail_call(module) < 0 || init_guard_walk(module) < 0 || init_dict_versions(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
