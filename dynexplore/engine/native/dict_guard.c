/* A DictGuard compares what stands in a dictionary that is handed in: the globals of a frame, a dict that is an argument.

   The same compares as in a walk, but of a dictionary that may be another one in each call.  No two states of any two
   dictionaries share a version, so one integer says that this is the one that was compared last, and unchanged; where it
   differs the keys are asked, and the version is renewed.

   Comes in: a tuple of (key, kind, payload), and all keys in order where they are relied on.  Goes out: a callable,
   dictionary -> bool.  No user code runs. */

#include "dict_check.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    uint64_t version;
    PyObject *keys;               /* tuple, or NULL: not asked */
    Py_ssize_t count;
    DictCheck *checks;
} DictGuard;

static bool
has_keys(PyObject *dictionary, PyObject *keys)
{
    if (PyDict_GET_SIZE(dictionary) != PyTuple_GET_SIZE(keys)) {
        return false;
    }
    Py_ssize_t place = 0, number = 0;
    PyObject *key;
    while (PyDict_Next(dictionary, &place, &key, NULL)) {
        if (!equal_constants(key, PyTuple_GET_ITEM(keys, number++))) {
            return false;
        }
    }
    return true;
}

static NOINLINE bool
ask_by_key(DictGuard *self, PyObject *dictionary)
{
    uint64_t version = dict_version(dictionary);
    if (self->keys != NULL && !has_keys(dictionary, self->keys)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) {
        DictCheck *check = &self->checks[i];
        if (check->kind == ABSENT ? find_value_or_hash(dictionary, check) != NULL
                                  : !value_passes(check, find_value(dictionary, check))) {
            return false;
        }
    }
    self->version = version;
    return true;
}

static PyObject *
dict_guard_call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names)
{
    DictGuard *self = (DictGuard *)object;
    if (PyVectorcall_NARGS(flags) != 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a DictGuard takes one dictionary");
        return NULL;
    }
    if (!PyDict_Check(args[0])) {
        Py_RETURN_FALSE;
    }
    if (likely(self->version != 0 && self->version == dict_version(args[0]))) {
        Py_RETURN_TRUE;
    }
    return PyBool_FromLong(ask_by_key(self, args[0]));
}

static PyObject *
dict_guard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"checks", "keys", NULL};
    PyObject *checks, *keys = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O!:DictGuard", names, &PyTuple_Type, &checks, &PyTuple_Type, &keys)) {
        return NULL;
    }
    DictGuard *self = (DictGuard *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = dict_guard_call;
    self->keys = Py_XNewRef(keys);
    self->checks = records(PyTuple_GET_SIZE(checks), sizeof(DictCheck));
    for (Py_ssize_t i = 0; self->checks != NULL && i < PyTuple_GET_SIZE(checks); i++) {
        self->count = i + 1;
        if (read_check(&self->checks[i], PyTuple_GET_ITEM(checks, i), true) < 0) {
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
dict_guard_traverse(DictGuard *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keys);
    return traverse_checks(self->checks, self->count, visit, arg);
}

static int
dict_guard_clear(DictGuard *self)
{
    DictCheck *checks = self->checks;
    Py_ssize_t count = self->count;
    self->checks = NULL;
    self->count = 0;
    Py_CLEAR(self->keys);
    free_checks(checks, count);
    return 0;
}

static void
dict_guard_dealloc(DictGuard *self)
{
    PyObject_GC_UnTrack(self);
    dict_guard_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject DictGuard_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.DictGuard",
    .tp_doc = "DictGuard(checks[, keys]): called with a dictionary, says whether everything stands there that stood there.",
    .tp_basicsize = sizeof(DictGuard),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = dict_guard_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(DictGuard, vectorcall),
    .tp_traverse = (traverseproc)dict_guard_traverse,
    .tp_clear = (inquiry)dict_guard_clear,
    .tp_dealloc = (destructor)dict_guard_dealloc,
};

/* -- the n-th item ---------------------------------------------------------------------------------------------- */

/* Of a dict that lost no key the n-th item stands in the n-th place; else the items before it are counted. */
static bool
item_at(PyObject *dictionary, Py_ssize_t index, PyObject **key, PyObject **value)
{
    Py_ssize_t place = 0;
    if (dict_places(dictionary) == PyDict_GET_SIZE(dictionary)) {
        place = index;
        index = 0;
    }
    while (PyDict_Next(dictionary, &place, key, value)) {
        if (index-- == 0) {
            return true;
        }
    }
    return false;
}

/* An OrderedDict has an order of its own, and its iterator looks each key up again: that calls no `__eq__` of a program if
   all keys are numbers or text. */
static bool
is_ordered_by_plain_keys(PyObject *mapping)
{
    if (!PyODict_CheckExact(mapping)) {
        return false;
    }
    Py_ssize_t place = 0;
    PyObject *key;
    while (PyDict_Next(mapping, &place, &key, NULL)) {
        if (!PyLong_CheckExact(key) && !PyUnicode_CheckExact(key)) {
            return false;
        }
    }
    return true;
}

/* NULL without an exception: there is no such item, or a method of dict changed the OrderedDict behind its back. */
static PyObject *
ordered_item_at(PyObject *mapping, Py_ssize_t index, bool of_key)
{
    PyObject *walk = PyObject_GetIter(mapping), *key = NULL;
    for (Py_ssize_t i = 0; walk != NULL && i <= index; i++) {
        Py_XSETREF(key, PyIter_Next(walk));
        if (key == NULL) {
            break;
        }
    }
    Py_XDECREF(walk);
    PyObject *item = key == NULL || of_key ? key : Py_XNewRef(PyDict_GetItemWithError(mapping, key));
    if (!of_key) {
        Py_XDECREF(key);
    }
    PyErr_Clear();
    return item;
}

static PyObject *
nth_item(PyObject *mapping, PyObject *const *args, Py_ssize_t count, PyObject *(*list_all)(PyObject *), bool of_key)
{
    Py_ssize_t index = count == 2 || count == 3 ? PyLong_AsSsize_t(args[1]) : -1;
    if (index < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a mapping and a position from 0 are wanted");
        }
        return NULL;
    }
    PyObject *key, *value;
    if (PyDict_CheckExact(mapping)) {
        if (item_at(mapping, index, &key, &value)) {
            return Py_NewRef(of_key ? key : value);
        }
        PyErr_SetString(PyExc_IndexError, "the dict has fewer items");
        return NULL;
    }
    PyObject *item = is_ordered_by_plain_keys(mapping) ? ordered_item_at(mapping, index, of_key) : NULL;
    if (item != NULL) {
        return item;
    }
    PyObject *all = count == 3 ? PyObject_CallOneArg(args[2], mapping) : list_all(mapping);
    item = all == NULL ? NULL : PySequence_GetItem(all, index);
    Py_XDECREF(all);
    return item;
}

static PyObject *
nth_key(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    return nth_item(count > 0 ? args[0] : Py_None, args, count, PySequence_List, true);
}

static PyObject *
nth_value(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    return nth_item(count > 0 ? args[0] : Py_None, args, count, PyMapping_Values, false);
}

PyMethodDef item_functions[] = {
    {"nth_key", (PyCFunction)(void (*)(void))nth_key, METH_FASTCALL,
     "nth_key(mapping, index[, list_all]) -> object: a key of a dict, or a member of a set, by its position."},
    {"nth_value", (PyCFunction)(void (*)(void))nth_value, METH_FASTCALL,
     "nth_value(mapping, index[, list_all]) -> object: a value of a dict by its position."},
    {NULL, NULL, 0, NULL},
};
