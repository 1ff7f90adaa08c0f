/* GuardWalk: pointer compares over objects' own dictionaries.

   Guards on an nn.Module are many and simple: "its `training` is True", "its `_parameters` are exactly these".  Asked in
   Python each costs an attribute chain; here each is a few nanoseconds, so that a model with hundreds of modules can be
   guarded in microseconds, and soundly: what is compared are the dictionaries that a replaced parameter, a moved
   buffer or an added hook must change.

   No user code runs: the class is compared first, then the instance dictionary is read, never an attribute.  Each key
   remembers where in its dictionary it stood; as long as it still stands there, finding it is one pointer compare.

   Comes in: a tuple of (object, class, checks).  Goes out: True or False, and for people the first failure.
   PyTorch does the same job in torch/csrc/dynamo/guards.cpp (GuardManager and its accessors). */

#include "native.h"

enum Kind { IS, IS_WEAK, ANY, ITEMS, EMPTY, ABSENT };

static const char *const kind_names[] = {"is", "is_weak", "any", "items", "empty", "absent"};

typedef struct DictCheck {
    PyObject *key;
    PyObject *payload;            /* IS: the object; IS_WEAK: a weak reference to it; else NULL */
    Py_ssize_t hint;              /* where in its dictionary the key stood last */
    enum Kind kind;
    Py_ssize_t item_count;        /* ITEMS */
    struct DictCheck *items;
} DictCheck;

typedef struct {
    PyObject *reference;          /* weak reference to the object */
    PyTypeObject *type;
    Py_ssize_t check_count;
    DictCheck *checks;
} ObjectSpec;

typedef struct {
    PyObject_HEAD
    Py_ssize_t spec_count;
    ObjectSpec *specs;
    PyObject *weakrefs;
} GuardWalk;

/* -- finding a key ---------------------------------------------------------------------------------------------- */

/* Equality of keys without user code: strings and integers by value, everything else by identity. */
static bool
same_key(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    if (Py_TYPE(a) != Py_TYPE(b) || !(PyUnicode_CheckExact(a) || PyLong_CheckExact(a))) {
        return false;
    }
    return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

/* The key is not where it stood: look everywhere, and remember. */
static NOINLINE PyObject *
find_anywhere(PyObject *dictionary, DictCheck *check)
{
    Py_ssize_t places = dict_places(dictionary);
    for (Py_ssize_t place = 0; place < places; place++) {
        PyObject *key;
        PyObject *value = dict_at(dictionary, place, &key);
        if (value != NULL && same_key(key, check->key)) {
            check->hint = place;
            if (key != check->key) {        /* equal: from now on compare pointers with the one that is there */
                Py_SETREF(check->key, Py_NewRef(key));
            }
            return value;
        }
    }
    return NULL;
}

static inline PyObject *
find_where_it_stood(PyObject *dictionary, DictCheck *check)
{
    if (likely(check->hint < dict_places(dictionary))) {
        PyObject *key;
        PyObject *value = dict_at(dictionary, check->hint, &key);
        if (likely(key == check->key)) {
            return value;
        }
    }
    return NULL;
}

static inline PyObject *
find_value(PyObject *dictionary, DictCheck *check)
{
    PyObject *value = find_where_it_stood(dictionary, check);
    return likely(value != NULL) ? value : find_anywhere(dictionary, check);
}

/* For keys that may well be missing.  Looking a string up among strings runs no user code. */
static inline PyObject *
find_value_or_hash(PyObject *dictionary, DictCheck *check)
{
    PyObject *value = find_where_it_stood(dictionary, check);
    if (value != NULL) {
        return value;
    }
    if (likely(dict_has_only_strings(dictionary) && PyUnicode_CheckExact(check->key))) {
        value = _PyDict_GetItem_KnownHash(dictionary, check->key, ((PyASCIIObject *)check->key)->hash);
        if (value == NULL) {
            return NULL;
        }
    }
    return find_anywhere(dictionary, check);
}

/* -- checking --------------------------------------------------------------------------------------------------- */

static inline bool
value_passes(DictCheck *check, PyObject *value)
{
    switch (check->kind) {
        case IS:
            return value == check->payload;
        case IS_WEAK:
            return value != NULL && value == weakly_referenced(check->payload);
        default:
            return value != NULL;
    }
}

static bool
items_pass(DictCheck *check, PyObject *value)
{
    if (value == NULL || !PyDict_Check(value) || PyDict_GET_SIZE(value) != check->item_count) {
        return false;
    }
    for (Py_ssize_t i = 0; i < check->item_count; i++) {
        DictCheck *item = &check->items[i];
        if (!value_passes(item, find_value(value, item))) {
            return false;
        }
    }
    return true;
}

/* `value`: what stands under the key, or NULL. */
static inline bool
check_passes(DictCheck *check, PyObject *dictionary, PyObject **value)
{
    *value = check->kind < EMPTY ? find_value(dictionary, check) : find_value_or_hash(dictionary, check);
    switch (check->kind) {
        case ITEMS:
            return items_pass(check, *value);
        case EMPTY:
            return *value == NULL || *value == Py_None || (PyDict_Check(*value) && PyDict_GET_SIZE(*value) == 0);
        case ABSENT:
            return *value == NULL;
        default:
            return value_passes(check, *value);
    }
}

static PyObject *no_attributes;  /* an empty dict, for objects without one */

static inline PyObject *
own_dictionary(PyObject *object)
{
    PyObject **pointer = _PyObject_GetDictPtr(object);
    return pointer == NULL || *pointer == NULL ? no_attributes : *pointer;
}

/* The object, if it is alive and of the class it was; else NULL. */
static inline PyObject *
same_object(ObjectSpec *spec)
{
    PyObject *object = weakly_referenced(spec->reference);
    return object != NULL && Py_TYPE(object) == spec->type ? object : NULL;
}

static bool
walk_passes(GuardWalk *self)
{
    for (Py_ssize_t i = 0; i < self->spec_count; i++) {
        ObjectSpec *spec = &self->specs[i];
        PyObject *object = same_object(spec);
        if (object == NULL) {
            return false;
        }
        PyObject *dictionary = own_dictionary(object);
        for (Py_ssize_t j = 0; j < spec->check_count; j++) {
            PyObject *value;
            if (!check_passes(&spec->checks[j], dictionary, &value)) {
                return false;
            }
        }
    }
    return true;
}

bool
guard_walk_passes(PyObject *walk)
{
    return walk_passes((GuardWalk *)walk);
}

static PyObject *
guard_walk_check(GuardWalk *self, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(walk_passes(self));
}

static PyObject *
guard_walk_first_failure(GuardWalk *self, PyObject *Py_UNUSED(ignored))
{
    for (Py_ssize_t i = 0; i < self->spec_count; i++) {
        ObjectSpec *spec = &self->specs[i];
        PyObject *object = weakly_referenced(spec->reference);
        if (object == NULL) {
            return Py_BuildValue("(nssO)", i, "", "alive", Py_None);
        }
        if (Py_TYPE(object) != spec->type) {
            return Py_BuildValue("(nssO)", i, "__class__", "type", Py_TYPE(object));
        }
        PyObject *dictionary = own_dictionary(object);
        for (Py_ssize_t j = 0; j < spec->check_count; j++) {
            DictCheck *check = &spec->checks[j];
            PyObject *value;
            if (!check_passes(check, dictionary, &value)) {
                return Py_BuildValue("(nOsO)", i, check->key, kind_names[check->kind],
                                     value == NULL ? unbound : value);
            }
        }
    }
    Py_RETURN_NONE;
}

/* -- making one ------------------------------------------------------------------------------------------------- */

static int
read_kind(PyObject *name, bool of_item, enum Kind *kind)
{
    for (int i = IS; i <= ABSENT; i++) {
        bool allowed = of_item ? i <= ANY : i != ANY;
        if (allowed && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, kind_names[i]) == 0) {
            *kind = i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown kind %R: it must be one of %s", name,
                 of_item ? "'is', 'is_weak', 'any'" : "'is', 'is_weak', 'items', 'empty', 'absent'");
    return -1;
}

static int read_items(DictCheck *check, PyObject *items);

static int
read_payload(DictCheck *check, PyObject *payload)
{
    switch (check->kind) {
        case IS:
            check->payload = Py_NewRef(payload);
            return 0;
        case IS_WEAK:
            check->payload = PyWeakref_NewRef(payload, NULL);
            return check->payload == NULL ? -1 : 0;
        case ITEMS:
            return read_items(check, payload);
        default:
            return 0;
    }
}

static int
read_check(DictCheck *check, PyObject *tuple, bool of_item)
{
    PyObject *key, *kind, *payload;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "OOO;a check is a tuple (key, kind, payload)",
                                                   &key, &kind, &payload)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a check is a tuple (key, kind, payload)");
        }
        return -1;
    }
    if (read_kind(kind, of_item, &check->kind) < 0 || PyObject_Hash(key) == -1) {
        return -1;
    }
    check->key = Py_NewRef(key);
    return read_payload(check, payload);
}

/* Allocate `count` zeroed records, so that a half-made GuardWalk can be freed. */
static void *
records(Py_ssize_t count, size_t size)
{
    void *memory = PyMem_Calloc(count ? count : 1, size);
    if (memory == NULL) {
        PyErr_NoMemory();
    }
    return memory;
}

static int
read_items(DictCheck *check, PyObject *items)
{
    if (!PyTuple_Check(items)) {
        PyErr_SetString(PyExc_TypeError, "the payload of an \"items\" check is a tuple of (key, kind, object)");
        return -1;
    }
    check->items = records(PyTuple_GET_SIZE(items), sizeof(DictCheck));
    if (check->items == NULL) {
        return -1;
    }
    check->item_count = PyTuple_GET_SIZE(items);
    for (Py_ssize_t i = 0; i < check->item_count; i++) {
        check->items[i].hint = i;
        if (read_check(&check->items[i], PyTuple_GET_ITEM(items, i), true) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
read_spec(ObjectSpec *spec, PyObject *tuple)
{
    PyObject *object, *type, *checks;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a spec is a tuple (object, class, checks)");
        return -1;
    }
    if (!PyArg_ParseTuple(tuple, "OO!O!;a spec is a tuple (object, class, checks)", &object, &PyType_Type, &type,
                          &PyTuple_Type, &checks)) {
        return -1;
    }
    spec->reference = PyWeakref_NewRef(object, NULL);
    if (spec->reference == NULL) {
        return -1;
    }
    spec->type = (PyTypeObject *)Py_NewRef(type);
    spec->checks = records(PyTuple_GET_SIZE(checks), sizeof(DictCheck));
    if (spec->checks == NULL) {
        return -1;
    }
    spec->check_count = PyTuple_GET_SIZE(checks);
    for (Py_ssize_t i = 0; i < spec->check_count; i++) {
        if (read_check(&spec->checks[i], PyTuple_GET_ITEM(checks, i), false) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *
guard_walk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"specs", NULL};
    PyObject *specs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:GuardWalk", names, &specs)) {
        return NULL;
    }
    specs = PySequence_Tuple(specs);
    if (specs == NULL) {
        return NULL;
    }
    GuardWalk *self = (GuardWalk *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->specs = records(PyTuple_GET_SIZE(specs), sizeof(ObjectSpec));
        if (self->specs == NULL) {
            Py_CLEAR(self);
        }
    }
    for (Py_ssize_t i = 0; self != NULL && i < PyTuple_GET_SIZE(specs); i++) {
        self->spec_count = i + 1;
        if (read_spec(&self->specs[i], PyTuple_GET_ITEM(specs, i)) < 0) {
            Py_CLEAR(self);
        }
    }
    Py_DECREF(specs);
    return (PyObject *)self;
}

/* -- the type --------------------------------------------------------------------------------------------------- */

static int
traverse_checks(DictCheck *checks, Py_ssize_t count, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_VISIT(checks[i].key);
        Py_VISIT(checks[i].payload);
        int stop = traverse_checks(checks[i].items, checks[i].item_count, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

static void
free_checks(DictCheck *checks, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(checks[i].key);
        Py_XDECREF(checks[i].payload);
        free_checks(checks[i].items, checks[i].item_count);
    }
    PyMem_Free(checks);
}

static int
guard_walk_traverse(GuardWalk *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->spec_count; i++) {
        Py_VISIT(self->specs[i].reference);
        Py_VISIT(self->specs[i].type);
        int stop = traverse_checks(self->specs[i].checks, self->specs[i].check_count, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

/* A cleared walk has no specs left; nobody reachable holds it any more, so that it would pass does not matter. */
static int
guard_walk_clear(GuardWalk *self)
{
    ObjectSpec *specs = self->specs;
    Py_ssize_t count = self->spec_count;
    self->specs = NULL;
    self->spec_count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(specs[i].reference);
        Py_XDECREF((PyObject *)specs[i].type);
        free_checks(specs[i].checks, specs[i].check_count);
    }
    PyMem_Free(specs);
    return 0;
}

static void
guard_walk_dealloc(GuardWalk *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    guard_walk_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef guard_walk_methods[] = {
    {"check", (PyCFunction)guard_walk_check, METH_NOARGS, "check() -> bool: is everything as it was?"},
    {"first_failure", (PyCFunction)guard_walk_first_failure, METH_NOARGS,
     "first_failure() -> (spec index, key, kind, actual value) or None."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject GuardWalk_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.GuardWalk",
    .tp_doc = "GuardWalk(specs): compares what stands in objects' own dictionaries with what stood there.",
    .tp_basicsize = sizeof(GuardWalk),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guard_walk_new,
    .tp_traverse = (traverseproc)guard_walk_traverse,
    .tp_clear = (inquiry)guard_walk_clear,
    .tp_dealloc = (destructor)guard_walk_dealloc,
    .tp_methods = guard_walk_methods,
    .tp_weaklistoffset = offsetof(GuardWalk, weakrefs),
};

int
init_guard_walk(PyObject *module)
{
    no_attributes = PyDict_New();
    return no_attributes == NULL ? -1 : PyModule_AddType(module, &GuardWalk_Type);
}
