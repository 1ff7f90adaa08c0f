/* TailCall: what modified code returns when another function is to go on in its place.

       modified code runs a graph, then the instruction that broke it
           -> returns TailCall(resume function, arguments)
       the hook, which ran the frame -> calls the resume function where the frame was, and gives its result to the caller

   So the rest of a frame runs when the frame itself has ended.  Seen from outside there is one frame of the function at
   any time: tracebacks and live stacks have one entry, recursion goes as deep as without a break, and a loop of a
   thousand breaks nests nothing.  The program never sees a TailCall: the hook is the only one that runs modified code.

   Comes in: the call that modified code writes (translate/resume_call.py).  Goes out: the result of the last function.
   PyTorch has no counterpart: its resume functions are called by the frame that broke, and stand above it. */

#include "native.h"

static PyObject *
tail_call_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t argument_count = PyVectorcall_NARGS(nargsf);
    if (argument_count < 1 || kwnames != NULL || !PyFunction_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "TailCall takes a function and its positional arguments");
        return NULL;
    }
    TailCall *self = PyObject_GC_NewVar(TailCall, &TailCall_Type, argument_count - 1);
    if (self == NULL) {
        return NULL;
    }
    self->function = Py_NewRef(args[0]);
    Frame *running = current_frame();
    self->creator = running == NULL ? NULL : Py_NewRef((PyObject *)frame_code(running));
    for (Py_ssize_t i = 1; i < argument_count; i++) {
        self->args[i - 1] = Py_NewRef(args[i]);
    }
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int
tail_call_traverse(TailCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->creator);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->args[i]);
    }
    return 0;
}

/* No tp_clear: like a tuple, it holds nothing that was made after it. */
static void
tail_call_dealloc(TailCall *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_DECREF(self->args[i]);
    }
    Py_XDECREF(self->creator);
    Py_DECREF(self->function);
    PyObject_GC_Del(self);
}

static PyObject *
tail_call_repr(TailCall *self)
{
    return PyUnicode_FromFormat("<the rest of %U>", ((PyFunctionObject *)self->function)->func_qualname);
}

PyTypeObject TailCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.TailCall",
    .tp_doc = "TailCall(function, *args): returned by modified code, the hook calls the function in the frame's place.",
    .tp_basicsize = offsetof(TailCall, args),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall = tail_call_vectorcall,
    .tp_traverse = (traverseproc)tail_call_traverse,
    .tp_dealloc = (destructor)tail_call_dealloc,
    .tp_repr = (reprfunc)tail_call_repr,
};

/* Call what is to go on, and whatever that wants to go on in turn, until there is a result.  `result` is taken over.
   A function that does not come to the hook (there is none now, or no frame was made) may come here again: its call is put
   back then, for the `go_on` that made it to release. */
PyObject *
go_on(PyObject *result)
{
    ThreadState *thread = &thread_state;
    TailCall *before = thread->resuming;
    while (result != NULL && Py_IS_TYPE(result, &TailCall_Type)) {
        TailCall *call = (TailCall *)result;
        PyObject *function = Py_NewRef(call->function);
        thread->resuming = call;
        result = PyObject_Vectorcall(function, call->args, Py_SIZE(call), NULL);
        bool came_to_hook = thread->resuming != call;
        thread->resuming = before;
        if (!came_to_hook) {
            Py_DECREF(call);
        }
        Py_DECREF(function);
    }
    return result;
}

/* Call the function of a TailCall here, in a frame of its own.  The caller's stack holds the TailCall until it returns, so the
   arguments move to another: only the frame of the function holds them, as where the interpreter pushes a frame itself. */
static PyObject *
finish_call(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!Py_IS_TYPE(object, &TailCall_Type)) {
        PyErr_SetString(PyExc_TypeError, "finish_call() takes a TailCall");
        return NULL;
    }
    TailCall *call = (TailCall *)object;
    Py_ssize_t count = Py_SIZE(call);
    TailCall *moved = PyObject_GC_NewVar(TailCall, &TailCall_Type, count);
    if (moved == NULL) {
        return NULL;
    }
    moved->function = Py_NewRef(call->function);
    moved->creator = NULL;                      /* its frame is a call, not the rest of the caller's */
    memcpy(moved->args, call->args, count * sizeof(PyObject *));
    Py_SET_SIZE(call, 0);
    PyObject_GC_Track(moved);
    return go_on((PyObject *)moved);
}

static PyMethodDef tail_call_functions[] = {
    {"finish_call", finish_call, METH_O, "finish_call(call) -> object: the result of the TailCall's function, which is called now."},
    {NULL, NULL, 0, NULL},
};

int
init_tail_call(PyObject *module)
{
    return PyModule_AddFunctions(module, tail_call_functions) < 0 ? -1 : PyModule_AddType(module, &TailCall_Type);
}
