/* A SequenceGuard compares what stands at places of a list or a tuple that is handed in.

   The same compares as of a dictionary's values (dict_guard.c).  A list has no version, so each place is asked in each call: one
   load and one compare, a few nanoseconds.

   Comes in: a tuple of (index, kind, payload), and the length where it is relied on.  Goes out: a callable, sequence -> bool.
   No user code runs: lists and tuples are read where they lie, those of a class of the program fail. */

#include "dict_check.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t length;            /* -1: not asked */
    Py_ssize_t count;
    DictCheck *checks;            /* `hint` is the index */
} SequenceGuard;

static bool
items_pass(SequenceGuard *self, PyObject **items, Py_ssize_t length)
{
    if (self->length >= 0 && self->length != length) {
        return false;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) {
        DictCheck *check = &self->checks[i];
        if (!value_passes(check, check->hint < length ? items[check->hint] : NULL)) {
            return false;
        }
    }
    return true;
}

static PyObject *
sequence_guard_call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    if (PyVectorcall_NARGS(flags) != 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a SequenceGuard takes one list or tuple");
        return NULL;
    }
    bool is_sequence = PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]);
    return PyBool_FromLong(is_sequence && items_pass((SequenceGuard *)object, PySequence_Fast_ITEMS(args[0]), Py_SIZE(args[0])));
}

static int
read_item(DictCheck *check, PyObject *tuple)
{
    if (read_check(check, tuple, true) < 0) {
        return -1;
    }
    check->hint = PyLong_CheckExact(check->key) ? PyLong_AsSsize_t(check->key) : -1;
    if (check->hint < 0 || check->kind == ABSENT) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "a check of a SequenceGuard is of an index from 0, where something stands");
        return -1;
    }
    return 0;
}

static PyObject *
sequence_guard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"checks", "length", NULL};
    PyObject *checks;
    Py_ssize_t length = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|n:SequenceGuard", names, &PyTuple_Type, &checks, &length)) {
        return NULL;
    }
    SequenceGuard *self = (SequenceGuard *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = sequence_guard_call;
    self->length = length;
    self->checks = records(PyTuple_GET_SIZE(checks), sizeof(DictCheck));
    for (Py_ssize_t i = 0; self->checks != NULL && i < PyTuple_GET_SIZE(checks); i++) {
        self->count = i + 1;
        if (read_item(&self->checks[i], PyTuple_GET_ITEM(checks, i)) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    if (self->checks == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
sequence_guard_traverse(SequenceGuard *self, visitproc visit, void *arg)
{
    return traverse_checks(self->checks, self->count, visit, arg);
}

static int
sequence_guard_clear(SequenceGuard *self)
{
    DictCheck *checks = self->checks;
    Py_ssize_t count = self->count;
    self->checks = NULL;
    self->count = 0;
    free_checks(checks, count);
    return 0;
}

static void
sequence_guard_dealloc(SequenceGuard *self)
{
    PyObject_GC_UnTrack(self);
    sequence_guard_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject SequenceGuard_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.SequenceGuard",
    .tp_doc = "SequenceGuard(checks[, length]): called with a list or tuple, says whether everything stands there that stood there.",
    .tp_basicsize = sizeof(SequenceGuard),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = sequence_guard_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(SequenceGuard, vectorcall),
    .tp_traverse = (traverseproc)sequence_guard_traverse,
    .tp_clear = (inquiry)sequence_guard_clear,
    .tp_dealloc = (destructor)sequence_guard_dealloc,
};
