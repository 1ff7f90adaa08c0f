/* GuardWalk: pointer compares over objects' own dictionaries.

   Guards on an nn.Module are many and simple: "its `training` is True", "its `_parameters` are exactly these".  Asked in
   Python each costs an attribute chain; here each is a few nanoseconds, so that a model with hundreds of modules can be
   guarded in microseconds, and soundly: what is compared are the dictionaries that a replaced parameter, a moved
   buffer or an added hook must change.  While nothing was written to any of them since all passed, a few integers say so.

   No user code runs: the class is compared first, then the instance dictionary is read, never an attribute.  Each key
   remembers where in its dictionary it stood; as long as it still stands there, finding it is one pointer compare.

   Comes in: a tuple of (object, class, checks).  Goes out: True or False, and for people the first failure.
   PyTorch does the same job in torch/csrc/dynamo/guards.cpp (GuardManager and its accessors). */

#include "dict_check.h"

const char *const kind_names[] = {"is", "is_weak", "equal", "any", "items", "empty", "absent", "some"};

/* A dictionary that stands in an object's own one, as it was when all checks passed. */
typedef struct {
    PyObject *dictionary;         /* borrowed: the object's own dictionary holds it while that is unchanged */
    uint64_t version;
} Inner;

typedef struct {
    PyObject *reference;          /* weak reference to the object */
    PyTypeObject *type;
    uint64_t version;             /* of the object's own dictionary when all checks passed; 0: unknown */
    Py_ssize_t inner_count;
    Inner *inner;                 /* those that checks look into */
    Py_ssize_t check_count;
    DictCheck *checks;
} ObjectSpec;

typedef struct {
    PyObject_HEAD
    Py_ssize_t spec_count;
    ObjectSpec *specs;
    Py_ssize_t class_count;
    ClassRow *classes;            /* lookup_rows.c */
    Py_ssize_t function_count;
    FunctionRow *functions;       /* lookup_rows.c */
    PyObject *weakrefs;
} GuardWalk;

/* -- checking --------------------------------------------------------------------------------------------------- */

/* The items, in this order and no others: a program may walk them. Each was found, so that its hint is its place. Or some of them. */
static bool
items_pass(DictCheck *check, PyObject *value)
{
    bool are_all = check->kind == ITEMS;
    if (value == NULL || !PyDict_Check(value) || (are_all && PyDict_GET_SIZE(value) != check->item_count)) {
        return false;
    }
    uint64_t version = dict_version(value);
    if (likely(version != 0 && version == check->version)) {
        return true;
    }
    for (Py_ssize_t i = 0; i < check->item_count; i++) {
        DictCheck *item = &check->items[i];
        if (!value_passes(item, find_value(value, item)) || (are_all && i > 0 && item->hint <= item[-1].hint)) {
            return false;
        }
    }
    check->version = version;
    return true;
}

/* `value`: what stands under the key, or NULL. */
static inline bool
check_passes(DictCheck *check, PyObject *dictionary, PyObject **value)
{
    *value = check->kind < EMPTY ? find_value(dictionary, check) : find_value_or_hash(dictionary, check);
    switch (check->kind) {
        case ITEMS:
        case SOME:
            return items_pass(check, *value);
        case EMPTY:
            return *value == Py_None || (*value != NULL && PyDict_Check(*value) && PyDict_GET_SIZE(*value) == 0);
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
    PyObject *attributes = materialized_dict(object);
    if (likely(attributes != NULL)) {
        return attributes;
    }
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

/* Nothing was written to any dictionary that the checks look into. */
static inline bool
is_untouched(ObjectSpec *spec, PyObject *dictionary)
{
    bool unchanged = spec->version != 0 && dict_version(dictionary) == spec->version;
    for (Py_ssize_t i = 0; unchanged && i < spec->inner_count; i++) {
        Inner *inner = &spec->inner[i];
        unchanged = dict_version(inner->dictionary) == inner->version;
    }
    return unchanged;
}

/* Whether the check looks into the dictionary that stands under its key. */
static inline bool
looks_inside(DictCheck *check)
{
    return check->kind == ITEMS || check->kind == SOME || check->kind == EMPTY;
}

/* Each check is asked.  What they looked into is remembered when all pass and there is a version of all of it. */
static NOINLINE bool
ask_each(ObjectSpec *spec, PyObject *dictionary)
{
    uint64_t version = dict_version(dictionary);
    spec->version = 0;
    spec->inner_count = 0;
    for (Py_ssize_t i = 0; i < spec->check_count; i++) {
        PyObject *value;
        if (!check_passes(&spec->checks[i], dictionary, &value)) {
            return false;
        }
        if (version != 0 && looks_inside(&spec->checks[i]) && value != NULL && value != Py_None) {
            Inner inner = {value, dict_version(value)};
            spec->inner[spec->inner_count++] = inner;
            version = inner.version == 0 ? 0 : version;
        }
    }
    spec->version = version;
    return true;
}

static inline bool
spec_passes(ObjectSpec *spec)
{
    PyObject *object = same_object(spec);
    if (unlikely(object == NULL)) {
        return false;
    }
    PyObject *dictionary = own_dictionary(object);
    return likely(is_untouched(spec, dictionary)) || ask_each(spec, dictionary);
}

static bool
walk_passes(GuardWalk *self)
{
    for (Py_ssize_t i = 0; i < self->spec_count; i++) {
        if (!spec_passes(&self->specs[i])) {
            return false;
        }
    }
    for (Py_ssize_t i = 0; i < self->class_count; i++) {
        if (!class_row_passes(&self->classes[i])) {
            return false;
        }
    }
    for (Py_ssize_t i = 0; i < self->function_count; i++) {
        if (!function_row_passes(&self->functions[i])) {
            return false;
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

static int
add_failure(PyObject *failures, PyObject *failure)
{
    if (failure == NULL) {
        return -1;
    }
    int status = PyList_Append(failures, failure);
    Py_DECREF(failure);
    return status;
}

static int
add_failures_of_spec(ObjectSpec *spec, Py_ssize_t index, Py_ssize_t limit, PyObject *failures)
{
    PyObject *object = weakly_referenced(spec->reference);
    if (object == NULL) {
        return add_failure(failures, Py_BuildValue("(nssO)", index, "", "alive", Py_None));
    }
    if (Py_TYPE(object) != spec->type) {
        return add_failure(failures, Py_BuildValue("(nssO)", index, "__class__", "type", Py_TYPE(object)));
    }
    PyObject *dictionary = own_dictionary(object);
    for (Py_ssize_t j = 0; j < spec->check_count && PyList_GET_SIZE(failures) < limit; j++) {
        DictCheck *check = &spec->checks[j];
        PyObject *value;
        if (!check_passes(check, dictionary, &value)) {
            PyObject *failure =
                Py_BuildValue("(nOsO)", index, check->key, kind_names[check->kind], value == NULL ? unbound : value);
            if (add_failure(failures, failure) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* At most `limit` facts that do not hold any more, in the order in which they are checked. */
static PyObject *
failures_of_walk(GuardWalk *self, Py_ssize_t limit)
{
    PyObject *failures = PyList_New(0);
    if (failures == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->spec_count && PyList_GET_SIZE(failures) < limit; i++) {
        if (add_failures_of_spec(&self->specs[i], i, limit, failures) < 0) {
            goto error;
        }
    }
    for (Py_ssize_t i = 0; i < self->class_count && PyList_GET_SIZE(failures) < limit; i++) {
        if (!class_row_passes(&self->classes[i])
            && add_failure(failures, class_row_failure(&self->classes[i], self->spec_count + i)) < 0) {
            goto error;
        }
    }
    for (Py_ssize_t i = 0; i < self->function_count && PyList_GET_SIZE(failures) < limit; i++) {
        if (!function_row_passes(&self->functions[i])
            && add_failure(failures, function_row_failure(&self->functions[i], self->spec_count + self->class_count + i)) < 0) {
            goto error;
        }
    }
    return failures;
error:
    Py_DECREF(failures);
    return NULL;
}

static PyObject *
guard_walk_first_failure(GuardWalk *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *failures = failures_of_walk(self, 1);
    if (failures == NULL) {
        return NULL;
    }
    PyObject *first = PyList_GET_SIZE(failures) > 0 ? PyList_GET_ITEM(failures, 0) : Py_None;
    Py_INCREF(first);
    Py_DECREF(failures);
    return first;
}

static PyObject *
guard_walk_failures(GuardWalk *self, PyObject *Py_UNUSED(ignored))
{
    return failures_of_walk(self, PY_SSIZE_T_MAX);
}

/* -- making one ------------------------------------------------------------------------------------------------- */

static int
read_kind(PyObject *name, bool of_item, enum Kind *kind)
{
    for (int i = IS; i <= SOME; i++) {
        bool allowed = of_item ? i <= ANY || i == ABSENT : i != ANY;
        if (allowed && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, kind_names[i]) == 0) {
            *kind = i;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown kind %R: it must be one of %s", name,
                 of_item ? "'is', 'is_weak', 'equal', 'any'" : "'is', 'is_weak', 'equal', 'items', 'empty', 'absent', 'some'");
    return -1;
}

static int read_items(DictCheck *check, PyObject *items);

static int
read_payload(DictCheck *check, PyObject *payload)
{
    switch (check->kind) {
        case IS:
        case EQUAL:
            check->payload = Py_NewRef(payload);
            return 0;
        case IS_WEAK:
            check->payload = PyWeakref_NewRef(payload, NULL);
            return check->payload == NULL ? -1 : 0;
        case ITEMS:
        case SOME:
            return read_items(check, payload);
        default:
            return 0;
    }
}

int
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
void *
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
read_spec(void *record, PyObject *tuple)
{
    ObjectSpec *spec = record;
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
    Py_ssize_t looking_inside = 0;
    for (Py_ssize_t i = 0; i < spec->check_count; i++) {
        if (read_check(&spec->checks[i], PyTuple_GET_ITEM(checks, i), false) < 0) {
            return -1;
        }
        looking_inside += looks_inside(&spec->checks[i]);
    }
    spec->inner = records(looking_inside, sizeof(Inner));
    return spec->inner == NULL ? -1 : 0;
}

/* Read each tuple of a sequence into a record; the count grows along, so that a half-made walk can be freed. */
static int
read_records(PyObject *tuples, void **target, Py_ssize_t *count, size_t size, int (*read)(void *, PyObject *))
{
    tuples = PySequence_Tuple(tuples);
    if (tuples == NULL) {
        return -1;
    }
    int outcome = 0;
    *target = records(PyTuple_GET_SIZE(tuples), size);
    if (*target == NULL) {
        outcome = -1;
    }
    for (Py_ssize_t i = 0; outcome == 0 && i < PyTuple_GET_SIZE(tuples); i++) {
        *count = i + 1;
        outcome = read((char *)*target + i * size, PyTuple_GET_ITEM(tuples, i));
    }
    Py_DECREF(tuples);
    return outcome;
}

static PyObject *
guard_walk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"specs", "classes", "functions", NULL};
    PyObject *empty = PyTuple_New(0);
    PyObject *specs, *classes = empty, *functions = empty;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:GuardWalk", names, &specs, &classes, &functions)) {
        Py_XDECREF(empty);
        return NULL;
    }
    GuardWalk *self = (GuardWalk *)type->tp_alloc(type, 0);
    if (self != NULL
        && (read_records(specs, (void **)&self->specs, &self->spec_count, sizeof(ObjectSpec), read_spec) < 0
            || read_records(classes, (void **)&self->classes, &self->class_count, sizeof(ClassRow), read_class_row) < 0
            || read_records(functions, (void **)&self->functions, &self->function_count, sizeof(FunctionRow),
                            read_function_row) < 0)) {
        Py_CLEAR(self);
    }
    Py_XDECREF(empty);
    return (PyObject *)self;
}

/* -- the type --------------------------------------------------------------------------------------------------- */

int
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

void
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
    for (Py_ssize_t i = 0; i < self->class_count; i++) {
        int stop = class_row_traverse(&self->classes[i], visit, arg);
        if (stop) {
            return stop;
        }
    }
    for (Py_ssize_t i = 0; i < self->function_count; i++) {
        int stop = function_row_traverse(&self->functions[i], visit, arg);
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
        PyMem_Free(specs[i].inner);
    }
    PyMem_Free(specs);
    clear_class_rows(&self->classes, &self->class_count);
    clear_function_rows(&self->functions, &self->function_count);
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
    {"failures", (PyCFunction)guard_walk_failures, METH_NOARGS, "failures() -> a list of all of these."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject GuardWalk_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynexplore.engine.native.GuardWalk",
    .tp_doc = "GuardWalk(specs, classes=(), functions=()): compares objects' own dictionaries, lookups through classes, and\n"
              "functions with what they were.",
    .tp_basicsize = sizeof(GuardWalk),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guard_walk_new,
    .tp_traverse = (traverseproc)guard_walk_traverse,
    .tp_clear = (inquiry)guard_walk_clear,
    .tp_dealloc = (destructor)guard_walk_dealloc,
    .tp_methods = guard_walk_methods,
    .tp_weaklistoffset = offsetof(GuardWalk, weakrefs),
};

/* -- what an object hides of its class --------------------------------------------------------------------------- */

/* Whether a key of an object's own dictionary comes before what its class has under that name.  No user code runs. */
static bool
hides(PyObject *object, PyObject *key)
{
    if (!PyUnicode_CheckExact(key)) {
        return true;                          /* it may compare equal to any name */
    }
    PyObject *of_class = _PyType_Lookup(Py_TYPE(object), key);
    return of_class != NULL && Py_TYPE(of_class)->tp_descr_set == NULL;
}

static PyObject *
no_instance_override(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *dictionary = own_dictionary(object);
    if (likely(PyDict_GET_SIZE(dictionary) == 0)) {
        Py_RETURN_TRUE;
    }
    PyObject *key;
    Py_ssize_t place = 0;
    while (PyDict_Next(dictionary, &place, &key, NULL)) {
        if (hides(object, key)) {
            Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

static PyObject *
materialized_dict_or_none(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *dictionary = materialized_dict(object);
    return Py_NewRef(dictionary == NULL ? Py_None : dictionary);
}

/* Some types of C name CPython's own lookup in their slot, which gives them a `__getattribute__` that looks like another. */
static PyObject *
has_generic_lookup(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "a type is wanted, not %.100s", Py_TYPE(type)->tp_name);
        return NULL;
    }
    return PyBool_FromLong(((PyTypeObject *)type)->tp_getattro == PyObject_GenericGetAttr);
}

static PyMethodDef guard_functions[] = {
    {"has_generic_lookup", has_generic_lookup, METH_O,
     "has_generic_lookup(type) -> bool: attributes of its instances are looked up as object does, and no code of a class runs."},
    {"no_instance_override", no_instance_override, METH_O,
     "no_instance_override(object) -> bool: no attribute of its own comes before one of its class."},
    {"made_dictionary", materialized_dict_or_none, METH_O,
     "made_dictionary(object) -> dict or None: what holds its attributes, if somebody has looked at it already."},
    {NULL, NULL, 0, NULL},
};

int
init_guard_walk(PyObject *module)
{
    no_attributes = PyDict_New();
    if (no_attributes == NULL || PyModule_AddType(module, &GuardWalk_Type) < 0) {
        return -1;
    }
    if (PyModule_AddType(module, &DictGuard_Type) < 0 || PyModule_AddType(module, &SequenceGuard_Type) < 0
        || PyModule_AddType(module, &TypeGuard_Type) < 0
        || PyModule_AddFunctions(module, guard_functions) < 0 || PyModule_AddFunctions(module, item_functions) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, lookup_functions);
}
