/* One fact about a dictionary: what stands under a key, compared by pointer, found where it stood last.  (Of a list: at an index.)

   No user code runs: keys are compared by value only where they are strings or integers, values by identity. */

#ifndef DYNEXPLORE_DICT_CHECK_H
#define DYNEXPLORE_DICT_CHECK_H

#include "native.h"

enum Kind { IS, IS_WEAK, EQUAL, ANY, ITEMS, EMPTY, ABSENT, SOME };

extern const char *const kind_names[];

typedef struct DictCheck {
    PyObject *key;
    PyObject *payload;            /* IS, EQUAL: the object; IS_WEAK: a weak reference to it; else NULL */
    Py_ssize_t hint;              /* where in its dictionary the key stood last */
    enum Kind kind;
    Py_ssize_t item_count;        /* ITEMS: all that the dictionary holds, in order; SOME: those that are asked for */
    struct DictCheck *items;
    uint64_t version;             /* ITEMS, SOME: of the dictionary when it last passed; 0: unknown */
} DictCheck;

/* -- finding a key ---------------------------------------------------------------------------------------------- */

/* What a builtin type's own comparison says; keys that compare by a method of the program's own are taken for others. */
static bool
equal_by(PyTypeObject *type, PyObject *a, PyObject *b)
{
    if (Py_TYPE(a)->tp_richcompare != type->tp_richcompare) {
        return false;
    }
    PyObject *answer = type->tp_richcompare(a, b, Py_EQ);
    Py_XDECREF(answer);                 /* True and False outlive it */
    return answer == Py_True;
}

/* Equality of keys without user code: text and integers by value (1 is True and 1.0, too), everything else by identity. */
static bool
same_key(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    if (PyUnicode_Check(b)) {
        return PyUnicode_Check(a) && equal_by(&PyUnicode_Type, a, b);
    }
    if (!PyLong_Check(b)) {
        return false;
    }
    return PyLong_Check(a) ? equal_by(&PyLong_Type, a, b)
           : PyFloat_Check(a) ? equal_by(&PyFloat_Type, a, b)
           : PyComplex_Check(a) && equal_by(&PyComplex_Type, a, b);
}

/* The key is not where it stood: look everywhere, and remember. */
static inline PyObject *
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

/* Equal, of one exact builtin type whose comparison runs no user code. */
static inline bool
equal_constants(PyObject *value, PyObject *expected)
{
    if (PyFloat_CheckExact(value) && PyFloat_CheckExact(expected)) {     /* by bits: NaN is NaN, -0.0 is not 0.0 */
        return memcmp(&((PyFloatObject *)value)->ob_fval, &((PyFloatObject *)expected)->ob_fval, sizeof(double)) == 0;
    }
    return value == expected
           || (Py_TYPE(value) == Py_TYPE(expected)
               && (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value))
               && PyObject_RichCompareBool(value, expected, Py_EQ) == 1);
}

static inline bool
value_passes(DictCheck *check, PyObject *value)
{
    switch (check->kind) {
        case IS:
            return value == check->payload;
        case IS_WEAK:
            return value != NULL && value == weakly_referenced(check->payload);
        case EQUAL:
            return value != NULL && equal_constants(value, check->payload);
        default:
            return value != NULL;
    }
}


/* guard_walk.c: made of tuples (key, kind, payload), and freed. */
int read_check(DictCheck *check, PyObject *tuple, bool of_item);
int traverse_checks(DictCheck *checks, Py_ssize_t count, visitproc visit, void *arg);
void free_checks(DictCheck *checks, Py_ssize_t count);
void *records(Py_ssize_t count, size_t size);

#endif
