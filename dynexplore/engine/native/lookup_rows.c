/* What lookups through classes end in, and what functions are made of: two more parts of a GuardWalk.

   A class row says "these names, looked up through this class, end where they ended", found or not.  One integer, the
   type's version tag, stands for all of them.  A tag that differs is no miss, because anything may change it (reading
   `K.__annotations__` does): the names are asked, and if all stand the tag is renewed.

   A function row says that a function still has the code and the defaults that were interpreted.

   Classes and functions are held weakly.  No user code runs. */

#include "dict_check.h"

static const char *const lookup_kinds[] = {"is", "is_weak", "found_in", "absent", "mro"};
enum LookupKind { LOOKUP_IS, LOOKUP_IS_WEAK, LOOKUP_IN_CLASS, LOOKUP_ABSENT, LOOKUP_MRO };

/* -- looking up ------------------------------------------------------------------------------------------------- */

/* Where a lookup through the MRO of `type` ends, beginning behind the class `after` if there is one; both borrowed.
   False: `after` is no longer in the MRO. */
static bool
look_up(PyTypeObject *type, PyObject *name, PyObject *after, PyObject **value, PyTypeObject **owner)
{
    PyObject *mro = type->tp_mro;
    Py_ssize_t place = 0;
    *value = NULL;
    *owner = NULL;
    if (mro == NULL) {
        return false;
    }
    if (after != NULL) {
        PyObject *class = weakly_referenced(after);
        while (place < PyTuple_GET_SIZE(mro) && PyTuple_GET_ITEM(mro, place) != class) {
            place++;
        }
        if (place++ == PyTuple_GET_SIZE(mro)) {
            return false;
        }
    }
    for (; place < PyTuple_GET_SIZE(mro); place++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, place);
        PyObject *dictionary = type_dict(base);
        *value = dictionary == NULL ? NULL : dict_get_string(dictionary, name);
        if (*value != NULL) {
            *owner = base;
            return true;
        }
    }
    return true;
}

static bool
same_mro(PyTypeObject *type, PyObject *expected)
{
    PyObject *mro = type->tp_mro;
    if (mro == NULL || PyTuple_GET_SIZE(mro) != PyTuple_GET_SIZE(expected)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        if (PyTuple_GET_ITEM(mro, i) != weakly_referenced(PyTuple_GET_ITEM(expected, i))) {
            return false;
        }
    }
    return true;
}

static bool
lookup_passes(PyTypeObject *type, Lookup *lookup, PyObject **value)
{
    PyTypeObject *owner;
    *value = NULL;
    if (lookup->kind == LOOKUP_MRO) {
        *value = type->tp_mro;
        return same_mro(type, lookup->payload);
    }
    if (!look_up(type, lookup->name, lookup->after, value, &owner)) {
        return false;
    }
    switch (lookup->kind) {
        case LOOKUP_IS:
            return *value == lookup->payload;
        case LOOKUP_IS_WEAK:
            return *value != NULL && *value == weakly_referenced(lookup->payload);
        case LOOKUP_IN_CLASS:
            return owner != NULL && (PyObject *)owner == weakly_referenced(lookup->payload);
        default:
            return *value == NULL;
    }
}

/* The tag differs: ask each name, and take the tag that stands for these answers from now on. */
static NOINLINE bool
ask_by_name(ClassRow *row, PyTypeObject *type)
{
    PyObject *value;
    for (Py_ssize_t i = 0; i < row->count; i++) {
        if (!lookup_passes(type, &row->lookups[i], &value)) {
            return false;
        }
    }
    if (row->by_name) {
        return true;
    }
    if (type_version(type) == 0) {
        _PyType_Lookup(type, row->lookups[0].name);   /* gives it a tag, if there are any left */
    }
    row->tag = type_version(type);
    return true;
}

bool
class_row_passes(ClassRow *row)
{
    PyTypeObject *type = (PyTypeObject *)weakly_referenced(row->reference);
    if (type == NULL) {
        return false;
    }
    if (likely(row->tag != 0 && type_version(type) == row->tag)) {
        return true;
    }
    return ask_by_name(row, type);
}

PyObject *
class_row_failure(ClassRow *row, Py_ssize_t index)
{
    PyTypeObject *type = (PyTypeObject *)weakly_referenced(row->reference);
    if (type == NULL) {
        return Py_BuildValue("(nssO)", index, "", "alive", Py_None);
    }
    for (Py_ssize_t i = 0; i < row->count; i++) {
        PyObject *value;
        if (!lookup_passes(type, &row->lookups[i], &value)) {
            return Py_BuildValue("(nOsO)", index, row->lookups[i].name, lookup_kinds[row->lookups[i].kind],
                                 value == NULL ? unbound : value);
        }
    }
    Py_RETURN_NONE;
}

/* -- functions -------------------------------------------------------------------------------------------------- */

static bool
defaults_pass(FunctionRow *row, PyFunctionObject *function)
{
    PyObject *defaults = function->func_defaults;
    if (row->default_count < 0) {
        return true;
    }
    Py_ssize_t count = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    if (count != row->default_count) {
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!value_passes(&row->defaults[i], PyTuple_GET_ITEM(defaults, i))) {
            return false;
        }
    }
    return true;
}

static bool
keyword_defaults_pass(FunctionRow *row, PyFunctionObject *function)
{
    PyObject *defaults = function->func_kwdefaults;
    if (row->keyword_count < 0) {
        return true;
    }
    Py_ssize_t count = defaults == NULL ? 0 : PyDict_GET_SIZE(defaults);
    if (count != row->keyword_count) {
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        DictCheck *check = &row->keywords[i];
        if (!value_passes(check, find_value(defaults, check))) {
            return false;
        }
    }
    return true;
}

bool
function_row_passes(FunctionRow *row)
{
    PyFunctionObject *function = (PyFunctionObject *)weakly_referenced(row->reference);
    return function != NULL && function->func_code == row->code && defaults_pass(row, function)
           && keyword_defaults_pass(row, function);
}

PyObject *
function_row_failure(FunctionRow *row, Py_ssize_t index)
{
    PyFunctionObject *function = (PyFunctionObject *)weakly_referenced(row->reference);
    if (function == NULL) {
        return Py_BuildValue("(nssO)", index, "", "alive", Py_None);
    }
    if (function->func_code != row->code) {
        return Py_BuildValue("(nssO)", index, "__code__", "is", function->func_code);
    }
    if (!defaults_pass(row, function)) {
        PyObject *defaults = function->func_defaults;
        return Py_BuildValue("(nssO)", index, "__defaults__", "is", defaults == NULL ? Py_None : defaults);
    }
    PyObject *defaults = function->func_kwdefaults;
    return Py_BuildValue("(nssO)", index, "__kwdefaults__", "is", defaults == NULL ? Py_None : defaults);
}

/* -- making them ------------------------------------------------------------------------------------------------ */

static int
read_lookup(Lookup *lookup, PyObject *tuple)
{
    PyObject *name, *after, *kind, *payload;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "UOUO;a lookup is a tuple (name, after, kind, payload)", &name,
                                                   &after, &kind, &payload)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a lookup is a tuple (name, after, kind, payload)");
        }
        return -1;
    }
    int index = -1;
    for (int i = LOOKUP_IS; i <= LOOKUP_MRO; i++) {
        if (PyUnicode_CompareWithASCIIString(kind, lookup_kinds[i]) == 0) {
            index = i;
        }
    }
    if (index < 0) {
        PyErr_Format(PyExc_ValueError, "unknown kind of lookup %R", kind);
        return -1;
    }
    lookup->kind = index;
    lookup->name = Py_NewRef(name);
    PyUnicode_InternInPlace(&lookup->name);
    if (PyObject_Hash(lookup->name) == -1) {
        return -1;
    }
    if (after != Py_None && (lookup->after = PyWeakref_NewRef(after, NULL)) == NULL) {
        return -1;
    }
    if (index == LOOKUP_IS_WEAK || index == LOOKUP_IN_CLASS) {
        lookup->payload = PyWeakref_NewRef(payload, NULL);
        return lookup->payload == NULL ? -1 : 0;
    }
    if (index == LOOKUP_MRO && !PyTuple_Check(payload)) {
        PyErr_SetString(PyExc_TypeError, "the payload of an \"mro\" lookup is a tuple of weak references");
        return -1;
    }
    lookup->payload = Py_NewRef(payload);
    return 0;
}

int
read_class_row(void *record, PyObject *tuple)
{
    ClassRow *row = record;
    PyObject *type, *lookups;
    unsigned int tag;
    int by_name;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a class row is a tuple (class, tag, by name, lookups)");
        return -1;
    }
    if (!PyArg_ParseTuple(tuple, "O!IpO!;a class row is a tuple (class, tag, by name, lookups)", &PyType_Type, &type, &tag,
                          &by_name, &PyTuple_Type, &lookups)) {
        return -1;
    }
    row->reference = PyWeakref_NewRef(type, NULL);
    row->tag = by_name ? 0 : tag;
    row->by_name = by_name;
    row->lookups = records(PyTuple_GET_SIZE(lookups), sizeof(Lookup));
    if (row->reference == NULL || row->lookups == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lookups); i++) {
        row->count = i + 1;
        if (read_lookup(&row->lookups[i], PyTuple_GET_ITEM(lookups, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
read_checks(PyObject *tuples, DictCheck **checks, Py_ssize_t *count)
{
    *count = -1;
    if (tuples == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(tuples)) {
        PyErr_SetString(PyExc_TypeError, "defaults are a tuple of (key, kind, object), or None");
        return -1;
    }
    *checks = records(PyTuple_GET_SIZE(tuples), sizeof(DictCheck));
    if (*checks == NULL) {
        return -1;
    }
    *count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuples); i++) {
        *count = i + 1;
        if (read_check(&(*checks)[i], PyTuple_GET_ITEM(tuples, i), true) < 0) {
            return -1;
        }
    }
    return 0;
}

int
read_function_row(void *record, PyObject *tuple)
{
    FunctionRow *row = record;
    PyObject *function, *code, *defaults, *keywords;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a function row is a tuple (function, code, defaults, keyword defaults)");
        return -1;
    }
    if (!PyArg_ParseTuple(tuple, "O!O!OO;a function row is a tuple (function, code, defaults, keyword defaults)",
                          &PyFunction_Type, &function, &PyCode_Type, &code, &defaults, &keywords)) {
        return -1;
    }
    row->reference = PyWeakref_NewRef(function, NULL);
    row->code = Py_NewRef(code);
    if (row->reference == NULL || read_checks(defaults, &row->defaults, &row->default_count) < 0) {
        return -1;
    }
    return read_checks(keywords, &row->keywords, &row->keyword_count);
}

/* -- the garbage collector -------------------------------------------------------------------------------------- */

int
class_row_traverse(ClassRow *row, visitproc visit, void *arg)
{
    Py_VISIT(row->reference);
    for (Py_ssize_t i = 0; i < row->count; i++) {
        Py_VISIT(row->lookups[i].after);
        Py_VISIT(row->lookups[i].payload);
    }
    return 0;
}

int
function_row_traverse(FunctionRow *row, visitproc visit, void *arg)
{
    Py_VISIT(row->reference);
    Py_VISIT(row->code);
    int stop = traverse_checks(row->defaults, row->default_count, visit, arg);
    return stop ? stop : traverse_checks(row->keywords, row->keyword_count, visit, arg);
}

void
clear_class_rows(ClassRow **rows, Py_ssize_t *count)
{
    ClassRow *old = *rows;
    Py_ssize_t old_count = *count;
    *rows = NULL;
    *count = 0;
    for (Py_ssize_t i = 0; i < old_count; i++) {
        for (Py_ssize_t j = 0; j < old[i].count; j++) {
            Py_XDECREF(old[i].lookups[j].name);
            Py_XDECREF(old[i].lookups[j].after);
            Py_XDECREF(old[i].lookups[j].payload);
        }
        PyMem_Free(old[i].lookups);
        Py_XDECREF(old[i].reference);
    }
    PyMem_Free(old);
}

void
clear_function_rows(FunctionRow **rows, Py_ssize_t *count)
{
    FunctionRow *old = *rows;
    Py_ssize_t old_count = *count;
    *rows = NULL;
    *count = 0;
    for (Py_ssize_t i = 0; i < old_count; i++) {
        Py_XDECREF(old[i].reference);
        Py_XDECREF(old[i].code);
        free_checks(old[i].defaults, old[i].default_count);
        free_checks(old[i].keywords, old[i].keyword_count);
    }
    PyMem_Free(old);
}

static PyObject *
type_version_of(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "type_version() takes a class, not %.100s", Py_TYPE(type)->tp_name);
        return NULL;
    }
    if (type_version((PyTypeObject *)type) == 0) {
        PyObject *name = PyUnicode_InternFromString("__class__");
        if (name == NULL) {
            return NULL;
        }
        _PyType_Lookup((PyTypeObject *)type, name);
        Py_DECREF(name);
    }
    return PyLong_FromUnsignedLong(type_version((PyTypeObject *)type));
}

/* What `with` looks up: the class's attribute bound to the object, as the interpreter binds it. */
static PyObject *
special_method(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "special_method() takes an object and a name");
        return NULL;
    }
    PyTypeObject *type = Py_TYPE(args[0]);
    PyObject *attribute = Py_XNewRef(_PyType_Lookup(type, args[1]));
    if (attribute == NULL) {
        Py_RETURN_NONE;
    }
    descrgetfunc bind = Py_TYPE(attribute)->tp_descr_get;
    if (bind == NULL) {
        return attribute;
    }
    PyObject *method = bind(attribute, args[0], (PyObject *)type);
    Py_DECREF(attribute);
    return method;
}

/* From 3.14 on reading `__annotations__` for the first time runs code of the program. */
static PyObject *
evaluated_annotations(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (!PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "evaluated_annotations() takes a function, not %.100s", Py_TYPE(function)->tp_name);
        return NULL;
    }
    PyObject *annotations = ((PyFunctionObject *)function)->func_annotations;
    return Py_NewRef(annotations == NULL ? Py_None : annotations);
}

/* -- what a class has itself ------------------------------------------------------------------------------------ */

/* A text key whose class compares as text does. */
static inline bool
is_text_key(PyObject *key)
{
    return PyUnicode_CheckExact(key)
           || (PyUnicode_Check(key) && Py_TYPE(key)->tp_richcompare == PyUnicode_Type.tp_richcompare
               && Py_TYPE(key)->tp_hash == PyUnicode_Type.tp_hash);
}

/* `cls.__dict__`.  Where keys other than text may be in it, a copy of the names: looking a name up among those keys
   would call their `__eq__`. */
static PyObject *
names_of_class(PyObject *Py_UNUSED(module), PyObject *object)
{
    if (!PyType_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a class is expected");
        return NULL;
    }
    PyObject *own = type_dict((PyTypeObject *)object);
    if (own == NULL || dict_has_only_strings(own)) {
        return own == NULL ? PyDict_New() : PyDictProxy_New(own);
    }
    PyObject *names = PyDict_New(), *key, *value;
    Py_ssize_t place = 0;
    while (names != NULL && PyDict_Next(own, &place, &key, &value)) {
        if (!is_text_key(key)) {
            continue;
        }
        PyObject *name = PyUnicode_FromObject(key);
        if (name == NULL || PyDict_SetItem(names, name, value) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

/* Whether looking a name up in a class's dictionary may call the `__eq__` of a key that is no text. */
static PyObject *
compares_name(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyType_Check(arguments[0]) || !PyUnicode_CheckExact(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "compares_name(cls, name)");
        return NULL;
    }
    PyObject *own = type_dict((PyTypeObject *)arguments[0]);
    if (own == NULL || dict_has_only_strings(own)) {
        Py_RETURN_FALSE;
    }
    Py_hash_t hash = PyObject_Hash(arguments[1]);
    PyDictKeysObject *keys = ((PyDictObject *)own)->ma_keys;
    PyDictKeyEntry *entries = DK_ENTRIES(keys);
    for (Py_ssize_t place = 0; place < keys->dk_nentries; place++) {
        if (entries[place].me_value != NULL && entries[place].me_hash == hash && !is_text_key(entries[place].me_key)) {
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

PyMethodDef lookup_functions[] = {
    {"compares_name", (PyCFunction)(void (*)(void))compares_name, METH_FASTCALL,
     "compares_name(cls, name) -> bool: whether looking it up in the class's dictionary may call a key's `__eq__`."},
    {"names_of_class", names_of_class, METH_O,
     "names_of_class(cls) -> mapping: its own attributes; keys that are no text, whose `__eq__` a lookup would call, are left out."},
    {"evaluated_annotations", evaluated_annotations, METH_O,
     "evaluated_annotations(function) -> object or None: its annotations, if they are evaluated; runs no code."},
    {"special_method", (PyCFunction)(void (*)(void))special_method, METH_FASTCALL,
     "special_method(object, name) -> method: what the class has under the name, bound to the object; None when it has nothing."},
    {"type_version", type_version_of, METH_O,
     "type_version(cls) -> int: what stands for all lookups through the class; 0 when it can have none."},
    {NULL, NULL, 0, NULL},
};
