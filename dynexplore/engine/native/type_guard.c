/* A TypeGuard says of which classes the values are that a frame finds under its names, or that stand one step below them.

   Of a comparison that C code calls thousands of times the other guards have been given up: what is left is "`a` is a P, and
   `a.cost` an int or a float; the global `calls` is a list, and its first item an int".  Here it is asked where the values lie, a few
   nanoseconds each: in the frame's own slots, in its globals, in the cells of its closure; one step below, in the object's own
   attributes (no dictionary is made for them), in a slot of its class, in a tuple, list or dict.

   Comes in: a tuple of (root, step, classes); a root is the number of an argument slot, ("global", name) or ("cell", number); a step
   is None, ("attribute", name), ("member", name, class), ("item", index), ("key", string or int) or ("length", number).  Goes out:
   True or False.  Classes are held weakly; no code of the program runs, nothing is raised.
   PyTorch does the same job in torch/csrc/dynamo/guards.cpp (TYPE_MATCH below its accessors). */

#include "dict_check.h"

enum Root { SLOT, GLOBAL, CELL };
enum Step { VALUE, ATTRIBUTE, MEMBER, ITEM, KEY, LENGTH };

typedef struct {
    enum Root root;
    int slot;                     /* SLOT, CELL: its number */
    DictCheck global;             /* GLOBAL: the name */
    enum Step step;
    DictCheck key;                /* KEY */
    PyObject *name;               /* ATTRIBUTE */
    PyObject *owner;              /* MEMBER: weak reference to the class whose instances have the value at `number` */
    Py_ssize_t number;            /* ATTRIBUTE: where the name stood last; MEMBER: the offset; ITEM: the index; LENGTH: the length */
    PyObject *classes;            /* tuple of weak references; the value is of one of them */
} TypeRow;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    TypeRow *rows;
} TypeGuard;

/* -- reading ---------------------------------------------------------------------------------------------------- */

static inline PyObject *
content_of_cell(PyObject *closure, int number)
{
    if (closure == NULL || !PyTuple_Check(closure) || number >= PyTuple_GET_SIZE(closure)) {
        return NULL;
    }
    PyObject *cell = PyTuple_GET_ITEM(closure, number);
    return PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
}

/* What stands where the row begins, borrowed; NULL: nothing. */
static inline PyObject *
at_root(TypeRow *row, PyObject **values, PyObject *closure, PyObject *globals)
{
    switch (row->root) {
        case GLOBAL:
            return globals == NULL ? NULL : find_value(globals, &row->global);
        case CELL:
            return content_of_cell(closure, row->slot);
        default:
            return values[row->slot];
    }
}

static PyObject *
own_attribute(PyObject *object, TypeRow *row)
{
    AttributeTable table = own_attributes(object);
    PyObject *key;
    if (table.keys == NULL) {
        return NULL;
    }
    if (likely(row->number < table.keys->dk_nentries)) {
        PyObject *value = attribute_at(table, row->number, &key);
        if (likely(key == row->name)) {
            return value;
        }
    }
    for (Py_ssize_t place = 0; place < table.keys->dk_nentries; place++) {
        PyObject *value = attribute_at(table, place, &key);
        if (value != NULL && same_key(key, row->name)) {
            row->number = place;
            return value;
        }
    }
    return NULL;
}

static PyObject *
item_at(PyObject *object, Py_ssize_t index)
{
    if (PyTuple_Check(object)) {
        return index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, index) : NULL;
    }
    return PyList_Check(object) && index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, index) : NULL;
}

/* The value that the row is about, borrowed; NULL: there is none. */
static inline PyObject *
value_of(TypeRow *row, PyObject *object)
{
    switch (row->step) {
        case ATTRIBUTE:
            return own_attribute(object, row);
        case MEMBER: {
            bool is_of = (PyObject *)Py_TYPE(object) == ((PyWeakReference *)row->owner)->wr_object;
            return is_of ? *(PyObject **)((char *)object + row->number) : NULL;
        }
        case ITEM:
            return item_at(object, row->number);
        case KEY:
            return PyDict_Check(object) ? find_value(object, &row->key) : NULL;
        default:
            return object;
    }
}

static inline bool
has_length(PyObject *object, Py_ssize_t length)
{
    return (PyTuple_Check(object) || PyList_Check(object)) && Py_SIZE(object) == length;
}

static inline bool
row_passes(TypeRow *row, PyObject *object)
{
    if (row->step == LENGTH) {
        return has_length(object, row->number);
    }
    PyObject *value = value_of(row, object);
    if (value == NULL) {
        return false;
    }
    PyObject *type = (PyObject *)Py_TYPE(value);    /* alive: a weak reference to it names it */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(row->classes); i++) {
        if (((PyWeakReference *)PyTuple_GET_ITEM(row->classes, i))->wr_object == type) {
            return true;
        }
    }
    return false;
}

bool
type_guard_passes(PyObject *guard, PyObject **values, PyObject *closure, PyObject *globals)
{
    TypeGuard *self = (TypeGuard *)guard;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyObject *object = at_root(&self->rows[i], values, closure, globals);
        if (object == NULL || !row_passes(&self->rows[i], object)) {
            return false;
        }
    }
    return true;
}

/* -- making one ------------------------------------------------------------------------------------------------- */

static PyObject *
weak_references(PyObject *classes)
{
    PyObject *references = PyTuple_New(PyTuple_GET_SIZE(classes));
    for (Py_ssize_t i = 0; references != NULL && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *class = PyTuple_GET_ITEM(classes, i);
        PyObject *reference = PyType_Check(class) ? PyWeakref_NewRef(class, NULL) : NULL;
        if (reference == NULL) {
            Py_CLEAR(references);
            break;
        }
        PyTuple_SET_ITEM(references, i, reference);
    }
    return references;
}

/* Where the instances of exactly this class have what `__slots__` names. */
static bool
read_member(TypeRow *row, PyObject *name, PyObject *class)
{
    PyObject *member = PyUnicode_Check(name) && PyType_Check(class) ? _PyType_Lookup((PyTypeObject *)class, name) : NULL;
    if (member == NULL || !Py_IS_TYPE(member, &PyMemberDescr_Type)
        || ((PyMemberDescrObject *)member)->d_member->type != T_OBJECT_EX) {
        return false;
    }
    row->step = MEMBER;
    row->number = ((PyMemberDescrObject *)member)->d_member->offset;
    row->owner = PyWeakref_NewRef(class, NULL);
    return row->owner != NULL;
}

static bool
read_number(TypeRow *row, enum Step step, PyObject *number)
{
    row->step = step;
    row->number = PyLong_CheckExact(number) ? PyLong_AsSsize_t(number) : -1;
    return row->number >= 0;
}

static bool
read_key(DictCheck *key, PyObject *constant)
{
    if (!PyUnicode_CheckExact(constant) && !PyLong_CheckExact(constant)) {
        return false;
    }
    key->key = Py_NewRef(constant);
    return true;
}

static bool
read_root(TypeRow *row, PyObject *root)
{
    const char *kind;
    PyObject *detail = root;
    if (PyTuple_Check(root)) {
        if (!PyArg_ParseTuple(root, "sO", &kind, &detail)) {
            return false;
        }
        if (strcmp(kind, "global") == 0) {
            row->root = GLOBAL;
            return PyUnicode_CheckExact(detail) && read_key(&row->global, detail);
        }
        if (strcmp(kind, "cell") != 0) {
            return false;
        }
        row->root = CELL;
    }
    Py_ssize_t number = PyLong_CheckExact(detail) ? PyLong_AsSsize_t(detail) : -1;
    row->slot = (int)number;
    return number >= 0 && number <= INT_MAX;
}

static bool
read_step(TypeRow *row, PyObject *step)
{
    const char *kind;
    PyObject *detail, *class = NULL;
    if (step == Py_None) {
        row->step = VALUE;
        return true;
    }
    if (!PyTuple_Check(step) || !PyArg_ParseTuple(step, "sO|O", &kind, &detail, &class)) {
        return false;
    }
    if (strcmp(kind, "member") == 0 && class != NULL) {
        return read_member(row, detail, class);
    }
    if (strcmp(kind, "attribute") == 0 && PyUnicode_CheckExact(detail)) {
        row->step = ATTRIBUTE;
        row->name = Py_NewRef(detail);
        PyUnicode_InternInPlace(&row->name);
        return true;
    }
    if (strcmp(kind, "key") == 0) {
        row->step = KEY;
        return read_key(&row->key, detail);
    }
    if (strcmp(kind, "item") == 0 || strcmp(kind, "length") == 0) {
        return read_number(row, kind[0] == 'i' ? ITEM : LENGTH, detail);
    }
    return false;
}

static bool
read_type_row(TypeRow *row, PyObject *tuple)
{
    PyObject *root, *step, *classes;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "OOO!", &root, &step, &PyTuple_Type, &classes)) {
        return false;
    }
    if (!read_root(row, root) || !read_step(row, step)) {
        return false;
    }
    row->classes = weak_references(classes);
    return row->classes != NULL;
}

static PyObject *
type_guard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"rows", NULL};
    PyObject *rows;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:TypeGuard", names, &PyTuple_Type, &rows)) {
        return NULL;
    }
    TypeGuard *self = (TypeGuard *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->rows = records(PyTuple_GET_SIZE(rows), sizeof(TypeRow));
    for (Py_ssize_t i = 0; self->rows != NULL && i < PyTuple_GET_SIZE(rows); i++) {
        self->count = i + 1;
        if (!read_type_row(&self->rows[i], PyTuple_GET_ITEM(rows, i))) {
            PyErr_Format(PyExc_TypeError, "a row of a TypeGuard is a tuple (root, step, classes), not %R",
                         PyTuple_GET_ITEM(rows, i));
            Py_CLEAR(self);
            return NULL;
        }
    }
    if (self->rows == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* -- the type --------------------------------------------------------------------------------------------------- */

int
type_guard_slots(PyObject *guard)
{
    TypeGuard *self = (TypeGuard *)guard;
    int slots = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->rows[i].root == SLOT && self->rows[i].slot >= slots) {
            slots = self->rows[i].slot + 1;
        }
    }
    return slots;
}

static PyObject *
type_guard_holds(PyObject *self, PyObject *args)
{
    PyObject *values, *closure = NULL, *globals = NULL;
    if (!PyArg_ParseTuple(args, "O!|OO!:holds", &PyTuple_Type, &values, &closure, &PyDict_Type, &globals)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(values) < type_guard_slots(self)) {
        PyErr_SetString(PyExc_TypeError, "holds() takes a tuple of the values in the argument slots");
        return NULL;
    }
    return PyBool_FromLong(type_guard_passes(self, ((PyTupleObject *)values)->ob_item, closure, globals));
}

static int
type_guard_traverse(TypeGuard *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->rows[i].global.key);
        Py_VISIT(self->rows[i].key.key);
        Py_VISIT(self->rows[i].name);
        Py_VISIT(self->rows[i].owner);
        Py_VISIT(self->rows[i].classes);
    }
    return 0;
}

static int
type_guard_clear(TypeGuard *self)
{
    TypeRow *rows = self->rows;
    Py_ssize_t count = self->count;
    self->rows = NULL;
    self->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(rows[i].global.key);
        Py_XDECREF(rows[i].key.key);
        Py_XDECREF(rows[i].name);
        Py_XDECREF(rows[i].owner);
        Py_XDECREF(rows[i].classes);
    }
    PyMem_Free(rows);
    return 0;
}

static void
type_guard_dealloc(TypeGuard *self)
{
    PyObject_GC_UnTrack(self);
    type_guard_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef type_guard_methods[] = {
    {"holds", type_guard_holds, METH_VARARGS,
     "holds(values, closure=None, globals={}) -> bool: are the values of these classes, in the argument slots and elsewhere?"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject TypeGuard_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.TypeGuard",
    .tp_doc = "TypeGuard(rows): of which classes the values are that a frame finds, or that stand one step below them.",
    .tp_basicsize = sizeof(TypeGuard),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = type_guard_new,
    .tp_traverse = (traverseproc)type_guard_traverse,
    .tp_clear = (inquiry)type_guard_clear,
    .tp_dealloc = (destructor)type_guard_dealloc,
    .tp_methods = type_guard_methods,
};
